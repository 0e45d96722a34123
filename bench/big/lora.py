#!/usr/bin/env python3
"""lora.py MOEFW FOLDER RUN [--rank R] [--batch B] [--seq T] [--threads N] [--pairs N] [--dtype f32|bf16]: a
training step of LoRA on the projections of attention, by moefw and by peft on PyTorch, alternately, in one run.

FOLDER is a model folder in the form of Hugging Face (random_folder.py writes one), RUN what `moefw import` made
of it. Both sides: frozen weights in the type of the folder, AdamW on A and B, no dropout, one batch of B
sequences of T tokens, cross entropy of the next token. --dtype is moefw's; peft computes in the type of the
folder. Each pair has two steps of each side, of which the faster counts, after one that does not. At the end
both tell their peak memory. It needs torch, transformers and peft."""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time


def ours(a, text):
    sets = [f"train.from={a.run}", "train.freeze=*", "data.format=text", f"data.path={text}", f"model.seq={a.seq}",
            f"train.batch={a.batch}", f"train.dtype={a.dtype}", "train.recompute=none", "adapter.l.plugin=lora",
            f"adapter.l.rank={a.rank}", "adapter.l.at=attention.*"]
    line = [a.moefw, "bench", "train", os.path.join(a.run, "config.ini"), "--turns", "--json", "-t", str(a.threads)]
    for s in sets:
        line += ["--set", s]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def turn(program, runs):
    program.stdin.write(f"{runs}\n")
    program.stdin.flush()
    return min(json.loads(program.stdout.readline())["ms"]) / 1e3


def theirs(a):
    import peft
    import torch
    import transformers
    torch.set_num_threads(a.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(a.folder, dtype="auto")
    lora = peft.LoraConfig(r=a.rank, lora_alpha=a.rank, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    model = peft.get_peft_model(model, lora)
    model.train()
    ids = torch.randint(0, 256, (a.batch, a.seq))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)

    def step():
        start = time.time()
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        return time.time() - start

    return step, f"torch {torch.__version__}, peft {peft.__version__}, {model.dtype}"


def main():
    o = argparse.ArgumentParser(description=__doc__)
    for name in ("moefw", "folder", "run"):
        o.add_argument(name)
    o.add_argument("--dtype", default="bf16", choices=["f32", "bf16"])
    for name, value in (("rank", 8), ("batch", 1), ("seq", 512), ("threads", 2), ("pairs", 5)):
        o.add_argument("--" + name, type=int, default=value)
    a = o.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        with open(text, "w") as out:
            out.write("".join(f"{i} {i * i} " for i in range(100000)))
        program = ours(a, text)
        turn(program, 1)
        step, versions = theirs(a)
        step()
        ratios = []
        for _ in range(a.pairs):
            we, they = turn(program, 2), min(step(), step())
            ratios.append(they / we)
            print(f"moefw {we:.3f} s, peft {they:.3f} s: {ratios[-1]:.2f} x", flush=True)
        with open(f"/proc/{program.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        program.stdin.close()
        program.wait()
    there = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"median {statistics.median(ratios):.2f} x ({versions}); peak memory {peak / 1024:.0f} MiB here, "
          f"{there / 1024:.0f} there")


main()
