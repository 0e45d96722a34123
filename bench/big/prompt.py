#!/usr/bin/env python3
"""prompt.py MOEFW FOLDER RUN [--dtype f32|bf16] [--threads N] [--prompt N] [--pairs N]: a prompt as
one batch, by moefw and by transformers, alternately, in one run.

FOLDER is a model folder in the form of Hugging Face (random_folder.py writes one), RUN what `moefw import` made
of it. --dtype is moefw's; transformers computes in the type of the folder. Each pair has two timings of each
side, of which the faster counts, after one that does not. Pairs go to
out/pairs.jsonl. It needs torch and transformers, and for weights of four
bits (GPTQ) optimum and gptqmodel, whose kernel for this processor is then named."""
import argparse
import json
import os
import subprocess
import sys
import time

import torch
import transformers

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import record  # noqa: E402


def ours(a):
    out = subprocess.run([a.moefw, "bench", "prompt", a.run, "--prompt", str(a.prompt), "--dtype", a.dtype,
                          "--repetitions", "2", "-t", str(a.threads), "--json"], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, env=record.plain()).stdout
    return json.loads(out)["ms_min"]


def theirs(model, ids):
    best = float("inf")
    for i in range(3):
        start = time.time()
        with torch.no_grad():
            model(ids, use_cache=True, logits_to_keep=1)
        if i > 0:
            best = min(best, 1e3 * (time.time() - start))
    return best


def load(folder):
    """The model, and what multiplies its weights: transformers has no kernel of its own for four bits."""
    with open(os.path.join(folder, "config.json")) as f:
        quantized = "quantization_config" in json.load(f)
    if not quantized:
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval(), None
    import gptqmodel
    model = gptqmodel.GPTQModel.load(folder, device="cpu").model.eval()
    kernels = {type(m).__name__ for m in model.modules() if hasattr(m, "qweight")}
    return model, "gptqmodel %s, %s" % (gptqmodel.__version__, ", ".join(sorted(kernels)))


def fastest(model, ids):
    """Sets the implementation of experts that is the fastest here."""
    times = {}
    for name in ("grouped_mm", "eager"):
        model.set_experts_implementation(name)
        times[name] = theirs(model, ids)
    best = min(times, key=times.get)
    model.set_experts_implementation(best)
    return "%s, %s" % (model.dtype, best)


def main():
    o = argparse.ArgumentParser(description=__doc__)
    o.add_argument("moefw")
    o.add_argument("folder")
    o.add_argument("run")
    o.add_argument("--dtype", default="bf16", choices=["f32", "bf16"])
    for name, value in (("threads", 2), ("prompt", 512), ("pairs", 5)):
        o.add_argument("--" + name, type=int, default=value)
    a = o.parse_args()
    if "MALLOC_CONF" not in os.environ and "GLIBC_TUNABLES" not in os.environ: # read before a process begins
        os.execve(sys.executable, [sys.executable] + sys.argv, record.tuned(a.threads))
    torch.set_num_threads(a.threads)
    k = record.key("big-prompt", "transformers", a.dtype, a.threads)
    missing = a.pairs - record.done(k)
    if missing <= 0:
        return
    record.tell("prompt, %s, against transformers: %d pairs" % (a.dtype, missing))
    model, kernels = load(a.folder)
    ids = torch.randint(0, model.config.vocab_size, (1, a.prompt))
    kernels = kernels or fastest(model, ids)
    machine, pairs = record.limits(a.threads), []
    for i in range(missing):
        if i % 2 == 0:
            x = ours(a)
            pairs.append([x, theirs(model, ids)])
        else:
            y = theirs(model, ids)
            pairs.append([ours(a), y])
    record.add(k, machine, pairs, {}, {"torch": torch.__version__, "transformers": transformers.__version__, "kernels": kernels})


main()
