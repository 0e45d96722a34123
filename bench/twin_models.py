"""The workloads' models as a person would write them in PyTorch, with the shapes, the numbers of
parameters and the names of moefw's (load() copies weights).

LaMoE   decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU experts with a noisy
        top-2 router, no biases; tokens sorted by expert, one slice for each.
Switch  character model: LayerNorm, learned positions, biases, ReLU experts, top-1 with capacity
        1.25, overflow passes by; experts in one batched gemm.
Gpt2    the dense model of 124 million parameters, head tied to the embedding.
Default the preset default of moefw: as LaMoE, small, with a linear router and two losses on it.

PyTorch must be version 2.5 or newer.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

import twin_routers


class Attention(nn.Module):
    def __init__(self, d, heads, kv, bias):
        super().__init__()
        self.heads, self.kv, self.c = heads, kv, d // heads
        self.qkv = nn.Linear(d, (heads + 2 * kv) * self.c, bias=bias)
        self.out = nn.Linear(d, d, bias=bias)

    def forward(self, x, turn=None, cache=None, at=0):
        B, T, d = x.shape
        y = self.qkv(x).view(B, T, self.heads + 2 * self.kv, self.c).transpose(1, 2)
        q, k, v = y.split((self.heads, self.kv, self.kv), 1)
        if turn is not None:
            q, k = rotate(q, *turn), rotate(k, *turn)
        if cache is not None:
            keys, values = cache
            keys[:, :, at : at + T], values[:, :, at : at + T] = k, v
            k, v = keys[:, :, : at + T], values[:, :, : at + T]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1, enable_gqa=self.heads != self.kv)
        return self.out(y.transpose(1, 2).reshape(B, T, d))


def rotate(x, cos, sin):
    """Channel i pairs with i + half."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class RmsNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), 1e-5)


class SwiGlu(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.w1 = nn.Linear(d, hidden, bias=False)
        self.w3 = nn.Linear(d, hidden, bias=False)
        self.w2 = nn.Linear(hidden, d, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


def by_expert(x, gate, expert, experts):
    """Sorts assignments by expert, computes a slice for each, and adds the results to their tokens."""
    k = expert.shape[1]
    order = expert.reshape(-1).argsort(stable=True)
    rows = torch.bincount(expert.reshape(-1), minlength=len(experts)).tolist()
    token = torch.div(order, k, rounding_mode="floor")
    parts = x[token].split(rows)
    y = torch.cat([f(part) for f, part in zip(experts, parts) if len(part)])
    y = y * gate.reshape(-1)[order, None].to(y.dtype)
    return torch.zeros(x.shape, dtype=y.dtype).index_add(0, token, y)


class Experts(nn.Module):
    """A router and experts of any kind; assignments are dispatched by sorting."""

    def __init__(self, router, experts):
        super().__init__()
        self.router, self.expert = router, nn.ModuleList(experts)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        gate, expert = self.router(x)
        if len(x) == 1: # decoding: only the chosen experts, nothing to sort
            y = sum(g * self.expert[e](x) for g, e in zip(gate[0].to(x.dtype), expert[0].tolist()))
        else:
            y = by_expert(x, gate, expert, self.expert)
        return y.view(shape)


class LaMoeBlock(nn.Module):
    def __init__(self, d, heads, kv, hidden, experts, router):
        super().__init__()
        self.norm1, self.attention = RmsNorm(d), Attention(d, heads, kv, False)
        self.norm2 = RmsNorm(d)
        self.moe = Experts(router, [SwiGlu(d, hidden) for _ in range(experts)])

    def forward(self, x, turn, cache, at):
        x = x + self.attention(self.norm1(x), turn, cache, at)
        return x + self.moe(self.norm2(x))


class LaMoe(nn.Module):
    vocab, seq, batch, pairs, clip = 30000, 300, 8, False, 0.0

    def __init__(self, d=512, layers=4, heads=8, kv=4, hidden=2048, experts=8):
        super().__init__()
        self.embed = nn.Embedding(self.vocab, d)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(LaMoeBlock(d, heads, kv, hidden, experts, self.new_router(d, experts)) for _ in range(layers))
        self.norm, self.head = RmsNorm(d), nn.Linear(d, self.vocab, bias=False)
        self.kv, self.c = kv, d // heads
        angle = torch.outer(torch.arange(8192.0), 10000 ** (-torch.arange(0, self.c, 2) / self.c))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def new_router(self, d, experts):
        return twin_routers.NoisyTopK(d, experts, 2, bias=False, importance_weight=0.01)

    def new_cache(self, room):
        kind = self.norm.weight.dtype
        one = (1, self.kv, room, self.c)
        return [(torch.zeros(one, dtype=kind), torch.zeros(one, dtype=kind)) for _ in self.layers]

    def forward(self, ids, caches=None, at=0):
        T = ids.shape[1]
        turn = self.cos[at : at + T], self.sin[at : at + T]
        x = self.embed(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, turn, caches[i] if caches else None, at)
        if caches:
            x = x[:, -1:]
        return self.head(self.norm(x))

    def extra_loss(self):
        return sum(layer.moe.router.loss for layer in self.layers)


class Default(LaMoe):
    """Heads are rotated by halves here, which is faster, and by pairs in moefw: `pairs`."""

    vocab, seq, batch, pairs, clip = 256, 128, 16, True, 1.0

    def __init__(self):
        super().__init__(d=128, layers=4, heads=4, kv=4, hidden=256, experts=8)

    def new_router(self, d, experts):
        return twin_routers.Balanced(d, experts, 2, balance=0.01, z=0.001)


class SwitchExperts(nn.Module):
    """Top-1 into slots [E,C,d]; tokens without a slot are dropped."""

    def __init__(self, d, hidden, experts, factor):
        super().__init__()
        self.router = twin_routers.Linear(d, experts, 1, bias=True)
        self.factor = factor
        self.w1 = nn.Parameter(torch.randn(experts, d, hidden) * 0.02)
        self.b1 = nn.Parameter(torch.zeros(experts, 1, hidden))
        self.w2 = nn.Parameter(torch.randn(experts, hidden, d) * 0.02)
        self.b2 = nn.Parameter(torch.zeros(experts, 1, d))

    def forward(self, x):
        shape, E = x.shape, self.w1.shape[0]
        x = x.reshape(-1, shape[-1])
        T, d = x.shape
        room = math.ceil(self.factor * T / E)
        p = self.router.logits(x).float().softmax(-1)
        gate, expert = p.max(-1)
        hot = F.one_hot(expert, E)
        self.loss = 0.01 * E * (hot.float().mean(0) * p.mean(0)).sum()
        place = (hot.cumsum(0).gather(1, expert[:, None]) - 1).squeeze(1)
        kept = (place < room).nonzero().squeeze(1)
        slot = expert[kept] * room + place[kept]
        full = torch.zeros(E * room, d, dtype=x.dtype).index_copy(0, slot, x[kept]).view(E, room, d)
        h = F.relu(torch.baddbmm(self.b1.to(x.dtype), full, self.w1))
        y = torch.baddbmm(self.b2.to(h.dtype), h, self.w2).view(E * room, d)
        y = (y[slot] * gate[kept, None]).to(x.dtype)
        return torch.zeros_like(x).index_copy(0, kept, y).view(shape)


class NormBlock(nn.Module):
    """LayerNorm, attention with biases, LayerNorm, and a second part given by the caller."""

    def __init__(self, d, heads, second):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(d), Attention(d, heads, heads, True)
        self.norm2, self.second = nn.LayerNorm(d), second

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.second(self.norm2(x))


class Switch(nn.Module):
    vocab, seq, batch, pairs, clip = 65, 128, 32, False, 0.0

    def __init__(self, d=128, layers=4, heads=4, hidden=512, experts=8):
        super().__init__()
        self.embed, self.position = nn.Embedding(self.vocab, d), nn.Embedding(self.seq, d)
        self.layers = nn.ModuleList(
            NormBlock(d, heads, SwitchExperts(d, hidden, experts, 1.25)) for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, self.vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.position.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    def extra_loss(self):
        return sum(layer.second.loss for layer in self.layers)


class Dense(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Gpt2(nn.Module):
    vocab, seq, batch, pairs, clip = 50257, 64, 4, False, 0.0

    def __init__(self, d=768, layers=12, heads=12):
        super().__init__()
        self.embed, self.position = nn.Embedding(self.vocab, d), nn.Embedding(self.seq, d)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.layers = nn.ModuleList(NormBlock(d, heads, Dense(d)) for _ in range(layers))
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        x = self.embed(ids) + self.position.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embed.weight)

    def extra_loss(self):
        return 0.0


def mlp_experts(d, hidden, experts):
    """GELU experts with biases, as moefw's expert `mlp` has them."""
    return [nn.Sequential(nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d)) for _ in range(experts)]


class Olmoe(nn.Module):
    """A layer of OLMoE's form: a linear router, and SwiGLU experts without biases, whose weights
    are stacked. how: "grouped", a grouped gemm for all experts, or "loop", a gemm for each."""

    def __init__(self, d, hidden, experts, k, how):
        super().__init__()
        self.router = twin_routers.Linear(d, experts, k)
        self.w13 = nn.Parameter(torch.randn(experts, 2 * hidden, d) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, d, hidden) * 0.02)
        self.multiply = grouped if how == "grouped" else looped

    def forward(self, x):
        gate, expert = self.router(x)
        order = expert.reshape(-1).argsort(stable=True)
        rows = torch.bincount(expert.reshape(-1), minlength=len(self.w2))
        token = torch.div(order, expert.shape[1], rounding_mode="floor")
        a, b = self.multiply(x[token], self.w13, rows).chunk(2, -1)
        y = self.multiply(F.silu(a) * b, self.w2, rows)
        y = y * gate.reshape(-1)[order, None].to(y.dtype)
        return torch.zeros_like(x).index_add(0, token, y)


def grouped(x, w, rows):
    ends = rows.cumsum(0).to(torch.int32)
    return F.grouped_mm(x, w.transpose(1, 2), offs=ends)


def looped(x, w, rows):
    return torch.cat([part @ one.t() for part, one in zip(x.split(rows.tolist()), w)])


MODELS = {"lamoe": LaMoe, "switch": Switch, "gpt2": Gpt2, "default": Default}


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def their_name(name):
    """moefw's name of a parameter, and whether it is one expert of a stack."""
    for mine, theirs in (("moe.router", "router"), ("second.router", "router"), ("second.up.", "ffn.1."),
                         ("second.down.", "ffn.2."), ("second.", "expert.")):
        name = name.replace(mine, theirs)
    return name


@torch.no_grad()
def load(module, tensors):
    """Copies the weights of a moefw checkpoint (tensors by name); every one must be used."""
    left = dict(tensors)
    for name, p in module.named_parameters():
        n = their_name(name)
        for which, letter in (("weight", "w"), ("bias", "b")):
            for part in ("1", "2"):
                n = n.replace("ffn.%s.%s" % (part, which), "ffn.%s%s" % (letter, part))
        if ".moe.expert." in n: # one expert of a stack; w13 holds w1 and w3
            head, _, tail = n.partition(".moe.expert.")
            e, which = int(tail.split(".")[0]), tail.split(".")[1]
            if which == "w2":
                value = left_of(left, head + ".expert.w2")[e]
            else:
                both = left_of(left, head + ".expert.w13")[e]
                value = both.chunk(2, 0)[0 if which == "w1" else 1]
        else:
            value = left_of(left, n)
            if module.pairs and n.endswith("attention.qkv.weight"):
                value = by_halves(value, module.kv, module.c)
            if ".expert." in n and n.split(".")[-1] in ("w1", "w2"):
                value = value.transpose(1, 2) # stored as [out, in], used as [in, out]
        p.copy_(value.reshape(p.shape))
    unused = set(left) - left_of.used
    if unused:
        raise SystemExit("weights that the twin has no place for: %s" % sorted(unused))


def by_halves(qkv, heads, c):
    """Rows of queries and keys of as many heads, in the order in which channel i pairs with i + c / 2."""
    order = torch.cat((torch.arange(0, c, 2), torch.arange(1, c, 2)))
    rows = torch.cat([order + c * h for h in range(2 * heads)] + [torch.arange(2 * heads * c, len(qkv))])
    return qkv[rows]


def left_of(left, name):
    left_of.used.add(name)
    return left[name]


left_of.used = set()
