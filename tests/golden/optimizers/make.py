"""make.py OUT: what PyTorch's optimizers make of the same values and gradients in 20 steps.

torch.optim.AdamW, Adam, Adafactor and Muon; Lion by its formula (Chen et al. 2023, algorithm 2).
Muon iterates in bfloat16 there; here its cast to bfloat16 is a cast to float32, so that the rest
can be compared closely. Values and gradients are computed from integers, as in
tests/unit/train/check_optim.c. Made with PyTorch 2.15.0:

    python3 tests/golden/optimizers/make.py tests/golden/optimizers/golden.safetensors
"""
import json, struct, sys
import torch

STEPS, DECAY = 20, 0.1
# name, shape, matrices of which it consists: "one", rows of each, or per expert
PARAMS = [
    ("embed.weight", (11, 6), "one"),
    ("layers.0.norm1.weight", (6,), "one"),
    ("layers.0.attention.qkv.weight", (16, 6), (8, 4, 4)),
    ("layers.0.attention.out.weight", (6, 8), "one"),
    ("layers.0.router.weight", (3, 6), "one"),
    ("layers.0.expert.w13", (3, 8, 6), "halves"),
    ("layers.0.expert.w2", (3, 6, 4), "experts"),
    ("layers.0.expert.b2", (3, 6), "vectors"),
    ("head.weight", (11, 6), "one"),
]
NO_DECAY = {"embed.weight", "layers.0.norm1.weight", "layers.0.expert.b2"}
BY_ADAMW = NO_DECAY | {"layers.0.router.weight", "head.weight"}


def numbers(seed, count):
    """Numbers in [-0.5, 0.5) with 24 bits."""
    out, x = [], seed & 0xFFFFFFFF
    for _ in range(count):
        x = (1664525 * x + 1013904223) & 0xFFFFFFFF
        out.append((x >> 8) / 2**24 - 0.5)
    return torch.tensor(out, dtype=torch.float32)


def parts(value, how):
    if how == "one":
        return [value]
    if isinstance(how, tuple):
        return list(torch.split(value, how))
    each = [value[e] for e in range(value.shape[0])]
    return [h for e in each for h in torch.chunk(e, 2)] if how == "halves" else each


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (b1, b2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                way = torch.sign(b1 * m + (1 - b1) * p.grad)
                p -= lr * (way + decay * p)
                m.copy_(b2 * m + (1 - b2) * p.grad)


def optimizers(kind, decayed, free, matrices):
    """The optimizers for [(parameters, decay)] and for the matrices of Muon."""
    groups = [dict(params=p, weight_decay=d) for p, d in ((decayed, DECAY), (free, 0.0)) if p]
    betas = (0.9, 0.95)
    if kind == "adamw":
        return [torch.optim.AdamW(groups, lr=0.01, betas=betas, eps=1e-8)]
    if kind == "adam":
        return [torch.optim.Adam(groups, lr=0.01, betas=betas, eps=1e-8)]
    if kind == "lion":
        return [Lion(groups, 0.01, betas, 0)]
    if kind == "adafactor":
        return [torch.optim.Adafactor(groups, lr=0.01)]
    adjust = "match_rms_adamw" if kind == "muon" else "original"
    return [torch.optim.AdamW(groups, lr=0.01, betas=betas, eps=1e-8),
            torch.optim.Muon(matrices, lr=0.01, weight_decay=DECAY, momentum=0.95,
                             adjust_lr_fn=adjust)]


def train(kind):
    values = [[torch.nn.Parameter(p.clone()) for p in
               parts(numbers(i + 1, torch.Size(s).numel()).reshape(s), how)]
              for i, (_, s, how) in enumerate(PARAMS)]
    muon = kind.startswith("muon")
    taken = [muon and name not in BY_ADAMW for name, _, _ in PARAMS]
    pick = lambda f: [p for i, v in enumerate(values) if f(i) for p in v]
    all_of = optimizers(kind,
                        pick(lambda i: not taken[i] and PARAMS[i][0] not in NO_DECAY),
                        pick(lambda i: not taken[i] and PARAMS[i][0] in NO_DECAY),
                        pick(lambda i: taken[i]))
    for step in range(STEPS):
        for i, (_, shape, how) in enumerate(PARAMS):
            g = numbers(1000 * (step + 1) + i, torch.Size(shape).numel()).reshape(shape) * 0.25
            for p, part in zip(values[i], parts(g, how)):
                p.grad = part.clone()
        for o in all_of:
            o.step()
    return [torch.cat([p.detach().reshape(-1) for p in v]) for v in values]


torch.bfloat16 = torch.float32  # looked up by Muon when it steps
head, data = {}, b""
for kind in ("adamw", "adam", "lion", "muon", "muon_original", "adafactor"):
    for (name, shape, _), v in zip(PARAMS, train(kind)):
        raw = struct.pack(f"<{v.numel()}f", *v.tolist())
        head[f"{kind}/{name}"] = dict(dtype="F32", shape=list(shape),
                                      data_offsets=[len(data), len(data) + len(raw)])
        data += raw
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
