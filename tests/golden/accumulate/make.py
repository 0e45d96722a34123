"""make.py RUN OUT: loss and gradients of one step, summed over all its tokens at once, by PyTorch.

RUN has a checkpoint of the model of tests/unit/train/check_shares.c (a_sum_over_all_tokens) with
train.lr = 0 and train.save_every = 1, so its weights are those that the step began with. A token of an
answer counts as 1, one of a prompt or behind the text as 0; the loss is the sum over the tokens that
count, divided by their number. Prints the loss and, for each parameter, the norm of its gradient, and
its first element. In float64. Made with PyTorch 2.15.0:

    python3 tests/golden/accumulate/make.py RUN tests/golden/accumulate/golden.tsv
"""
import json, os, sys
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

run, out = sys.argv[1:]
here = os.path.dirname(os.path.abspath(__file__))
weights = load_file(os.path.join(run, "ckpt/step-1/model.safetensors"))
w = {k: v.double().requires_grad_() for k, v in weights.items()}


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def logits(ids):
    x = w["embed.weight"][ids]
    for l in range(2):
        h = norm(x, w[f"layers.{l}.norm2.weight"]) @ w[f"layers.{l}.ffn.w1"].T
        gate, up = h.chunk(2, -1)
        x = x + (F.silu(gate) * up) @ w[f"layers.{l}.ffn.w2"].T
    return norm(x, w["norm.weight"]) @ w["head.weight"].T


total, count = 0, 0
for line in open(os.path.join(here, "answers.jsonl")):
    d = json.loads(line)
    prompt, answer = d["prompt"].encode(), d["answer"].encode()
    ids = torch.tensor(list(prompt + answer))
    losses = F.cross_entropy(logits(ids[:-1]), ids[1:], reduction="none")
    counts = losses[len(prompt) - 1 :]
    total, count = total + counts.sum(), count + len(counts)
loss = total / count
loss.backward()
with open(out, "w") as f:
    f.write(f"loss\t{loss.item():.9g}\t{count}\n")
    for k in sorted(w):
        g = w[k].grad
        f.write(f"{k}\t{g.norm().item():.9g}\t{g.flatten()[0].item():.9g}\n")
