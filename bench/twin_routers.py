"""The routers as a person would write them in PyTorch, with moefw's default options and its names
of parameters, so that weights can be copied and outputs compared (verify.py).

A router maps x [T,d] to (gate [T,k], expert [T,k]); `ids` [T] are for routers that use
token ids instead.
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
    def __init__(self, d, experts, k, hidden=128):
        super().__init__(k)
        self.norm = nn.LayerNorm(d)
        self.w1, self.b1 = matrix(hidden, d), zeros(hidden)
        self.w2, self.b2 = matrix(experts, hidden), zeros(experts)

    def logits(self, x):
        return F.linear(F.gelu(F.linear(self.norm(x), self.w1, self.b1)), self.w2, self.b2)


class Balanced(Linear):
    """The losses of moefw's preset: Switch's balance of rows and probabilities, and the z loss."""

    def __init__(self, d, experts, k, balance, z):
        super().__init__(d, experts, k)
        self.balance, self.z, self.loss = balance, z, 0.0

    def forward(self, x, ids=None):
        logits = self.logits(x).float()
        prob = logits.softmax(-1)
        top, expert = prob.topk(self.k, -1)
        if self.training:
            experts = logits.shape[1]
            share = torch.bincount(expert.reshape(-1), minlength=experts) / expert.numel()
            self.loss = self.balance * experts * (share * prob.mean(0)).sum() + self.z * logits.logsumexp(-1).square().mean()
        return top / top.sum(-1, keepdim=True), expert


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


class ExpertChoice(nn.Module):
    def __init__(self, d, experts, k):
        super().__init__()
        self.k, self.weight = k, matrix(experts, d)

    def forward(self, x, ids=None):
        score = F.linear(x, self.weight).softmax(-1)
        room = x.shape[0] * self.k // score.shape[1]
        return score.t().topk(room, -1) # gates and tokens of each expert


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
    """One expert by the token's id; gate 1."""

    def __init__(self, d, experts, k):
        super().__init__()
        self.experts = experts

    def forward(self, x, ids=None):
        h = splitmix(splitmix(torch.zeros(1, dtype=torch.int64)) ^ ids)
        rest = (shifted(h, 1) % self.experts * 2 + (h & 1)) % self.experts
        return torch.ones(x.shape[0], 1), rest[:, None]


KINDS = {"linear": Linear, "attention": Attention, "mlp": Mlp, "expert_choice": ExpertChoice, "hash": Hash}


def make(name, d, experts, k):
    return KINDS[name](d, experts, k)
