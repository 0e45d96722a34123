"""Pairs on a GPU: moefw's CUDA backend and what people use today, alternately, on one machine.

    pairs.py [--dry-run] [--small] [--pairs N] [--page FILE] [WORKLOAD...]

Workloads (all, if none is named):
    grouped   a gemm of experts with gathered rows: torch._grouped_mm, and a loop of cuBLAS gemms
    lamoe     a training step: PyTorch eager and compiled, bf16
    gpt2      the same of GPT-2 124M; its MFU beside the one that llm.c publishes
    decode    one token at a time with the cache: PyTorch eager

--dry-run runs nothing and prints the commands; --small takes models that an emulator can run, whose
times mean nothing. Without a GPU or PyTorch it says so and ends with 6.
The page (CUDA.md in the folder out) has all that is needed to read it elsewhere. See README.md.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
HERE = os.path.dirname(FOLDER)
OUT = os.path.join(HERE, "out")
MISSING = 6
# Of scripts/run_gpt2_1558M.sh of llm.c: 8 H100, 2.7 s a step of 1,048,576 tokens, 6 N D, 989.4 TFLOP/s.
LLM_C_MFU = 6 * 1.558e9 * 1048576 / 2.7 / 8 / 989.4e12
# experts, rows of all of them, inner and outer dimension: the last ones are fine-grained
GROUPED = [(8, 16384, 4096, 4096), (64, 32768, 2048, 1408), (128, 65536, 2048, 1536)]
SMALL = ["--set", "model.dim=16", "--set", "model.layers=1", "--set", "model.heads=2", "--set", "model.kv_heads=1", "--set",
         "expert.hidden=16", "--set", "model.vocab=256", "--set", "model.seq=16", "--set", "train.batch=2"]
TRAIN = {"lamoe": ["--set", "train.batch=32"], "gpt2": ["--set", "train.batch=16", "--set", "model.seq=1024"]}


def median(v):
    v = sorted(v)
    return v[len(v) // 2] if len(v) % 2 else (v[len(v) // 2 - 1] + v[len(v) // 2]) / 2


class Side:
    """A process that runs a workload N times when told to (moefw bench --turns, twin.py)."""

    def __init__(self, command):
        self.command = command
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)

    def line(self):
        text = self.p.stdout.readline()
        if not text:
            raise RuntimeError("%s ended with status %s" % (shlex.join(self.command), self.p.wait()))
        return json.loads(text)

    def turn(self, n):
        self.p.stdin.write("%d\n" % n)
        self.p.stdin.flush()
        return self.line()["ms"]

    def end(self):
        self.p.stdin.close()
        about = self.line()
        self.p.wait()
        return about


def ours(name, program, small):
    if name == "decode":
        words = ["generate", "lamoe.ini"] + (["--prompt", "4", "--tokens", "2"] if small else ["--prompt", "16", "--tokens", "128"])
    else:
        words = ["train", name + ".ini"] + TRAIN[name]
    return [program, "bench"] + words + ["--json", "--turns", "--device", "cuda", "--set", "train.dtype=bf16",
                                        "--set", "device.strict=yes"] + (SMALL if small else [])


def layer(program, shape):
    """moefw's MoE layer of this shape: router, gathered gemms, sum."""
    experts, rows, inner, outer = shape
    return [program, "bench", "layer", "--json", "--turns", "--device", "cuda", "--forward", "--set", "train.dtype=bf16",
            "--set", "device.strict=yes", "--experts", str(experts), "--top-k", "1", "--tokens", str(rows),
            "--dim", str(inner), "--hidden", str(outer)]


def theirs(name, how, python):
    words = [python, os.path.join(FOLDER, "twin.py"), name, "--how", how]
    return words + (["--batch", "32", "--seq", "300"] if name == "lamoe" else ["--batch", "16", "--seq", "1024"] if name == "gpt2" else [])


def theirs_layer(shape, how, python):
    return [python, os.path.join(FOLDER, "twin.py"), "grouped", "--how", how, "--shape", ",".join(map(str, shape))]


def planned(names, program, python, small):
    """(name, opponent, our command, their command) of all pairs."""
    for name in names:
        if name == "grouped":
            for shape in [(4, 32, 16, 16)] if small else GROUPED:
                for how in ("grouped_mm", "loop"):
                    yield "grouped %d x %d, %d to %d" % (shape[0], shape[1] // shape[0], shape[2], shape[3]), how, layer(
                        program, shape), theirs_layer(shape, how, python)
        else:
            for how in ("eager",) if name == "decode" else ("eager", "compiled"):
                yield name, how, ours(name, program, small), theirs(name, how, python)


def pair(mine, other, n):
    a, b = Side(mine), Side(other)
    here, there = [], []
    for i in range(n):
        for side, to in ((a, here), (b, there)) if i % 2 == 0 else ((b, there), (a, here)):
            to.append(median(side.turn(3)))
    about = a.end()
    b.end()
    return here, there, about


def missing(program, python):
    """Why nothing can be measured; None if it can."""
    said = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False).stdout
    if "compute capability" not in said:
        # doctor's line of CUDA, with the lines that continue it
        part = re.search(r"^CUDA +(.*(?:\n .*)*)", said, re.M)
        return "moefw sees no GPU: " + (re.sub(r"\s*\n\s+", "; ", part[1]) if part else "moefw doctor failed")
    try:
        code = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
        if subprocess.run([python, "-c", code], capture_output=True, check=False).returncode != 0:
            return "%s has no PyTorch that sees a GPU; BENCH_PYTHON_CURRENT names another Python" % python
    except OSError as e:
        return "%s: %s" % (python, e.strerror)
    return None


def row(name, how, here, there, about):
    ratios = sorted(t / h for h, t in zip(here, there))
    mfu = about.get("fraction_of_peak")
    return "| %s | %s | %.3f | %.3f | %.2f (%.2f to %.2f) | %s |" % (
        name, how, median(here), median(there), median(ratios), ratios[0], ratios[-1],
        "%.1f %%" % (100 * mfu) if mfu is not None else "not known")


def write_page(path, rows, failed, program):
    doctor = subprocess.run([program, "doctor"], capture_output=True, text=True, check=False).stdout
    with open(path + "-t", "w", encoding="utf-8") as f:
        f.write("# moefw on a GPU, beside what people use\n\n%s\n\n" % time.strftime("%Y-%m-%d"))
        f.write("| workload | opponent | moefw, ms | opponent, ms | ratio (above 1: moefw is faster) | share of the peak |\n")
        f.write("|---|---|---|---|---|---|\n" + "".join(r + "\n" for r in rows))
        f.write("\nllm.c publishes %.1f %% MFU for GPT-2 1.6B on 8 H100 (6 N D).\n" % (100 * LLM_C_MFU))
        f.writelines("\nFailed: %s\n" % x for x in failed)
        f.write("\n## The machine\n```\n%s```\n" % doctor)
    os.replace(path + "-t", path)


def main():
    a = argparse.ArgumentParser(description="pairs on a GPU")
    a.add_argument("workloads", nargs="*", help="grouped lamoe gpt2 decode; all, if none is named")
    a.add_argument("--dry-run", action="store_true")
    a.add_argument("--small", action="store_true")
    a.add_argument("--pairs", type=int, default=7)
    a.add_argument("--page", default=os.path.join(OUT, "CUDA.md"))
    o = a.parse_args()
    all_names = ["grouped", "lamoe", "gpt2", "decode"]
    for name in o.workloads:
        if name not in all_names:
            a.error("unknown workload '%s' (expected %s)" % (name, ", ".join(all_names)))
    program = os.path.abspath(os.environ.get("MOEFW", os.path.join(HERE, "..", "build", "moefw")))
    python = os.environ.get("BENCH_PYTHON_CURRENT", "/opt/torchvenv/bin/python")
    pairs = list(planned(o.workloads or all_names, program, python, o.small))
    if o.dry_run:
        for name, how, mine, other in pairs:
            print("%s, %s:\n  %s\n  %s" % (name, how, shlex.join(mine), shlex.join(other)))
        return 0
    why = missing(program, python)
    if why:
        print("run.sh: %s" % why, file=sys.stderr)
        return MISSING
    os.makedirs(os.path.dirname(os.path.abspath(o.page)), exist_ok=True)
    rows, failed = [], []
    for name, how, mine, other in pairs:
        try:
            rows.append(row(name, how, *pair(mine, other, o.pairs)))
            print(rows[-1], file=sys.stderr, flush=True)
        except (RuntimeError, ValueError, OSError) as e:
            failed.append("%s, %s: %s" % (name, how, e))
            print("run.sh: " + failed[-1], file=sys.stderr, flush=True)
        write_page(o.page, rows, failed, program)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
