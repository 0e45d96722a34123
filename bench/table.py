"""Prints RESULTS.md from out/*.jsonl: per workload and opponent the medians, the ratio pair by pair,
and the fraction of the floor. The text between the tables is in notes.md."""
import json
import os
import sys

import workloads
from run import OUT, PAIRS, median

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {
    "torch-tuned": "PyTorch 1.13 tuned", "torch": "PyTorch 1.13", "torch2-tuned": "PyTorch 2 tuned",
    "torch2": "PyTorch 2", "torch2-compiled": "PyTorch 2 compiled", "llama": "llama.cpp", "moefw-other": "another build",
}


def read(path):
    return [json.loads(line) for line in open(path)] if os.path.exists(path) else []


class Cell:
    """All pairs of one workload against one opponent, of the newest commit that has pairs."""

    def __init__(self, records):
        newest = records[-1]["commit"]
        self.records = [r for r in records if r["commit"] == newest]
        self.pairs = [p for r in self.records for p in r["pairs"]]
        self.ours, self.theirs = median([a for a, _ in self.pairs]), median([b for _, b in self.pairs])
        ratios = sorted(b / a for a, b in self.pairs)
        self.ratio, self.low, self.high = median(ratios), ratios[0], ratios[-1]
        last = self.records[-1]
        self.w = workloads.ALL[last["workload"]]
        self.last = last
        self.floor = self.w.floor(last["limits"], last["dtype"], last["ours"].get("params", 0))

    def tokens(self):
        return self.last["theirs"].get("tokens") or 1


def number(v):
    if v >= 1000:
        return "{:,.0f}".format(v)
    return "%.3g" % v


def verdict(c, opponent):
    """Goals are ratios against tuned PyTorch, or against llama.cpp."""
    goals = c.w.goal.get("llama", {}) if opponent == "llama" else c.w.goal
    goal = goals.get(c.last["dtype"])
    if goal is None or opponent in ("torch", "torch2", "moefw-other"):
        return ""
    word = "reached" if c.ratio >= goal else "**not reached**"
    return "≥ %g: %s" % (goal, word)


def table(cells, unit, scale):
    print("| work | dtype · threads | against | here | there | ratio (lowest–highest of pairs) | goal | floor | of floor |")
    print("|---|---|---|---|---|---|---|---|---|")
    for c in cells:
        r = c.last
        print("| %s | %s · %d | %s | %s | %s | **%.2f** (%.2f–%.2f of %d) | %s | %s | %.0f %% |" % (
            c.w.text, r["dtype"], r["threads"], NAMES[r["opponent"]], scale(c, c.ours), scale(c, c.theirs),
            c.ratio, c.low, c.high, len(c.pairs), verdict(c, r["opponent"]), scale(c, c.floor), 100 * c.floor / c.ours))
    print("\n%s\n" % unit)


def rates(c, ms):
    return number(1e3 * c.tokens() / ms)


def milliseconds(c, ms):
    return number(ms)


def layers(cells):
    """The goal of a layer is a fraction of its floor in f32, a multiple of PyTorch's f32 in bf16."""
    f32 = {(c.w.name, c.last["opponent"]): c for c in cells if c.last["dtype"] == "f32"}
    print("| router | dtype · threads | against | here ms | there ms | ratio (lowest–highest of pairs) | floor ms | times the floor | goal |")
    print("|---|---|---|---|---|---|---|---|---|")
    for c in cells:
        r, over = c.last, c.ours / c.floor
        if r["dtype"] == "f32":
            goal = "≤ 1.08 × the floor: %s" % ("reached" if over <= 1.08 else "**not reached**")
        else:
            base = f32.get((c.w.name, r["opponent"]))
            times = base.theirs / c.ours if base else 0
            goal = "≥ 3 × its f32: %.2f, %s" % (times, "reached" if times >= 3 else "**not reached**") if base else ""
        print("| %s | %s · %d | %s | %s | %s | **%.2f** (%.2f–%.2f of %d) | %s | %.2f | %s |" % (
            c.w.name.split("-", 1)[1], r["dtype"], r["threads"], NAMES[r["opponent"]], number(c.ours), number(c.theirs), c.ratio, c.low,
            c.high, len(c.pairs), number(c.floor), over, goal))
    print()


def routers(cells):
    print("| router | threads | against | here ms | there ms | ratio (lowest–highest of pairs) | faster | floor ms | times the floor (goal ≤ 1.25) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for c in cells:
        r = c.last
        print("| %s | %d | %s | %s | %s | **%.2f** (%.2f–%.2f of %d) | %s | %s | %.2f |" % (
            c.w.name.split("-", 1)[1], r["threads"], NAMES[r["opponent"]], number(c.ours), number(c.theirs), c.ratio, c.low, c.high,
            len(c.pairs), "yes" if c.ratio > 1 else "**no**", number(c.floor), c.ours / c.floor))
    print()


def machine(records):
    last = records[-1]
    commits = sorted({r["commit"] for r in records})
    print("CPU: %s (%s). Last figures: %s UTC, commit %s.\n" % (last["cpu"], last["flags"], last["date"], ", ".join(commits)))
    print("| limit | " + " | ".join("%d thread%s" % (t, "s" if t > 1 else "") for t in (1, 2)) + " |\n|---|---|---|")
    rows = [("fma_f32", "f32 multiply-adds on registers, GFLOP/s"), ("fma_bf16", "bf16 multiply-adds on registers, GFLOP/s"),
            ("blas_f32", "OpenBLAS, 1024^3, f32, GFLOP/s"), ("gemm_f32", "best f32 gemm of any library, GFLOP/s"),
            ("gemm_bf16", "best bf16 gemm of any library, GFLOP/s"), ("read_gb", "reading memory, GB/s"),
            ("read_cache_gb", "reading 6 MiB again and again, GB/s"), ("adamw_gb", "one AdamW pass over 128 MiB, GB/s moved"),
            ("adamw_memory_gb", "one AdamW pass over 1 GiB, GB/s moved")]
    for key, text in rows:
        cells = []
        for t in (1, 2):
            v = [r["limits"][key] for r in records if r["threads"] == t and key in r["limits"]]
            cells.append("%.0f (%.0f–%.0f)" % (median(v), min(v), max(v)) if v else "")
        print("| %s | %s |" % (text, " | ".join(cells)))
    print()


def section(notes, name):
    text = notes.get(name)
    if text:
        print(text.strip() + "\n")


def notes_by_name():
    out, name = {}, ""
    path = os.path.join(HERE, "notes.md")
    for line in open(path) if os.path.exists(path) else []:
        if line.startswith("## "):
            name = line[3:].strip()
        else:
            out[name] = out.get(name, "") + line
    return out


def main():
    records = [r for r in read(PAIRS) if r["workload"] in workloads.ALL]
    if not records:
        raise SystemExit("table.py: no pairs in %s: run.sh makes them" % PAIRS)
    notes, by = notes_by_name(), {}
    for r in records:
        by.setdefault((r["workload"], r["dtype"], r["threads"], r["opponent"]), []).append(r)
    order = list(NAMES)
    names = list(workloads.ALL)
    cells = [Cell(by[k]) for k in sorted(by, key=lambda k: (names.index(k[0]), k[1] != "f32", k[2], order.index(k[3])))]

    print("# Speed, side by side\n\n<!-- written by table.py from out/pairs.jsonl and notes.md -->\n")
    section(notes, "method")
    print("## The machine\n")
    machine([r for c in cells for r in c.records])
    section(notes, "machine")
    print("## Models\n")
    table([c for c in cells if "-" not in c.w.name], "Columns here, there and floor are tokens/s.", rates)
    section(notes, "models")
    print("## One layer with each router\n")
    layers([c for c in cells if c.w.name.startswith("layer-")])
    section(notes, "layers")
    print("## Routers alone\n")
    routers([c for c in cells if c.w.name.startswith("router-")])
    section(notes, "routers")
    more(read(os.path.join(OUT, "alone.jsonl")))
    verified(read(os.path.join(OUT, "verify.jsonl")))
    section(notes, "alone")
    print("## Floors\n\n| work | floor |\n|---|---|")
    for name in names:
        w = workloads.ALL[name]
        if any(c.w is w for c in cells):
            print("| %s | %s |" % (name, w.floor.says))
    print()
    section(notes, "end")


def more(records):
    """Measurements without an opponent, from alone.py."""
    if not records:
        return
    latest = {}
    for r in records:
        latest[r["what"]] = r
    print("## Start, memory, growth, sameness\n\n| what | measured | goal | |\n|---|---|---|---|")
    for r in latest.values():
        print("| %s | %s | %s | %s |" % (r["what"], r["measured"], r["goal"], "reached" if r["reached"] else "**not reached**"))
    print()


def verified(records):
    if not records:
        return
    latest = {r["workload"]: r for r in records}
    print("## The same work\n\n| work | from the same weights | |\n|---|---|---|")
    for r in latest.values():
        print("| %s | %s | %s |" % (r["workload"], r["text"], "same" if r["same"] else "**different**"))
    print()


if __name__ == "__main__":
    sys.exit(main())
