"""Measurements without an opponent: start, memory, growth with experts and with length, the same
bits at any number of threads, allocations. Lines of JSON go to out/alone.jsonl.

    alone.py [start|memory|experts|length|bits|loop|bf16]...
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from record import OUT, append, commit, median
from run import CURRENT, ids_file

MOEFW = os.environ.get("MOEFW", "moefw")
HERE = os.path.dirname(os.path.abspath(__file__))


def moefw(*words):
    text = subprocess.check_output([MOEFW] + list(words) + ["--json"], text=True, cwd=HERE, stdin=subprocess.DEVNULL)
    return json.loads(text.strip().splitlines()[-1])


def record(what, measured, goal, reached):
    append("alone.jsonl", dict(what=what, measured=measured, goal=goal, reached=bool(reached), commit=commit()))
    print("%s: %s (%s)" % (what, measured, goal), file=sys.stderr)


def wall(command):
    began = time.perf_counter()
    subprocess.check_call(command, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def start():
    runs = [moefw("bench", "train", "default", "--repetitions", "1", "--threads", "2") for _ in range(7)]
    first, rss = median([r["first_step_s"] for r in runs]), median([r["peak_rss_mib"] for r in runs])
    told = "no PyTorch"
    if os.path.exists(CURRENT):
        told = "`import torch` alone: %.2f s" % median([wall([CURRENT, "-c", "import torch"]) for _ in range(4)][1:])
    record("process start to the end of the first training step, preset default",
           "%.2f s, %.0f MiB (%s)" % (first, rss, told), "≤ 0.5 s, ≤ 80 MiB", first <= 0.5 and rss <= 80)


def memory():
    ids = ["--set", "data.path=" + ids_file(30000), "--set", "data.format=bin"]
    r = moefw("bench", "train", "lamoe.ini", "--repetitions", "3", "--threads", "2", *ids)
    record("peak memory, LaMoE training, batch 8 x 300, f32", "%.2f GiB" % (r["peak_rss_mib"] / 1024), "≤ 2.6 GiB", r["peak_rss_mib"] <= 2.6 * 1024)
    says = moefw("config", "check", "lamoe.ini", *ids)["memory_mib"]
    off = says / r["peak_rss_mib"] - 1
    record("what `config check` says of it before the start", "%.0f MiB, measured %.0f MiB: %+.1f %%" % (says, r["peak_rss_mib"], 100 * off),
           "within 10 %", abs(off) <= 0.1)


def layer(experts, tokens):
    return moefw("bench", "layer", "--routers", "linear", "--expert", "mlp", "--dim", "256", "--hidden", "1024", "--experts", str(experts),
                 "--top-k", "2", "--tokens", str(tokens), "--threads", "2", "--repetitions", "5")["ms"] / tokens


def experts():
    rounds = [(layer(8, 4096), layer(64, 4096)) for _ in range(5)]
    rise = median([b / a for a, b in rounds]) - 1
    record("time per token, 8 to 64 experts, top-2, 4,096 tokens (layer 256-1024-256, forward + backward)", "%+.1f %%" % (100 * rise), "≤ +15 %", rise <= 0.15)


def length():
    rounds = [(layer(8, 1024), layer(8, 8192)) for _ in range(5)]
    rise = median([b / a for a, b in rounds]) - 1
    record("time per token, 1,024 to 8,192 tokens (the same layer)", "%+.1f %%" % (100 * rise), "≤ +10 %", rise <= 0.1)
    small = ["--set", "model.layers=2", "--set", "model.dim=64", "--set", "model.heads=2", "--set", "expert.hidden=64", "--set", "train.batch=1"]
    mib = [moefw("bench", "train", "default", "--repetitions", "1", "--threads", "2", "--set", "model.seq=%d" % n, *small)["arena_mib"] for n in (2048, 4096, 8192)]
    growth = mib[2] / mib[1]
    record("memory of the graph at 2,048, 4,096, 8,192 tokens a sequence", " · ".join("%.1f MiB" % m for m in mib), "linear", growth <= 2.1)


def bits():
    sums = {}
    with tempfile.TemporaryDirectory() as t:
        for i, threads in enumerate((1, 2, 4, 2)):
            run = os.path.join(t, "run%d" % i)
            subprocess.check_call([MOEFW, "train", "default", "--set", "train.steps=30", "--set", "train.batch=4", "--threads", str(threads), "-q", "--out", run],
                                  stdout=subprocess.DEVNULL)
            found = [os.path.join(d, f) for d, _, fs in os.walk(run) for f in fs if f.startswith("model") and f.endswith(".safetensors")]
            sums[i] = [subprocess.check_output(["cksum"], stdin=open(f), text=True) for f in sorted(found)]
    same = all(s and s == sums[0] for s in sums.values())
    record("weights after 30 steps with 1, 2 and 4 threads and on repeat, f32", "the same bits" if same else "they differ", "the same bits", same)


def loop():
    r = moefw("bench", "train", "default", "--repetitions", "30", "--threads", "2")
    record("allocations and page faults a step, preset default, after 3 steps", "%.1f and %.1f" % (r["allocations_per_step"], r["page_faults_per_step"]), "none, and noise",
           r["allocations_per_step"] == 0 and r["page_faults_per_step"] < 2)


PARTS = {"start": start, "memory": memory, "experts": experts, "length": length, "bits": bits, "loop": loop}

if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    for word in sys.argv[1:] or PARTS:
        if word not in PARTS:
            raise SystemExit("alone.py: '%s': expected one of %s" % (word, ", ".join(PARTS)))
        PARTS[word]()
