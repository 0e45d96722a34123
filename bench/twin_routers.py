"""The routers as a person would write them in PyTorch, with moefw's default options and its names
of parameters, so that weights can be copied and outputs compared (verify.py).

A router maps x [T,d] to (gate [T,k], expert [T,k]); `ids` [T] are for routers that use
token ids instead. NAME:OPTION=VALUE+... selects readings, as for `moefw bench routers`.
"""
import torch
import torch.nn.functional as F
from torch import nn


def matrix(rows, columns):
    return nn.Parameter(torch.randn(rows, columns) * 0.02)


def zeros(n):
    return nn.Parameter(torch.zeros(n))


class TopK(nn.Module):
    """Routers that give probabilities; the k largest are taken and normalized to sum 1."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x, ids=None):
        top, expert = self.prob(x).topk(self.k, -1)
        return top / top.sum(-1, keepdim=True), expert

    def prob(self, x):
        return self.logits(x).softmax(-1)


class Linear(TopK):
    def __init__(self, d, experts, k, bias=False):
        super().__init__(k)
        self.weight = matrix(experts, d)
        self.bias = zeros(experts) if bias else None

    def logits(self, x):
        return F.linear(x, self.weight, self.bias)


class Attention(TopK):
    def __init__(self, d, experts, k, qk_dim=64):
        super().__init__(k)
        self.query, self.keys = matrix(qk_dim, d), matrix(experts, qk_dim)

    def logits(self, x):
        return F.linear(F.linear(x, self.query), self.keys) * self.keys.shape[1] ** -0.5


class Mlp(TopK):
    def __init__(self, d, experts, k, hidden=128, input_norm="layernorm"):
        super().__init__(k)
        self.norm = nn.LayerNorm(d) if input_norm == "layernorm" else nn.Identity()
        self.w1, self.b1 = matrix(hidden, d), zeros(hidden)
        self.w2, self.b2 = matrix(experts, hidden), zeros(experts)

    def logits(self, x):
        return F.linear(F.gelu(F.linear(self.norm(x), self.w1, self.b1)), self.w2, self.b2)


class Hybrid(TopK):
    def __init__(self, d, experts, k, qk_dim=64, mix="prob"):
        super().__init__(k)
        self.weight, self.query, self.keys = matrix(experts, d), matrix(qk_dim, d), matrix(experts, qk_dim)
        self.mix_linear = nn.Parameter(torch.full((1,), 0.5))
        self.mix_attention = nn.Parameter(torch.full((1,), 0.5))
        self.mix = mix

    def prob(self, x):
        a = F.linear(x, self.weight)
        b = F.linear(F.linear(x, self.query), self.keys) * self.keys.shape[1] ** -0.5
        if self.mix == "logit":
            return (self.mix_linear * a + self.mix_attention * b).softmax(-1)
        return self.mix_linear * a.softmax(-1) + self.mix_attention * b.softmax(-1)


def sylvester(n):
    h = torch.ones(1, 1)
    while h.shape[0] < n:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    return h


class MlpHadamard(TopK):
    def __init__(self, d, experts, k, hidden=128, mode="walsh", input_norm="layernorm", start="kaiming"):
        super().__init__(k)
        self.norm = nn.LayerNorm(d) if input_norm == "layernorm" else nn.Identity()
        self.w1, self.b1 = matrix(hidden, d), zeros(hidden)
        self.w2, self.b2 = matrix(experts, hidden), zeros(experts)
        if mode == "product":
            self.wp = matrix(hidden, d)
        else:
            self.register_buffer("walsh", sylvester(hidden), persistent=False)

    def logits(self, x):
        h = F.gelu(F.linear(self.norm(x), self.w1, self.b1))
        h = h * F.linear(x, self.wp) if hasattr(self, "wp") else F.linear(h, self.walsh)
        return F.linear(h, self.w2, self.b2)


class SelfSupervised(TopK):
    """In evaluation mode; the loss on a second view of the tokens exists only in training."""

    def __init__(self, d, experts, k, hidden=256):
        super().__init__(k)
        self.v1, self.c1, self.v2, self.c2 = matrix(hidden, d), zeros(hidden), matrix(hidden, hidden), zeros(hidden)
        self.weight, self.bias = matrix(experts, hidden), zeros(experts)

    def logits(self, x):
        z = F.linear(F.gelu(F.linear(x, self.v1, self.c1)), self.v2, self.c2)
        return F.linear(z, self.weight, self.bias)


class NoisyTopK(TopK):
    """Noise in training, and a loss: the squared coefficient of variation of the gates' sums."""

    def __init__(self, d, experts, k, bias=True, importance_weight=0.0):
        super().__init__(k)
        self.weight, self.bias = matrix(experts, d), zeros(experts) if bias else None
        self.noise = nn.Linear(d, experts, bias=bias)
        self.importance_weight = importance_weight
        self.loss = 0.0

    def forward(self, x, ids=None):
        logits = F.linear(x, self.weight, self.bias).float()
        if self.training:
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(x).float())
        top, expert = logits.topk(self.k, -1)
        gate = top.softmax(-1)
        if self.training and self.importance_weight > 0:
            sums = torch.zeros_like(logits).scatter(1, expert, gate).sum(0)
            self.loss = self.importance_weight * sums.var(unbiased=False) / (sums.mean() ** 2 + 1e-10)
        return gate, expert


class Cosine(TopK):
    def __init__(self, d, experts, k, proj_dim=64):
        super().__init__(k)
        self.project, self.keys = matrix(proj_dim, d), matrix(experts, proj_dim)
        self.temperature = nn.Parameter(torch.full((1,), 0.3))

    def logits(self, x):
        z = F.normalize(F.linear(x, self.project), dim=-1)
        return F.linear(z, F.normalize(self.keys, dim=-1)) / self.temperature.clamp(min=0.01)


class SigmoidBias(nn.Module):
    def __init__(self, d, experts, k):
        super().__init__()
        self.k, self.weight = k, matrix(experts, d)
        self.register_buffer("bias", torch.zeros(experts))

    def forward(self, x, ids=None):
        score = F.linear(x, self.weight).sigmoid()
        expert = (score + self.bias).topk(self.k, -1)[1]
        gate = score.gather(1, expert)
        return gate / gate.sum(-1, keepdim=True), expert


class Relu(nn.Module):
    """Every expert with a gate above 0; -1 where there is none."""

    def __init__(self, d, experts, k):
        super().__init__()
        self.weight = matrix(experts, d)

    def forward(self, x, ids=None):
        gate = F.relu(F.linear(x, self.weight))
        number = torch.arange(gate.shape[1])
        return gate, torch.where(gate > 0, number, -1)


class Sinkhorn(Linear):
    """The scaling acts in training only."""


class TiaR(Linear):
    """The importance of tokens orders them under a capacity; without one it changes nothing."""


class ExpertChoice(nn.Module):
    def __init__(self, d, experts, k):
        super().__init__()
        self.k, self.weight = k, matrix(experts, d)

    def forward(self, x, ids=None):
        score = F.linear(x, self.weight).softmax(-1)
        room = x.shape[0] * self.k // score.shape[1]
        return score.t().topk(room, -1) # gates and tokens of each expert


class Random(nn.Module):
    def __init__(self, d, experts, k):
        super().__init__()
        self.k, self.experts = k, experts

    def forward(self, x, ids=None):
        expert = torch.rand(x.shape[0], self.experts).topk(self.k, -1)[1]
        return torch.full_like(expert, 1 / self.k, dtype=torch.float32), expert


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def shifted(z, n):
    """A shift to the right that fills with zeros, because torch has no unsigned 64-bit integers."""
    return (z >> n) & ((1 << (64 - n)) - 1)


def splitmix(z):
    z = z + signed(0x9E3779B97F4A7C15)
    z = (z ^ shifted(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shifted(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ shifted(z, 31)


class Hash(nn.Module):
    """One expert by the token's id, or by the signs of its vector; gate 1."""

    def __init__(self, d, experts, k, source="token_id"):
        super().__init__()
        self.experts, self.source = experts, source
        self.register_buffer("bits", torch.tensor([signed(1 << i) for i in range(64)]), persistent=False)

    def forward(self, x, ids=None):
        seed = splitmix(torch.zeros(1, dtype=torch.int64))
        if self.source == "token_id":
            h = splitmix(seed ^ ids)
        else:
            words = ((x < 0).view(x.shape[0], -1, 64) * self.bits).sum(-1)
            h = seed
            for i in range(words.shape[1]):
                h = splitmix(h ^ words[:, i])
        rest = (shifted(h, 1) % self.experts * 2 + (h & 1)) % self.experts
        return torch.ones(x.shape[0], 1), rest[:, None]


KINDS = {
    "linear": Linear, "attention": Attention, "mlp": Mlp, "hybrid": Hybrid, "mlp_hadamard": MlpHadamard,
    "hash": Hash, "self_supervised": SelfSupervised, "noisy_topk": NoisyTopK, "sigmoid_bias": SigmoidBias,
    "cosine": Cosine, "relu": Relu, "sinkhorn": Sinkhorn, "expert_choice": ExpertChoice, "tia_r": TiaR,
    "random": Random,
}


def make(text, d, experts, k):
    """A router from `name` or `name:option=value+...`."""
    name, _, rest = text.partition(":")
    options = dict(part.split("=", 1) for part in rest.split("+") if part)
    return KINDS[name](d, experts, k, **options)
