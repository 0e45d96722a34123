#!/usr/bin/env python3
"""Two ranks of one thread against one process of two threads, of moefw and of PyTorch, in one run.

    ddp.py [--pairs N] [--steps N] [--dtype f32|bf16] [--out FILE]

The model is LaMoE with two micro-batches of 8 x 300 a step. PyTorch divides them by
DistributedDataParallel over gloo, moefw by MPI. Each round runs the four sides one after another,
and another one begins; of each run the first two steps are not counted. Prints the times of a step,
and the ratios PyTorch / moefw of one process and of two ranks: moefw gains from ranks what PyTorch
gains if the second is not below the first.
  MOEFW    the program to measure (build/moefw of this tree)
  MPIRUN   the launcher of its communicator module, with options (mpirun --bind-to none)
  BENCH_PYTHON_CURRENT   as for run.py
"""
import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time

import run

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL, ACCUMULATE, SKIPPED = "lamoe", 2, 2
VOCAB = 30000


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def finish(processes):
    """The standard output of each process; all must end well."""
    texts = [p.communicate()[0] for p in processes]
    for p in processes:
        if p.returncode:
            raise SystemExit("%s ended with status %s" % (" ".join(p.args), p.returncode))
    return texts


def torch_side(o, opponent, ranks):
    threads = 2 // ranks
    command = [opponent.python, os.path.join(HERE, "twin_ddp.py"), MODEL, "--ids", run.ids_file(VOCAB), "--dtype", o.dtype,
               "--threads", str(threads), "--steps", str(o.steps), "--accumulate", str(ACCUMULATE)] + opponent.extra
    environment = run.record.tuned(threads)
    environment.pop("RANK", None)
    environment.pop("WORLD_SIZE", None)
    if ranks == 1:
        return json.loads(finish([subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=HERE)])[0])
    environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), GLOO_SOCKET_IFNAME="lo")
    return json.loads(finish([subprocess.Popen(command, env=dict(environment, RANK=str(r)), stdout=subprocess.PIPE, text=True,
                                               cwd=HERE) for r in range(ranks)])[0])


def our_side(o, ranks):
    program = os.environ.get("MOEFW", os.path.join(HERE, "../build/moefw"))
    launcher = [] if ranks == 1 else shlex.split(os.environ.get("MPIRUN", "mpirun --bind-to none")) + ["-n", str(ranks)]
    settings = {"data.path": run.ids_file(VOCAB), "data.format": "bin", "train.accumulate": ACCUMULATE, "train.warmup": 1,
                "train.log_every": 1, "train.eval_every": 0, "train.save_every": 0, "train.eval_batches": 1,
                "train.final_batches": 1, "report.enabled": "no", "train.dtype": o.dtype}
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        command = launcher + [program, "train", os.path.join(HERE, MODEL + ".ini"), "-q", "--out", out, "--steps", str(o.steps),
                              "-t", str(2 // ranks)]
        for key, value in settings.items():
            command += ["--set", "%s=%s" % (key, value)]
        finish([subprocess.Popen(command, stdout=subprocess.PIPE, text=True)])
        tokens = ACCUMULATE * 8 * 300
        lines = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
        steps = [line for line in lines if line["split"] == "train"]
    return {"ms": [1e3 * tokens / line["tokens_per_s"] for line in steps], "tokens": tokens,
            "loss": [line["loss"] for line in steps]}


def spread(v):
    return "%.3f (%.3f-%.3f of %d)" % (run.median(v), min(v), max(v), len(v))


def main():
    a = argparse.ArgumentParser(description="two ranks and one process, of moefw and of PyTorch")
    a.add_argument("--pairs", type=int, default=5)
    a.add_argument("--steps", type=int, default=8)
    a.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    a.add_argument("--out", default=os.path.join(run.OUT, "ddp.jsonl"))
    o = a.parse_args()
    opponent = run.OPPONENTS["torch-tuned"]
    if not opponent.there():
        raise SystemExit("ddp.py: no %s: set BENCH_PYTHON_CURRENT" % opponent.python)
    if o.steps <= SKIPPED:
        raise SystemExit("ddp.py: --steps %d: expected more than %d" % (o.steps, SKIPPED))
    os.makedirs(run.OUT, exist_ok=True)
    sides = {"here 1x2": lambda: our_side(o, 1), "here 2x1": lambda: our_side(o, 2),
             "there 1x2": lambda: torch_side(o, opponent, 1), "there 2x1": lambda: torch_side(o, opponent, 2)}
    names = list(sides)
    single, ranks, quotient, gain = [], [], [], []
    for i in range(o.pairs):
        t, record = {}, {}
        for name in names[i % 4 :] + names[: i % 4]:
            record[name] = sides[name]()
            t[name] = run.median(record[name]["ms"][SKIPPED:])
        if record["here 1x2"]["loss"] != record["here 2x1"]["loss"]:
            raise SystemExit("ddp.py: moefw's losses differ between one process and two ranks")
        single.append(t["there 1x2"] / t["here 1x2"])
        ranks.append(t["there 2x1"] / t["here 2x1"])
        quotient.append(ranks[-1] / single[-1])
        gain.append(t["here 1x2"] / t["here 2x1"])
        with open(o.out, "a") as f:
            f.write(json.dumps({"commit": run.commit(), "cpu": run.cpu(), "opponent": o.against, "dtype": o.dtype,
                                "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "sides": record}) + "\n")
        print("round %d  %s  ratio 1x2 %.3f, 2x1 %.3f" % (i + 1, "  ".join("%s: %.0f ms" % (n, t[n]) for n in names), single[-1],
                                                         ranks[-1]), flush=True)
    print("%s, %s: PyTorch / moefw, median and lowest to highest:" % (o.against, o.dtype))
    print("  one process, 2 threads   %s" % spread(single))
    print("  2 ranks, 1 thread each   %s" % spread(ranks))
    print("  the second by the first  %s" % spread(quotient))
    print("moefw, 1 x 2 / 2 x 1       %s" % spread(gain))
    return 0


if __name__ == "__main__":
    sys.exit(main())
