"""Writes RESULTS.md from out/*.jsonl: one section for each machine, all of it on that machine's newest commit.
Sections of machines that out/pairs.jsonl does not have are kept.

    table.py [FILE]         default: RESULTS.md of this folder
"""
import os
import re
import sys

import workloads
from record import HERE, OUT, median, read

NAMES = {"torch-tuned": "eager", "torch-compiled": "compiled", "torch-grouped": "grouped_mm", "torch-loop": "one gemm an expert",
         "llama": "llama.cpp", "transformers": "transformers", "moefw-other": "another build"}
LIMITS = [
    ("fma_f32", "multiply-adds on registers, f32, GFLOP/s"), ("fma_bf16", "the same by vdpbf16ps, bf16, GFLOP/s"),
    ("amx_bf16", "the same by tdpbf16ps (AMX), bf16, GFLOP/s"), ("blas_f32", "OpenBLAS, 1024^3, f32, GFLOP/s"),
    ("read_gb", "reading memory, GB/s"), ("read_cache_gb", "reading 6 MiB again and again, GB/s"),
    ("adamw_gb", "one AdamW pass over 128 MiB, GB/s moved"), ("adamw_memory_gb", "one AdamW pass over 1 GiB, GB/s moved"),
]
HEAD = """# Speed, side by side

<!-- written by table.py from out/pairs.jsonl -->

Two programs run alternately on one machine, in one run; times are medians, ratios are those of pairs, with the lowest and the highest
([README.md](README.md) has the method and the commands, [notes.md](notes.md) what was tried). *here* is moefw, *there* the opponent; a
ratio above 1 means that moefw is faster. Of PyTorch's forms the faster one is shown, with the ratio to the other one behind it. *limit*
is the share of a time that no program with these shapes can go below, and behind it the ratio of a program that reaches it; the last
table says which limit it is.
"""


class Cell:
    """All pairs of one workload against one opponent."""

    def __init__(self, records):
        self.last = records[-1]
        self.w = workloads.ALL[self.last["workload"]]
        self.pairs = [p for r in records for p in r["pairs"]]
        self.ours, self.theirs = median([a for a, _ in self.pairs]), median([b for _, b in self.pairs])
        ratios = sorted(b / a for a, b in self.pairs)
        self.ratio, self.low, self.high = median(ratios), ratios[0], ratios[-1]
        self.share = median([self.w.limit(r["limits"], r["dtype"], r["ours"].get("params", 0)) / median([a for a, _ in r["pairs"]])
                             for r in records])
        self.kind = "PyTorch " + version(self.last) if self.last["opponent"].startswith("torch-") else NAMES[self.last["opponent"]]


def version(record):
    return ".".join(record["theirs"].get("torch", "?").split("+")[0].split(".")[:2])


def number(v):
    return "{:,.0f}".format(v) if v >= 1000 else "%.3g" % v


def cells_of(records):
    """The best opponent of each kind, and the ratios to the others of that kind."""
    by = {}
    for r in records:
        by.setdefault((r["workload"], r["dtype"], r["threads"], r["opponent"]), []).append(r)
    kinds = {}
    for k, part in by.items():
        c = Cell(part)
        kinds.setdefault(k[:3] + (c.kind,), []).append(c)
    names, order = list(workloads.ALL), {"f32": 0, "bf16": 1}
    for k in sorted(kinds, key=lambda k: (names.index(k[0]), order.get(k[1], 2), k[2], not k[3].startswith("PyTorch"), k[3])):
        yield sorted(kinds[k], key=lambda c: c.ratio)


def table(groups):
    print("| work | type · threads | against | here ms | there ms | ratio (lowest–highest of pairs) | other form | limit (ratio there) |")
    print("|---|---|---|---|---|---|---|---|")
    for best, *others in groups:
        r = best.last
        against = best.kind
        if r["opponent"].startswith("torch-"):
            against = "best of " + best.kind if others else best.kind
            against += " (%s)" % NAMES[r["opponent"]]
        print("| %s | %s · %d | %s | %s | %s | **%.2f** (%.2f–%.2f of %d) | %s | %.0f %% (%.2f) |" % (
            best.w.text, r["dtype"], r["threads"], against, number(best.ours), number(best.theirs), best.ratio, best.low, best.high,
            len(best.pairs), ", ".join("%s %.2f" % (NAMES[c.last["opponent"]], c.ratio) for c in others), 100 * best.share, best.ratio / best.share))
    print()


def machine(records):
    print("| limit | 1 thread | 2 threads |\n|---|---|---|")
    for name, text in LIMITS:
        cells = []
        for t in (1, 2):
            # sessions of two threads read memory by one thread, too
            v = [r["limits"][name] for r in records if r["threads"] == t and name in r["limits"]]
            if name == "read_gb" and t == 1:
                v = [r["limits"]["read_one_gb"] for r in records if "read_one_gb" in r["limits"]]
            cells.append("%.0f (%.0f–%.0f)" % (median(v), min(v), max(v)) if v else "")
        if any(cells):
            print("| %s | %s |" % (text, " | ".join(cells)))
    print()


def versions(records):
    """Versions of the opponents, as they told them."""
    found = {}
    for r in records:
        for name, text in (("torch", "PyTorch"), ("transformers", "transformers"), ("llama", "llama-cpp-python")):
            if name in r["theirs"]:
                found[text] = r["theirs"][name].split("+")[0]
    return ", ".join("%s %s" % pair for pair in found.items())


def section(cpu, records):
    newest = max(records, key=lambda r: r["date"])["commit"]
    others = sum(r["commit"] != newest for r in records)
    if others:
        print("table.py: %s: %d records of other commits than %s are skipped" % (cpu, others, newest), file=sys.stderr)
    records = [r for r in records if r["commit"] == newest]
    dates = sorted(r["date"] for r in records)
    groups = list(cells_of(records))
    print("## %s\n" % cpu)
    print("moefw %s, %s to %s UTC; %s. Instructions: %s. The limits are medians (lowest–highest) of the sessions' minutes.\n" % (
        newest, dates[0], dates[-1], versions(records), records[-1]["flags"]))
    machine(records)
    for title, of in (("Models", lambda n: "-" not in n or n.startswith("big-")), ("Layers", lambda n: n.startswith(("olmoe-", "layer-"))),
                      ("Routers", lambda n: n.startswith("router-"))):
        chosen = [g for g in groups if of(g[0].w.name)]
        if chosen:
            print("### %s\n" % title)
            table(chosen)
    latest(read(os.path.join(OUT, "verify.jsonl")), cpu, "workload", "The same work",
           lambda r: "| %s | %s | %s |" % (r["workload"], r["text"], "same" if r["same"] else "**different**"))
    latest(read(os.path.join(OUT, "alone.jsonl")), cpu, "what", "Start, memory, growth, sameness",
           lambda r: "| %s | %s | %s: %s |" % (r["what"], r["measured"], r["goal"], "reached" if r["reached"] else "**not reached**"))


def latest(records, cpu, name, title, line):
    found = {r[name]: r for r in records if r.get("cpu") == cpu}
    if found:
        print("### %s\n\n| what | measured | |\n|---|---|---|" % title)
        for r in found.values():
            print(line(r))
        print()


def kept(path, measured):
    """Sections of machines that were measured elsewhere."""
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        parts = re.split(r"^(?=## )", f.read(), flags=re.M)[1:]
    return "".join(p for p in parts if p[3:].split("\n")[0] not in measured and "\n\nmoefw " in p)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "RESULTS.md")
    by = {}
    for r in read():
        if r["workload"] in workloads.ALL and r["opponent"] in NAMES:
            by.setdefault(r["cpu"], []).append(r)
    if not by:
        raise SystemExit("table.py: no pairs in %s: run.sh makes them" % OUT)
    others = kept(path, by)
    with open(path + "-t", "w") as f:
        sys.stdout = f
        print(HEAD)
        for cpu, records in by.items():
            section(cpu, records)
        f.write(others)
        print("## Limits\n\n| work | limit |\n|---|---|")
        says = {}
        for w in workloads.ALL.values():
            says.setdefault(w.limit.says, []).append(w.name)
        for text, names in says.items():
            print("| %s | %s |" % (", ".join(names), text))
        sys.stdout = sys.__stdout__
    os.replace(path + "-t", path)


if __name__ == "__main__":
    main()
