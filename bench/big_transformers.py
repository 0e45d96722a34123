#!/usr/bin/env python3
"""big_transformers.py MOEFW FOLDER RUN [--dtype f32|bf16] [--threads N] [--prompt N] [--pairs N]: a prompt as
one batch, by moefw and by transformers, alternately, in one run.

FOLDER is a model folder in the form of Hugging Face (random_folder.py writes one), RUN what `moefw import` made
of it. --dtype is moefw's; transformers computes in the type of the folder. Each pair has two timings of each
side, of which the faster counts, after one that does not. It needs torch and transformers, and for weights of four
bits (GPTQ) optimum and gptqmodel, whose kernel for this processor is then named."""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
import transformers


def ours(a):
    out = subprocess.run([a.moefw, "bench", "prompt", a.run, "--prompt", str(a.prompt), "--dtype", a.dtype,
                          "--repetitions", "2", "-t", str(a.threads), "--json"], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(out)["ms_min"] / 1e3


def theirs(model, ids):
    best = float("inf")
    for i in range(3):
        start = time.time()
        with torch.no_grad():
            model(ids, use_cache=True, logits_to_keep=1)
        if i > 0:
            best = min(best, time.time() - start)
    return best


def load(folder):
    """The model, and what multiplies its weights: transformers has no kernel of its own for four bits."""
    with open(os.path.join(folder, "config.json")) as f:
        quantized = "quantization_config" in json.load(f)
    if not quantized:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
        return model, str(model.dtype)
    import gptqmodel
    model = gptqmodel.GPTQModel.load(folder, device="cpu").model.eval()
    kernels = {type(m).__name__ for m in model.modules() if hasattr(m, "qweight")}
    return model, "gptqmodel %s, %s" % (gptqmodel.__version__, ", ".join(sorted(kernels)))


def main():
    o = argparse.ArgumentParser(description=__doc__)
    o.add_argument("moefw")
    o.add_argument("folder")
    o.add_argument("run")
    o.add_argument("--dtype", default="bf16", choices=["f32", "bf16"])
    for name, value in (("threads", 2), ("prompt", 512), ("pairs", 5)):
        o.add_argument("--" + name, type=int, default=value)
    a = o.parse_args()
    torch.set_num_threads(a.threads)
    model, kernels = load(a.folder)
    ids = torch.randint(0, model.config.vocab_size, (1, a.prompt))
    ratios = []
    for _ in range(a.pairs):
        we, they = ours(a), theirs(model, ids)
        ratios.append(they / we)
        print(f"moefw {we:.3f} s, transformers {they:.3f} s: {ratios[-1]:.2f} x", flush=True)
    print(f"median {statistics.median(ratios):.2f} x (torch {torch.__version__}, transformers {transformers.__version__}, "
          f"{kernels})")


main()
