"""Runs pairs: moefw and an opponent alternately, on one machine, in one run.

    run.py [--pairs N] [--threads N] [--dtype f32|bf16] [--against OPPONENT]... [WORKLOAD...]

Both sides are started and warmed up, and stay; then they run alternately, and the side that begins
changes, so that other load on the machine affects both. Lines of JSON go to out/pairs.jsonl. Pairs
that exist for the same commit are not run again, so a killed run can be continued. See README.md.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import workloads

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
PAIRS = os.path.join(OUT, "pairs.jsonl")
BLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def has_avx512():
    with open("/proc/cpuinfo") as f:
        return " avx512f" in f.read()


class Opponent:
    """default: as installed. tuned: with known settings that make it faster (README.md)."""

    def __init__(self, name, python, tuned, extra=(), script="twin.py"):
        self.name, self.python, self.tuned, self.extra, self.script = name, python, tuned, list(extra), script

    def there(self):
        return os.path.exists(self.python)

    def command(self, w, dtype, threads):
        c = [self.python, os.path.join(HERE, self.script)] + w.twin + self.extra + ["--dtype", dtype, "--threads", str(threads)]
        if w.twin[0] == "train":
            c += ["--ids", ids_file(workloads.MODELS[w.twin[1]]["vocab"])]
        return c

    def environment(self, threads):
        e = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        # Old OpenBLAS takes unknown processors for very old ones, and nobody runs it like that.
        e.setdefault("OPENBLAS_CORETYPE", "SkylakeX" if has_avx512() else "Haswell")
        if self.tuned:
            e["LD_PRELOAD"] = JEMALLOC if os.path.exists(JEMALLOC) else ""
            e["MALLOC_CONF"] = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:never"
            e["ATEN_CPU_CAPABILITY"] = "avx512" if has_avx512() else "avx2"
            if os.path.isdir(BLAS):
                e["LD_LIBRARY_PATH"] = BLAS
        return e


class OtherBuild(Opponent):
    """Another build of moefw, for example that of an older commit: BENCH_OTHER names its program."""

    def __init__(self):
        super().__init__("moefw-other", os.environ.get("BENCH_OTHER", ""), False)

    def environment(self, threads):
        return dict(os.environ)

    def command(self, w, dtype, threads):
        return our_command(w, dtype, threads, self.python)


SYSTEM = os.environ.get("BENCH_PYTHON", "/usr/bin/python3")
CURRENT = os.environ.get("BENCH_PYTHON_CURRENT", "/opt/torchvenv/bin/python")
OPPONENTS = [
    Opponent("torch-tuned", SYSTEM, True, ["--tuned"]),
    Opponent("torch", SYSTEM, False),
    Opponent("torch2-tuned", CURRENT, True, ["--tuned"]),
    Opponent("torch2", CURRENT, False),
    Opponent("torch2-compiled", CURRENT, True, ["--tuned", "--compile"]),
    Opponent("llama", CURRENT, False, script="twin_llama.py"),
    OtherBuild(),
]


class Side:
    """A process that runs a workload N times when told to."""

    def __init__(self, command, environment, first_line):
        self.command = command
        self.p = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE)
        self.about = json.loads(self.line()) if first_line else {}

    def line(self):
        text = self.p.stdout.readline()
        if not text:
            raise SystemExit("%s ended with status %s" % (" ".join(self.command), self.p.wait()))
        return text

    def turn(self, n):
        self.p.stdin.write("%d\n" % n)
        self.p.stdin.flush()
        return json.loads(self.line())["ms"]

    def end(self):
        self.p.stdin.close()
        self.about.update(json.loads(self.line()))
        self.p.wait()


def median(v):
    v = sorted(v)
    return v[len(v) // 2] if len(v) % 2 else (v[len(v) // 2 - 1] + v[len(v) // 2]) / 2


def tell(text):
    print(text, file=sys.stderr, flush=True)


def limits(threads):
    e = dict(os.environ, OPENBLAS_NUM_THREADS="%d" % threads, OMP_NUM_THREADS="%d" % threads)
    e.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    return json.loads(subprocess.check_output([os.path.join(OUT, "limits"), str(threads)], text=True, env=e))


def cpu():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def flag(name):
    return " ".join(w for w in open("/proc/cpuinfo").read().split("flags", 1)[1].split("\n")[0].split() if w in name)


def commit():
    """The commit of the measured program: BENCH_COMMIT, or that of this tree."""
    if os.environ.get("BENCH_COMMIT"):
        return os.environ["BENCH_COMMIT"]
    try:
        text = subprocess.check_output(["git", "-C", HERE, "describe", "--always", "--dirty", "--abbrev=10"], text=True, stderr=subprocess.DEVNULL)
        return text.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def ids_file(vocab):
    """Tokens drawn evenly from the vocabulary, the same for both sides; nothing is downloaded."""
    path = os.path.join(OUT, "ids-%d.bin" % vocab)
    if not os.path.exists(path):
        import array
        import random

        draw = random.Random(vocab)
        with open(path + "-t", "wb") as f:
            array.array("H", (draw.randrange(vocab) for _ in range(400000))).tofile(f)
        os.rename(path + "-t", path)
    return path


def our_command(w, dtype, threads, program):
    c = [program] + w.ours + ["--json", "--turns", "--threads", str(threads)]
    model = next((m for m in workloads.MODELS if m + ".ini" in w.ours), None)
    if model:
        c += ["--set", "data.path=" + ids_file(workloads.MODELS[model]["vocab"]), "--set", "data.format=bin"]
    if dtype == "bf16":
        c += ["--set", "train.dtype=bf16"]
    return c


def done(key):
    """The number of pairs that exist."""
    n = 0
    if os.path.exists(PAIRS):
        for line in open(PAIRS):
            r = json.loads(line)
            if all(r[k] == v for k, v in key.items()):
                n += len(r["pairs"])
    return n


def session(w, o, dtype, threads, pairs, seconds):
    key = {"workload": w.name, "opponent": o.name, "dtype": dtype, "threads": threads, "commit": commit()}
    missing = pairs - done(key)
    if missing <= 0:
        return
    tell("%s, %s, %d threads, against %s: %d pairs" % (w.name, dtype, threads, o.name, missing))
    began = time.time()
    machine = limits(threads)
    # Waiting threads must sleep: two programs share the cores and run alternately.
    theirs = Side(o.command(w, dtype, threads), o.environment(threads), not isinstance(o, OtherBuild))
    ours = Side(our_command(w, dtype, threads, os.environ.get("MOEFW", "moefw")), dict(os.environ), False)
    for side in (theirs, ours):
        side.turn(2 if w.turn == 1 else w.turn)
    got = []
    for i in range(missing):
        a, b = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        n = w.turn if w.turn == 1 else w.turn + 1 # the first run finds the other program's data in the caches
        times = {}
        for side in (a, b):
            ms = side.turn(n)
            times[side] = median(ms[1:] if n > 1 else ms)
        got.append([times[ours], times[theirs]])
        if seconds and time.time() - began > seconds:
            break
    for side in (ours, theirs):
        side.end()
    about = ours.about
    if theirs.about.get("params") and about.get("params") and theirs.about["params"] != about["params"]:
        tell("  parameters differ: %s here, %s there" % (about["params"], theirs.about["params"]))
    machine["gemm_f32"] = max(machine["blas_f32"], machine["blas_f32_512"], about.get("peak_gflops", 0), theirs.about.get("gemm_f32", 0))
    machine["gemm_bf16"] = max(machine["gemm_f32"], theirs.about.get("gemm_bf16", 0), about.get("peak_gflops_bf16", 0))
    record = dict(key, date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()), cpu=cpu(), pairs=got, ours=about, theirs=theirs.about, limits=machine,
                  flags=flag("avx2 avx512f avx512_bf16 amx_bf16"))
    with open(PAIRS, "a") as f:
        f.write(json.dumps(record) + "\n")
    ratio = median([b / a for a, b in got])
    tell("  %.3f ms here, %.3f there: %.2f x" % (median([a for a, _ in got]), median([b for _, b in got]), ratio))


def main():
    a = argparse.ArgumentParser(description="pairs of moefw and an opponent, run alternately")
    a.add_argument("workloads", nargs="*", help="all, if none is named; `router` and `layer` stand for all of them")
    a.add_argument("--pairs", type=int, default=5)
    a.add_argument("--threads", type=int, default=0, help="the workload's own number, if 0")
    a.add_argument("--dtype", choices=("f32", "bf16"))
    a.add_argument("--against", action="append", choices=[o.name for o in OPPONENTS])
    a.add_argument("--seconds", type=float, default=0, help="stop after the pair that passes this time")
    o = a.parse_args()
    os.makedirs(OUT, exist_ok=True)
    for w in workloads.chosen(o.workloads):
        for dtype in w.dtypes:
            if o.dtype not in (None, dtype):
                continue
            for opponent in OPPONENTS:
                if o.against and opponent.name not in o.against:
                    continue
                if not opponent.there() or opponent.script != "twin.py" and w.name not in ("decode", "prompt"):
                    continue
                if opponent.name == "torch2-compiled" and not (o.against and w.twin[0] == "train"):
                    continue
                session(w, opponent, dtype, o.threads or w.threads, o.pairs, o.seconds)


if __name__ == "__main__":
    main()
