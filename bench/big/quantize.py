#!/usr/bin/env python3
"""quantize.py --moefw MOEFW --run RUN [--pairs N] [--threads N] GGUF: rounding of one model's weights to nearest in
groups of 32, to eight and to four bits, by `moefw quantize` and by llama.cpp (Q8_0, Q4_0), alternately, in one run.
    quantize.py --keep OUT GGUF: llama.cpp's Q8_0 alone, to the file OUT

RUN is the imported folder and GGUF what `moefw export gguf` made of it. Both sides read and write files, which the
system keeps in memory, and leave routers, norms, embeddings and the head as they are. Pairs go to out/pairs.jsonl."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import llama_cpp as lib

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import record  # noqa: E402

BF16 = 30 # of enum ggml_type, which llama-cpp-python has in part
FORMS = {"int8": (8, lib.LLAMA_FTYPE_MOSTLY_Q8_0), "int4": (4, lib.LLAMA_FTYPE_MOSTLY_Q4_0)}


def theirs(gguf, out, form, threads):
    p = lib.llama_model_quantize_default_params()
    p.nthread, p.ftype = threads, FORMS[form][1]
    p.output_tensor_type = p.token_embedding_type = BF16
    p.pure = True # no tensor gets a type of more bits
    began = time.perf_counter()
    if lib.llama_model_quantize(gguf.encode(), out.encode(), p) != 0:
        raise SystemExit("llama.cpp did not quantize " + gguf)
    return 1e3 * (time.perf_counter() - began)


def ours(a, out, form):
    began = time.perf_counter()
    subprocess.run([a.moefw, "quantize", a.run, "-q", "--bits", str(FORMS[form][0]), "--group", "32", "--no-measure", "-t",
                    str(a.threads), "-o", out], check=True, stdout=subprocess.DEVNULL)
    return 1e3 * (time.perf_counter() - began)


def pair(a, form, i, folder):
    """Files are removed outside of the times."""
    files = os.path.join(folder, "ours"), os.path.join(folder, "theirs.gguf")
    times = [0.0, 0.0]
    for side in (0, 1) if i % 2 == 0 else (1, 0):
        times[side] = theirs(a.gguf, files[1], form, a.threads) if side else ours(a, files[0], form)
    for path in (files[0], files[0] + ".hf"): # the run, and the folder of its weights
        shutil.rmtree(path)
    os.remove(files[1])
    return times


def main():
    o = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    o.add_argument("gguf")
    o.add_argument("--moefw")
    o.add_argument("--run")
    o.add_argument("--keep")
    o.add_argument("--pairs", type=int, default=5)
    o.add_argument("--threads", type=int, default=2)
    a = o.parse_args()
    log = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(log, None)
    lib.llama_backend_init()
    if a.keep:
        if not os.path.exists(a.keep):
            theirs(a.gguf, a.keep + "-t", "int8", a.threads)
            os.rename(a.keep + "-t", a.keep)
        return
    for form in FORMS:
        k = record.key("big-quantize", "llama", form, a.threads)
        missing = a.pairs - record.done(k)
        if missing <= 0:
            continue
        record.tell("quantize, %s: %d pairs" % (form, missing))
        machine = record.limits(a.threads)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(a.gguf))) as folder:
            pair(a, form, 0, folder) # files are now in memory
            pairs = [pair(a, form, i, folder) for i in range(missing)]
        record.add(k, machine, pairs, {}, {"llama": lib.__version__})


main()
