"""Records of measurements: out/pairs.jsonl has one line for each session of pairs, with the
processor, the commit and the limits of the machine in the same minute. See README.md."""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
PAIRS = os.path.join(OUT, "pairs.jsonl")
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"


def median(v):
    v = sorted(v)
    return v[len(v) // 2] if len(v) % 2 else (v[len(v) // 2 - 1] + v[len(v) // 2]) / 2


def tell(text):
    print(text, file=sys.stderr, flush=True)


def cpuinfo(key):
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.split(":")[0].strip() == key:
                return line.split(":", 1)[1].strip()
    return "unknown"


def processor():
    return "%s (family %s, model %s)" % (cpuinfo("model name"), cpuinfo("cpu family"), cpuinfo("model"))


def flags():
    """What the processor has of the instructions that gemms use."""
    used = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return " ".join(w for w in cpuinfo("flags").split() if w in used)


def commit():
    """The commit of the measured program: BENCH_COMMIT, or that of this tree."""
    if os.environ.get("BENCH_COMMIT"):
        return os.environ["BENCH_COMMIT"]
    try:
        def git(*words):
            return subprocess.check_output(["git", "-C", HERE, *words], text=True, stderr=subprocess.DEVNULL).strip()
        # RESULTS.md is written by these scripts: it makes no other program.
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)bench/RESULTS.md")
        return git("rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def limits_program():
    """limits.c for this processor; it is compiled if it is not, or has changed since."""
    source, program = os.path.join(HERE, "limits.c"), os.path.join(OUT, "limits")
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        os.makedirs(OUT, exist_ok=True)
        subprocess.check_call(os.environ.get("CC", "cc").split() + ["-O3", "-march=native", "-ffast-math", "-fopenmp", source, "-o", program,
                               "-lopenblas", "-lm"])
    return program


def limits(threads):
    """What the machine can do at present."""
    e = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
    if "avx512f" in flags(): # an OpenBLAS older than the processor takes it for a very old one
        e.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    return json.loads(subprocess.check_output([limits_program(), str(threads)], text=True, env=e))


def tuned(threads):
    """The environment of an opponent: memory that stays mapped, in huge pages."""
    e = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    if os.path.exists(JEMALLOC):
        e["LD_PRELOAD"] = JEMALLOC
        e["MALLOC_CONF"] = "oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always,metadata_thp:always"
    else:
        e["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    return e


def plain():
    """The environment of moefw beside such an opponent."""
    return {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "MALLOC_CONF", "GLIBC_TUNABLES")}


def read(path=PAIRS):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f]


def append(name, line):
    os.makedirs(OUT, exist_ok=True)
    line = dict(line, cpu=processor(), flags=flags(), date=time.strftime("%Y-%m-%d %H:%M", time.gmtime()))
    with open(os.path.join(OUT, name), "a") as f:
        f.write(json.dumps(line) + "\n")


def key(workload, opponent, dtype, threads):
    return {"workload": workload, "opponent": opponent, "dtype": dtype, "threads": threads, "commit": commit()}


def done(k):
    """The number of pairs that exist, of this machine."""
    k = dict(k, cpu=processor())
    return sum(len(r["pairs"]) for r in read() if all(r[name] == v for name, v in k.items()))


def add(k, machine, pairs, ours, theirs):
    """Writes the pairs of one session: milliseconds here and there."""
    append("pairs.jsonl", dict(k, pairs=pairs, ours=ours, theirs=theirs, limits=machine))
    tell("  %.3f ms here, %.3f there: %.2f x of %d pairs" % (
        median([a for a, _ in pairs]), median([b for _, b in pairs]), median([b / a for a, b in pairs]), len(pairs)))
