"""The PyTorch side of a pair: builds one workload, then runs it on request.

    twin.py train MODEL | decode | prompt | olmoe | layer ROUTER | router ROUTER
            [--dtype f32|bf16] [--threads N] [--compile] [--forward] [--ids FILE]

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
    a.add_argument("what", choices=("train", "decode", "prompt", "olmoe", "layer", "router"))
    a.add_argument("name", nargs="?", default="lamoe")
    a.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--compile", action="store_true", help="torch.compile")
    a.add_argument("--how", choices=("grouped", "loop"), help="olmoe: a grouped gemm, or one for each expert")
    a.add_argument("--forward", action="store_true")
    a.add_argument("--ids", help="training tokens, uint16")
    a.add_argument("--batch", type=int, default=0, help="train: the model's own, if 0")
    a.add_argument("--seq", type=int, default=0, help="train: the model's own, if 0")
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


def allow_bf16():
    """Gemms of f32 that autocast leaves may use instructions for bf16, too."""
    torch.backends.mkldnn.fp32_precision = "bf16"
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


def compiled(o, fn):
    """Numbers of rows of experts change from step to step, so code is compiled again until they are variables of it."""
    torch._dynamo.config.recompile_limit = 64
    return torch.compile(fn) if o.compile else fn


def stepper(o):
    model = twin_models.MODELS[o.name]()
    params = twin_models.parameters(model)
    B, T, V = o.batch or model.batch, o.seq or model.seq, model.vocab
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    if o.ids:
        data = torch.frombuffer(bytearray(open(o.ids, "rb").read()), dtype=torch.int16).long() & 0xFFFF
    else:
        data = torch.randint(V, (1 << 20,))

    def loss_of(ids, target):
        logits = model(ids)
        return F.cross_entropy(logits.reshape(-1, V).float(), target.reshape(-1)) + model.extra_loss()

    run = compiled(o, loss_of)

    def step():
        at = torch.randint(len(data) - T - 1, (B,)).tolist()
        rows = torch.stack([data[i : i + T + 1] for i in at])
        adam.zero_grad(set_to_none=True)
        with cast(o):
            loss = run(rows[:, :-1], rows[:, 1:])
        loss.backward()
        if model.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), model.clip, foreach=True)
        adam.step()

    return step, {"params": params, "tokens": B * T}


def decoder(o):
    model = twin_models.LaMoe().eval()
    params = twin_models.parameters(model)
    if o.dtype == "bf16":
        model = model.bfloat16()
    ids = torch.randint(model.vocab, (1, o.prompt))
    room = o.prompt + o.new
    forward = compiled(o, model)

    @torch.inference_mode()
    def prompt():
        caches = model.new_cache(room)
        return forward(ids, caches, 0), caches

    @torch.inference_mode()
    def decode():
        logits, caches = prompt()
        began = time.perf_counter()
        for at in range(o.prompt, room):
            logits = forward(logits[:, -1].argmax(-1, keepdim=True), caches, at)
        return (time.perf_counter() - began) / o.new

    if o.what == "prompt":
        return prompt, {"params": params, "tokens": o.prompt}
    return decode, {"params": params, "tokens": 1}


def router(o):
    r = twin_routers.make(o.name, o.dim, o.experts, o.top_k).eval()
    x, ids = torch.randn(o.tokens, o.dim), torch.randint(30522, (o.tokens,))
    route = compiled(o, r)

    @torch.inference_mode()
    def forward():
        with cast(o):
            return route(x, ids)

    return forward, {"params": twin_models.parameters(r), "tokens": o.tokens}


def there_and_back(o, module, forward):
    """Runs y = forward(x), and with it the gradients of <y, dy> for x and all parameters."""
    x = torch.randn(o.tokens, o.dim).to(kind(o)).requires_grad_(not o.forward)
    dy = torch.randn(o.tokens, o.dim).to(kind(o))

    def run():
        with torch.inference_mode() if o.forward else nullcontext():
            y = forward(x)
        if not o.forward:
            module.zero_grad(set_to_none=True)
            x.grad = None
            y.backward(dy)

    return run, {"params": twin_models.parameters(module), "tokens": o.tokens}


def kind(o):
    """In bf16 all numbers of a layer are bf16: like moefw's, this side casts no weights."""
    return torch.bfloat16 if o.dtype == "bf16" else torch.float32


def layer(o):
    r = twin_routers.make(o.name, o.dim, o.experts, o.top_k)
    experts = torch.nn.ModuleList(twin_models.mlp_experts(o.dim, o.hidden, o.experts))
    module = torch.nn.ModuleList([r, experts]).to(kind(o))
    ids = torch.randint(30522, (o.tokens,))

    def forward(x):
        gate, expert = r(x, ids)
        return twin_models.by_expert(x, gate, expert, experts)

    return there_and_back(o, module, compiled(o, forward))


def olmoe(o):
    module = twin_models.Olmoe(o.dim, o.hidden, o.experts, o.top_k, o.how).to(kind(o))
    return there_and_back(o, module, compiled(o, module))


def main():
    o = options()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    if o.dtype == "bf16":
        allow_bf16()
    make = {"train": stepper, "decode": decoder, "prompt": decoder, "olmoe": olmoe, "layer": layer, "router": router}
    run, about = make[o.what](o)
    for _ in range(5 if o.compile else 0):
        run() # compiles, again for sizes that change
    about["torch"], about["threads"] = torch.__version__, torch.get_num_threads()
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
