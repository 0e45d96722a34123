#!/usr/bin/env python3
"""llama.py MOEFW RUN GGUF [--threads N] [--new N] [--prompt N] [--pairs N] [--dtype f32|bf16] [--weights bf16|int8]: a prompt
and decoding of one model of random weights (random_folder.py) by moefw and by llama.cpp, alternately, in one run.

RUN is the imported folder and GGUF what `moefw export gguf` made of it, or both of 8 bits (run.sh); --weights names the
type in the records. Decoding is the time of a token, of N (0: none) after a prompt of 4; a prompt is one batch. Of two
runs of each side the faster counts. --dtype is moefw's. Pairs go to out/pairs.jsonl. It needs numpy and
llama-cpp-python; LLAMA_CPP_LIB_PATH may name the folder of a build of llama.cpp."""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import time

import llama_cpp as lib
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import record  # noqa: E402


def ours(a, what, *options):
    """Milliseconds of a token (generate) or of a prompt, the faster of two."""
    out = subprocess.run([a.moefw, "bench", what, a.run, *options, "--dtype", a.dtype, "--repetitions", "2", "-t",
                          str(a.threads), "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True).stdout
    return json.loads(out)["ms_min"]


class Theirs:
    def __init__(self, a):
        self.log = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self.log, ctypes.c_void_p(0))
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(a.gguf.encode(), lib.llama_model_default_params())
        assert self.model, "llama.cpp does not open the file"
        p = lib.llama_context_default_params()
        p.n_ctx = p.n_batch = p.n_ubatch = 1024
        p.n_threads = p.n_threads_batch = a.threads
        self.ctx = lib.llama_init_from_model(self.model, p)
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))

    def step(self, ids, at):
        batch = lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, t in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = t, at + i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, int(i == len(ids) - 1)
        assert lib.llama_decode(self.ctx, batch) == 0
        lib.llama_batch_free(batch)
        logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(self.ctx, -1), shape=(self.vocab,))
        return int(logits.argmax())

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.ctx), True)

    def decode(self, n):
        self.clear()
        token = self.step([1, 2, 3, 4], 0)
        start = time.time()
        for i in range(n):
            token = self.step([token], 4 + i)
        return (time.time() - start) / n

    def prompt(self, n):
        self.clear()
        start = time.time()
        self.step([i % 1000 for i in range(n)], 0)
        return time.time() - start


def session(a, theirs, name, n):
    k = record.key("big-" + name, "llama", a.weights, a.threads)
    missing = a.pairs - record.done(k)
    if missing <= 0 or n == 0:
        return
    record.tell("%s, %s: %d pairs" % (name, a.weights, missing))
    machine, pairs = record.limits(a.threads), []
    for i in range(missing):
        times = [0.0, 0.0]
        for side in (0, 1) if i % 2 == 0 else (1, 0):
            if side:
                times[1] = 1e3 * min(getattr(theirs, name)(n) for _ in range(2))
            elif name == "decode":
                times[0] = ours(a, "generate", "--prompt", "4", "--tokens", str(n))
            else:
                times[0] = ours(a, "prompt", "--prompt", str(n))
        pairs.append(times)
    record.add(k, machine, pairs, {}, {"llama": lib.__version__})


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("moefw", "run", "gguf"):
        options.add_argument(name)
    for name, n in (("threads", 2), ("new", 32), ("prompt", 512), ("pairs", 5)):
        options.add_argument("--" + name, type=int, default=n)
    options.add_argument("--dtype", default="bf16")
    options.add_argument("--weights", default="bf16")
    a = options.parse_args()
    theirs = Theirs(a)
    theirs.decode(2)
    for name, n in (("prompt", a.prompt), ("decode", a.new)):
        session(a, theirs, name, n)


main()
