"""The PyTorch side of a pair on a GPU: builds one workload in bf16, then runs it on request.

    twin.py lamoe|gpt2 [--how eager|compiled] [--batch N] [--seq N]
    twin.py decode [--how eager]
    twin.py grouped --how grouped_mm|loop --shape EXPERTS,ROWS,INNER,HIDDEN

For every line N on standard input it runs the workload N times and prints the times, in ms, between
two synchronisations; at the end of input it prints the memory it used. --device cpu is for a check
of this file without a GPU.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import twin_models  # noqa: E402


def trainer(o):
    model = twin_models.MODELS[o.name]()
    if o.name == "gpt2" and o.seq > model.seq:
        model.position = torch.nn.Embedding(o.seq, model.position.embedding_dim)
    model = model.to(o.device)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.01, fused=o.device != "cpu")
    data = torch.randint(model.vocab, (1 << 20,), device=o.device)
    batch, seq = o.batch or model.batch, o.seq or model.seq

    def loss_of(ids, target):
        logits = model(ids)
        return F.cross_entropy(logits.reshape(-1, model.vocab).float(), target.reshape(-1)) + model.extra_loss()

    run = torch.compile(loss_of, dynamic=False) if o.how == "compiled" else loss_of

    def step():
        at = torch.randint(len(data) - seq - 1, (batch,), device="cpu").tolist()
        rows = torch.stack([data[i : i + seq + 1] for i in at])
        adam.zero_grad(set_to_none=True)
        with torch.autocast(o.device, torch.bfloat16):
            loss = run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        adam.step()

    return step


def decoder(o):
    model = twin_models.LaMoe().eval().bfloat16().to(o.device)
    ids, new = torch.randint(model.vocab, (1, 16), device=o.device), 128

    @torch.inference_mode()
    def decode():
        caches = model.new_cache(16 + new)
        logits = model(ids, caches, 0)
        synchronise(o)
        began = time.perf_counter()
        for at in range(16, 16 + new):
            logits = model(logits[:, -1].argmax(-1, keepdim=True), caches, at)
        synchronise(o)
        return 1e3 * (time.perf_counter() - began) / new

    return decode


def grouped(o):
    """A layer of experts (SwiGLU, top 1) behind a linear router: rows are gathered by expert."""
    experts, rows, inner, hidden = (int(x) for x in o.shape.split(","))
    draw = {"device": o.device, "dtype": torch.bfloat16}
    x = torch.randn(rows, inner, **draw)
    router = torch.randn(inner, experts, device=o.device)
    first = torch.randn(experts, inner, 2 * hidden, **draw) * inner**-0.5
    second = torch.randn(experts, hidden, inner, **draw) * hidden**-0.5

    def swiglu(h):
        a, b = h.chunk(2, -1)
        return F.silu(a) * b

    def by_group(packed, counts):
        ends = counts.cumsum(0).to(torch.int32)
        return torch._grouped_mm(swiglu(torch._grouped_mm(packed, first, offs=ends)), second, offs=ends)

    def by_loop(packed, counts):
        parts = packed.split(counts.tolist())
        return torch.cat([swiglu(part @ first[e]) @ second[e] for e, part in enumerate(parts)])

    @torch.inference_mode()
    def forward():
        gate, chosen = (x.float() @ router).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=experts)
        y = (by_group if o.how == "grouped_mm" else by_loop)(x[order], counts)
        out = torch.empty_like(x)
        out[order] = y * gate[order, None].to(y.dtype)
        return out

    return forward


def synchronise(o):
    if o.device != "cpu":
        torch.cuda.synchronize()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("name", choices=("lamoe", "gpt2", "decode", "grouped"))
    a.add_argument("--how", default="eager", choices=("eager", "compiled", "grouped_mm", "loop"))
    a.add_argument("--batch", type=int, default=0)
    a.add_argument("--seq", type=int, default=0)
    a.add_argument("--shape", default="8,4096,1024,1024")
    a.add_argument("--device", default="cuda")
    o = a.parse_args()
    torch.set_default_device(o.device)
    run = decoder(o) if o.name == "decode" else grouped(o) if o.name == "grouped" else trainer(o)
    for _ in range(3):
        run()
    for line in sys.stdin:
        ms = []
        for _ in range(int(line)):
            synchronise(o)
            began = time.perf_counter()
            own = run()
            synchronise(o)
            ms.append(own if isinstance(own, float) else 1e3 * (time.perf_counter() - began))
        print(json.dumps({"ms": ms}), flush=True)
    print(json.dumps({"memory_mib": torch.cuda.max_memory_allocated() / 1048576 if o.device != "cpu" else 0}), flush=True)


if __name__ == "__main__":
    main()
