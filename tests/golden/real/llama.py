#!/usr/bin/env python3
"""llama.py MOEFW LLAMA.CPP [FOLDER...]: GGUF files that moefw writes, computed by llama.cpp.

LLAMA.CPP is its source (PyPI: vendor/llama.cpp in the archive of llama-cpp-python) with a build in its folder build:
  cmake -B build -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF && cmake --build build --target llama -j2
FOLDERs are models in the form of Hugging Face (folders `hf` below tests/golden/pretrained, and any other). First come runs that
moefw makes: one trained from nothing, one upcycled, swapped and pruned ones. Each is exported in F32, and the logits of drawn
tokens are compared with `moefw eval --tokens`: all at once, and token by token through the cache. Prints a row for each; the
exit status is 1 if one is above 1e-5 of the largest logit. Needs numpy, torch and safetensors.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file

LIMIT = 1e-5
HERE = os.path.dirname(os.path.abspath(__file__))


def build(source, folder):
    """Compiles llama_logits.c against the library; returns the program."""
    lib, out = f"{source}/build/bin", f"{folder}/llama_logits"
    subprocess.run(["cc", "-O1", f"{HERE}/llama_logits.c", "-o", out, f"-I{source}/include", f"-I{source}/ggml/include", f"-L{lib}",
                    f"-Wl,-rpath,{os.path.abspath(lib)}", f"-Wl,-rpath-link,{lib}", "-lllama", "-lggml", "-lggml-base"], check=True)
    return out


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), folder

    def run(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, cwd=self.folder, env={"PATH": "/usr/bin:/bin", "HOME": self.folder})
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-300:])
        return done.stdout

    def tiny(self, name, *settings):
        """Trains a small model from nothing."""
        words = [w for s in settings for w in ("--set", s)]
        self.run("train", "default", "-q", "-t", "1", "--steps", "40", "--set", "train.batch=4", "--set", "train.final_batches=2", "-o", name, *words)
        return name

    def made(self):
        """Makes the runs one by one; yields (what, run)."""
        yield "trained from nothing", self.tiny("new")
        yield "trained, norms of queries and keys", self.tiny("norms", "model.qk_norm=head", "model.norm_eps=1e-6", "moe.experts=6")
        yield "trained, dense, grouped queries", self.tiny("dense", "model.dense_layers=all", "model.kv_heads=2")
        self.run("export", "hf", "dense", "-o", "dense.hf", "-q")
        self.run("import", "dense.hf", "--upcycle", "experts=4,top_k=2", "-o", "up", "-q")
        yield "upcycled", "up"
        self.run("train", "up/config.ini", "-q", "-t", "1", "--steps", "20", "--set", "train.lr=1e-3", "--set", "train.final_batches=2", "--data", "builtin:topics", "-o", "up.20")
        yield "upcycled, trained", "up.20"
        self.run("swap", "new", "--router", "mlp", "--batches", "1", "-q", "-o", "mlp")
        self.run("swap", "mlp", "--router", "linear", "--match", "2", "--batches", "1", "-q", "-o", "linear")
        yield "swapped to mlp and back to linear", "linear"
        self.run("prune", "new", "--by", "reap", "--share", "0.25", "--draws", "0", "--calibrate", "2", "--batches", "2", "-o", "pruned", "-q")
        yield "pruned", "pruned"

    def imported(self, folder):
        name = os.path.basename(os.path.dirname(os.path.abspath(folder)))
        for i in range(1000):
            if not os.path.exists(f"{self.folder}/{name}.{i}"):
                break
        self.run("import", os.path.abspath(folder), "-o", f"{name}.{i}", "-q", "--no-tokenizer")
        return name, f"{name}.{i}"

    def logits(self, run, ids):
        save_file({"input_ids": ids}, f"{self.folder}/ids.safetensors")
        self.run("eval", run, "-q", "-t", "1", "--tokens", "ids.safetensors", "--save", "out.safetensors", "--force")
        return load_file(f"{self.folder}/out.safetensors")["logits"].reshape(ids.shape[1], -1)

    def vocab(self, run):
        """Token 0 alone tells the width of the logits."""
        return self.logits(run, torch.zeros(1, 1, dtype=torch.int64)).shape[-1]


def compare(runs, llama, run, what):
    try:
        runs.run("export", "gguf", run, "-o", f"{run}.gguf", "-q", "--dtype", "f32", "--no-tokenizer")
    except RuntimeError as why:
        print(f"{what:42} no GGUF: {why}", flush=True)
        return False
    ids = torch.randint(0, runs.vocab(run), (1, 40), generator=torch.Generator().manual_seed(7))
    ours = runs.logits(run, ids)
    ids[0].to(torch.int32).numpy().tofile(f"{runs.folder}/ids")
    worst = []
    for way in ([], ["step"]):
        done = subprocess.run([llama, f"{runs.folder}/{run}.gguf", f"{runs.folder}/ids", f"{runs.folder}/out", "1", *way], capture_output=True, text=True)
        if done.returncode:
            print(f"{what:42} llama.cpp: {done.stderr.strip()[-300:]}", flush=True)
            return False
        theirs = torch.from_numpy(np.fromfile(f"{runs.folder}/out", np.float32).reshape(ours.shape))
        worst.append(float((ours - theirs).abs().max()))
    largest = max(1.0, float(ours.abs().max()))
    met = max(worst) <= LIMIT * largest
    print(f"{what:42} {worst[0]:.1e}, token by token {worst[1]:.1e} of {largest:.1f}{'' if met else '  above ' + str(LIMIT)}", flush=True)
    return met


def main():
    program, source, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        llama, runs = build(source, folder), Runs(program, folder)
        for what, run in runs.made():
            bad += not compare(runs, llama, run, what)
        for f in folders:
            name, run = runs.imported(f)
            bad += not compare(runs, llama, run, name)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
