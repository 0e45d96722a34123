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
import tempfile
import time

import record
import workloads
from record import HERE, OUT, median, tell

CURRENT = os.environ.get("BENCH_PYTHON_CURRENT", "/opt/torchvenv/bin/python")


class Opponent:
    """A program of the environment CURRENT, with known settings that make it faster (README.md)."""

    def __init__(self, name, extra=(), script="twin.py"):
        self.name, self.python, self.extra, self.script = name, CURRENT, list(extra), script

    def there(self):
        return os.path.exists(self.python)

    def command(self, w, dtype, threads):
        c = [self.python, os.path.join(HERE, self.script)] + w.twin + self.extra + ["--dtype", dtype, "--threads", str(threads)]
        if w.twin[0] == "train":
            c += ["--ids", ids_file(w.model["vocab"])]
        return c

    def environment(self, threads, folder):
        # What torch.compile makes is of this session: a run that was killed leaves files in part.
        return dict(record.tuned(threads), TORCHINDUCTOR_CACHE_DIR=folder)


class OtherBuild(Opponent):
    """Another build of moefw, for example that of an older commit: BENCH_OTHER names its program."""

    def __init__(self):
        super().__init__("moefw-other")
        self.python = os.environ.get("BENCH_OTHER", "")

    def environment(self, threads, folder):
        return dict(os.environ)

    def command(self, w, dtype, threads):
        return our_command(w, dtype, threads, self.python)


OPPONENTS = {o.name: o for o in (
    Opponent("torch-tuned"),
    Opponent("torch-compiled", ["--compile"]),
    Opponent("torch-grouped", ["--how", "grouped"]),
    Opponent("torch-loop", ["--how", "loop"]),
    Opponent("llama", script="twin_llama.py"),
    OtherBuild(),
)}


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
    if w.model and w.model["ids"]:
        c += ["--set", "data.path=" + ids_file(w.model["vocab"]), "--set", "data.format=bin"]
    if dtype == "bf16":
        c += ["--set", "train.dtype=bf16"]
    return c


def session(w, o, dtype, threads, pairs, seconds):
    k = record.key(w.name, o.name, dtype, threads)
    missing = pairs - record.done(k)
    if missing <= 0:
        return
    tell("%s, %s, %d threads, against %s: %d pairs" % (w.name, dtype, threads, o.name, missing))
    began = time.time()
    machine = record.limits(threads)
    # Waiting threads must sleep: two programs share the cores and run alternately.
    folder = tempfile.TemporaryDirectory(prefix="moefw-bench-")
    theirs = Side(o.command(w, dtype, threads), o.environment(threads, folder.name), not isinstance(o, OtherBuild))
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
    folder.cleanup()
    here, there = ours.about.get("params"), theirs.about.get("params")
    if here and there and here != there and o.script == "twin.py": # llama.cpp has no weights of noise
        tell("  parameters differ: %s here, %s there" % (here, there))
    record.add(k, machine, got, ours.about, theirs.about)


def main():
    a = argparse.ArgumentParser(description="pairs of moefw and an opponent, run alternately")
    a.add_argument("workloads", nargs="*", help="all, if none is named; `router`, `layer` and `olmoe` stand for all of them")
    a.add_argument("--pairs", type=int, default=7)
    a.add_argument("--threads", type=int, default=0, help="the workload's own number, if 0")
    a.add_argument("--dtype", choices=("f32", "bf16"))
    a.add_argument("--against", action="append", choices=list(OPPONENTS))
    a.add_argument("--seconds", type=float, default=0, help="stop after the pair that passes this time")
    o = a.parse_args()
    os.makedirs(OUT, exist_ok=True)
    for w in workloads.chosen(o.workloads):
        for dtype in w.dtypes:
            if o.dtype not in (None, dtype):
                continue
            for name in o.against or w.opponents:
                if OPPONENTS[name].there() and (name in w.opponents or name == "moefw-other"):
                    session(w, OPPONENTS[name], dtype, o.threads or w.threads, o.pairs, o.seconds)


if __name__ == "__main__":
    main()
