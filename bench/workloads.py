"""The workloads: how each side is started, how many runs make a turn, and the floor of the time.

A floor is a time that no program of this shape can go below on this machine: the operations of its
gemms at the best gemm rate that any library reached in the same run, plus the bytes that must move
at this machine's rate. It counts nothing else, so the distance from a floor to a time is the cost of
everything that is neither a gemm nor memory that must be read or written.
"""
import math

ROUTERS = [
    "linear", "attention", "mlp", "mlp:input_norm=none", "hybrid", "hybrid:mix=logit", "mlp_hadamard",
    "mlp_hadamard:mode=product+input_norm=none", "hash", "hash:source=sign_bits", "self_supervised",
    "noisy_topk", "sigmoid_bias", "cosine", "relu", "sinkhorn", "expert_choice", "tia_r", "random",
]
# The layers of the goals: the routers of the paper, each in its layer.
LAYERS = ["linear", "attention", "mlp", "hybrid", "mlp_hadamard", "hash", "self_supervised"]
TOKENS, DIM, HIDDEN, EXPERTS, TOP_K = 2048, 768, 3072, 8, 2


def router_flops(text, d, experts, hidden=128, qk=64, features=256):
    """Operations of the gemms for one token; a floor counts no others."""
    name, _, rest = text.partition(":")
    linear = 2 * d * experts
    return {
        "linear": linear, "tia_r": linear, "sinkhorn": linear, "sigmoid_bias": linear, "relu": linear,
        "expert_choice": linear, "noisy_topk": linear,
        "attention": 2 * qk * (d + experts), "cosine": 2 * qk * (d + experts),
        "hybrid": linear + 2 * qk * (d + experts),
        "mlp": 2 * hidden * (d + experts),
        "mlp_hadamard": 2 * hidden * (d * (2 if "product" in rest else 1) + experts)
        + (0 if "product" in rest else 2 * hidden * math.log2(hidden)),
        "self_supervised": 2 * features * (d + features + experts),
        "hash": 0, "random": 0,
    }[name]


def reads_x(text):
    """Does a router look at the vectors at all?"""
    return text not in ("hash", "random")


def attention_flops(T, d):
    """Scores and sums over values of one sequence, each token with those before it."""
    return 2 * 2 * d * T * (T + 1) / 2


# Multiply-adds of gemms per token in a forward pass, all weights, weights used per token.
MODELS = {
    "lamoe": dict(vocab=30000, seq=300, batch=8, layers=4, dim=512,
                  macs=4 * (512 * 1024 + 512 * 512 + 2 * 512 * 8 + 2 * 3 * 512 * 2048) + 512 * 30000),
    "switch": dict(vocab=65, seq=128, batch=32, layers=4, dim=128,
                   macs=4 * (4 * 128 * 128 + 128 * 8 + 2 * 128 * 512) + 128 * 65),
    "gpt2": dict(vocab=50257, seq=64, batch=4, layers=12, dim=768,
                 macs=12 * (4 * 768 * 768 + 8 * 768 * 768) + 768 * 50257),
}


class Workload:
    def __init__(self, name, ours, twin, turn, dtypes, threads, goal, floor, text):
        self.name, self.ours, self.twin, self.turn = name, ours, twin, turn
        self.dtypes, self.threads, self.goal, self.floor, self.text = dtypes, threads, goal, floor, text


CACHED = 128 << 20 # bytes of values, gradients and moments that the last cache may hold


def train_floor(name):
    m = MODELS[name]
    tokens = m["batch"] * m["seq"]
    forward = 2 * m["macs"] * tokens + m["layers"] * m["batch"] * attention_flops(m["seq"], m["dim"])

    def floor(limits, dtype, params):
        rate = limits["gemm_" + dtype]
        adamw = limits["adamw_gb"]
        if 16 * params > CACHED:
            adamw = limits.get("adamw_memory_gb", adamw) # records made before that limit was measured lack it
        return 1e3 * (3 * forward / (rate * 1e9) + 28 * params / (adamw * 1e9))

    floor.says = "%.0f GFLOP of gemms at the best gemm rate + 28 bytes a parameter of AdamW" % (3e-9 * forward)
    return floor


def decode_floor(limits, dtype, params):
    m = MODELS["lamoe"]
    size = 2 if dtype == "bf16" else 4
    return 1e3 * m["macs"] * size / (limits["read_gb"] * 1e9)


decode_floor.says = "%.1f M weights in use, read once, at the rate of reading memory" % (MODELS["lamoe"]["macs"] / 1e6)


def prompt_floor(limits, dtype, params):
    m, T = MODELS["lamoe"], 300
    head = 512 * 30000
    flops = 2 * T * (m["macs"] - head) + 2 * head + 4 * attention_flops(T, 512)
    size = 2 if dtype == "bf16" else 4
    return 1e3 * max(flops / (limits["gemm_" + dtype] * 1e9), params * size / (limits["read_gb"] * 1e9))


prompt_floor.says = "the gemms of 300 tokens, logits of the last; or all weights read once"


def layer_floor(router):
    rows = TOKENS * (1 if router == "hash" else TOP_K)
    flops = 3 * (rows * 2 * 2 * DIM * HIDDEN + TOKENS * router_flops(router, DIM, EXPERTS))

    def floor(limits, dtype, params):
        return 1e3 * flops / (limits["gemm_" + dtype] * 1e9)

    floor.says = "%.0f GFLOP of gemms, forward and backward" % (1e-9 * flops)
    return floor


def router_floor(router):
    flops = TOKENS * router_flops(router, DIM, EXPERTS)
    bytes_read = TOKENS * (4 * DIM if reads_x(router) else 4)

    def floor(limits, dtype, params):
        return 1e3 * (flops / (limits["gemm_f32"] * 1e9) + bytes_read / (limits["read_cache_gb"] * 1e9))

    floor.says = "%.2f GFLOP of gemms + %.1f MB read once from the cache" % (1e-9 * flops, 1e-6 * bytes_read)
    return floor


def everything():
    both = ("f32", "bf16")
    train = ["bench", "train"]
    out = [
        Workload("lamoe", train + ["lamoe.ini"], ["train", "lamoe"], 1, both, 2, {"f32": 1.35, "bf16": 2.8},
                 train_floor("lamoe"), "LaMoE, one training step, batch 8 x 300"),
        Workload("switch", train + ["switch.ini"], ["train", "switch"], 3, both, 2, {"f32": 2.5, "bf16": 2.5},
                 train_floor("switch"), "Switch character model, one training step, batch 32 x 128"),
        Workload("gpt2", train + ["gpt2.ini"], ["train", "gpt2"], 1, both, 2, {"f32": 1.35, "bf16": 2.5},
                 train_floor("gpt2"), "dense GPT-2, one training step, batch 4 x 64"),
        Workload("decode", ["bench", "generate", "lamoe.ini", "--prompt", "16", "--tokens", "128"],
                 ["decode", "--prompt", "16", "--new", "128"], 1, both, 2, {"f32": 3.2, "bf16": 2.6, "llama": {"f32": 1.0, "bf16": 1.0}},
                 decode_floor, "LaMoE, one token with the cache, 128 behind a prompt of 16"),
        Workload("prompt", ["bench", "prompt", "lamoe.ini", "--prompt", "300"], ["prompt", "--prompt", "300"], 3, both, 2,
                 {"llama": {"f32": 1.5, "bf16": 3.0}}, prompt_floor, "LaMoE, a prompt of 300 tokens"),
    ]
    for r in LAYERS:
        out.append(Workload("layer-" + r, ["bench", "layer", "--routers", r, "--expert", "mlp", "--dim", str(DIM), "--hidden",
                            str(HIDDEN), "--experts", str(EXPERTS), "--top-k", str(TOP_K), "--tokens", str(TOKENS)],
                            ["layer", r], 1, both, 2, {"f32": None, "bf16": None}, layer_floor(r),
                            "MoE layer 768-3072-768, 8 experts, 2,048 tokens, forward + backward, router " + r))
    for r in ROUTERS:
        out.append(Workload("router-" + r, ["bench", "routers", "--routers", r, "--no-layer", "--seeds", "1"],
                            ["router", r], 21, ("f32",), 1, {"f32": 1.0}, router_floor(r),
                            "router alone, forward, 2,048 tokens, 768 wide, 8 experts: " + r))
    return out


ALL = {w.name: w for w in everything()}


def chosen(words):
    """Workloads by name, or by the part before the dash: `router`, `layer`."""
    names = []
    for word in words or ALL:
        found = [n for n in ALL if n == word or n.startswith(word + "-")]
        if not found:
            raise SystemExit("workload '%s': expected one of %s, layer, router" % (word, ", ".join(n for n in ALL if "-" not in n)))
        names += [n for n in found if n not in names]
    return [ALL[n] for n in names]
