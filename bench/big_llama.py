#!/usr/bin/env python3
"""big_llama.py MOEFW RUN GGUF [--threads N] [--new N] [--prompt N] [--pairs N]: decoding and a prompt of
one model of random weights (random_folder.py) by moefw and by llama.cpp, alternately, in one run.

RUN is the imported folder and GGUF what `moefw export gguf` made of it. Decoding is the time of N
greedy tokens less that of one, per token; a prompt is one batch. It needs llama-cpp-python and numpy."""
import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time

import llama_cpp as lib
import numpy as np


def ours_decode(a, n):
    def run(count):
        with tempfile.TemporaryDirectory() as folder:
            start = time.time()
            subprocess.run([a.moefw, "generate", a.run, "--ids", os.path.join(folder, "ids"), "--begin", "1,2,3,4",
                            "-n", str(count), "--temp", "0", "-t", str(a.threads), "-q"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return time.time() - start

    return (run(n + 1) - run(1)) / n


def ours_prompt(a, n):
    out = subprocess.run([a.moefw, "bench", "infer", a.run, "--batch", "1", "--seq", str(n), "--repetitions", "1",
                          "-t", str(a.threads), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)["ms"] / 1e3


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


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("moefw", "run", "gguf"):
        options.add_argument(name)
    for name, n in (("threads", 2), ("new", 32), ("prompt", 512), ("pairs", 5)):
        options.add_argument("--" + name, type=int, default=n)
    a = options.parse_args()
    theirs = Theirs(a)
    theirs.decode(2)
    for pair in range(a.pairs):
        x, y = ours_decode(a, a.new), theirs.decode(a.new)
        print(f"decode {1e3 * x:.1f} ms here, {1e3 * y:.1f} there: {y / x:.2f} x", flush=True)
    for pair in range(a.pairs if a.prompt else 0):
        x, y = ours_prompt(a, a.prompt), theirs.prompt(a.prompt)
        print(f"prompt {x:.2f} s here, {y:.2f} there: {y / x:.2f} x", flush=True)


main()
