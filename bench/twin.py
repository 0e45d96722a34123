"""The PyTorch side of a pair: builds one workload, then runs it on request.

    twin.py train MODEL | decode | prompt | layer ROUTER | router ROUTER
            [--dtype f32|bf16] [--threads N] [--tuned] [--compile] [--forward] [--ids FILE]

Prints one line that describes the workload; then, for every line N on standard input, runs it N
times and prints the times; at the end of input it prints the memory it used. The caller decides when
it runs, so two programs can run alternately with warm memory.
"""
import argparse
import json
import os
import resource
import sys
import time
from contextlib import nullcontext

import torch
import torch.nn.functional as F

import twin_models
import twin_routers


def options():
    a = argparse.ArgumentParser()
    a.add_argument("what", choices=("train", "decode", "prompt", "layer", "router"))
    a.add_argument("name", nargs="?", default="lamoe")
    a.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--tuned", action="store_true", help="fused optimizer where there is one")
    a.add_argument("--compile", action="store_true", help="torch.compile")
    a.add_argument("--forward", action="store_true")
    a.add_argument("--ids", help="training tokens, uint16")
    a.add_argument("--tokens", type=int, default=2048)
    a.add_argument("--prompt", type=int, default=16)
    a.add_argument("--new", type=int, default=128)
    a.add_argument("--dim", type=int, default=768)
    a.add_argument("--hidden", type=int, default=3072)
    a.add_argument("--experts", type=int, default=8)
    a.add_argument("--top-k", type=int, default=2)
    return a.parse_args()


def cast(o):
    """Mixed precision: f32 master weights, gemms in bf16."""
    return torch.autocast("cpu", torch.bfloat16) if o.dtype == "bf16" else nullcontext()


def stepper(o):
    model = twin_models.MODELS[o.name]()
    params = twin_models.parameters(model)
    B, T, V = model.batch, model.seq, model.vocab
    fused = {"fused": True} if o.tuned and twin_models.FUSED else {}
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.01, **fused)
    if o.ids:
        data = torch.frombuffer(bytearray(open(o.ids, "rb").read()), dtype=torch.int16).long() & 0xFFFF
    else:
        data = torch.randint(V, (1 << 20,))

    def loss_of(ids, target):
        logits = model(ids)
        return F.cross_entropy(logits.reshape(-1, V).float(), target.reshape(-1)) + model.extra_loss()

    run = torch.compile(loss_of, dynamic=False) if o.compile else loss_of

    def step():
        at = torch.randint(len(data) - T - 1, (B,)).tolist()
        rows = torch.stack([data[i : i + T + 1] for i in at])
        adam.zero_grad(set_to_none=True)
        with cast(o):
            loss = run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        adam.step()

    return step, {"params": params, "tokens": B * T}


def decoder(o):
    model = twin_models.LaMoe().eval()
    params = twin_models.parameters(model)
    if o.dtype == "bf16":
        model = model.bfloat16()
    ids = torch.randint(model.vocab, (1, o.prompt))
    room = o.prompt + o.new

    @torch.inference_mode()
    def prompt():
        caches = model.new_cache(room)
        return model(ids, caches, 0), caches

    @torch.inference_mode()
    def decode():
        logits, caches = prompt()
        began = time.perf_counter()
        for at in range(o.prompt, room):
            logits = model(logits[:, -1].argmax(-1, keepdim=True), caches, at)
        return (time.perf_counter() - began) / o.new

    if o.what == "prompt":
        return prompt, {"params": params, "tokens": o.prompt}
    return decode, {"params": params, "tokens": 1}


def router(o):
    r = twin_routers.make(o.name, o.dim, o.experts, o.top_k).eval()
    x, ids = torch.randn(o.tokens, o.dim), torch.randint(30522, (o.tokens,))

    @torch.inference_mode()
    def forward():
        with cast(o):
            return r(x, ids)

    return forward, {"params": twin_models.parameters(r), "tokens": o.tokens}


def layer(o):
    r = twin_routers.make(o.name, o.dim, o.experts, o.top_k)
    experts = torch.nn.ModuleList(twin_models.mlp_experts(o.dim, o.hidden, o.experts))
    both = torch.nn.ModuleList([r, experts])
    ids = torch.randint(30522, (o.tokens,))
    x = torch.randn(o.tokens, o.dim, requires_grad=not o.forward)
    dy = torch.randn(o.tokens, o.dim)

    def run():
        with cast(o), torch.inference_mode() if o.forward else nullcontext():
            gate, expert = r(x, ids)
            y = twin_models.by_expert(x, gate, expert, experts)
        if not o.forward:
            both.zero_grad(set_to_none=True)
            x.grad = None
            y.backward(dy.to(y.dtype))

    return run, {"params": twin_models.parameters(both), "tokens": o.tokens}


def rate(dtype, n=1024):
    """GFLOP/s of a square gemm: the rate of this library without other work."""
    a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
    fastest = 1e9
    for _ in range(6):
        began = time.perf_counter()
        a @ b
        fastest = min(fastest, time.perf_counter() - began)
    return round(2e-9 * n**3 / fastest, 1)


def main():
    o = options()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    make = {"train": stepper, "decode": decoder, "prompt": decoder, "layer": layer, "router": router}
    run, about = make[o.what](o)
    about["torch"], about["threads"] = torch.__version__, torch.get_num_threads()
    about["gemm_f32"], about["gemm_bf16"] = rate(torch.float32), rate(torch.bfloat16)
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            began = time.perf_counter()
            own = run()
            times.append(1e3 * (own if o.what == "decode" else time.perf_counter() - began))
        print(json.dumps({"ms": times}), flush=True)
    print(json.dumps({"peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    # The environment must be set before libraries are loaded: run.py does it.
    if "OMP_NUM_THREADS" not in os.environ:
        print("twin.py: OMP_NUM_THREADS is not set; see run.py", file=sys.stderr)
    main()
