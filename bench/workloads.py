"""The workloads: how each side is started, how many runs make a turn, and a limit of the time.

A limit is a time that no program of this shape can go below on this machine: the operations of its
gemms at the rate of multiply-adds on registers, in the type's fastest instruction, plus the bytes
that must move at the rate of memory (limits.c). It counts nothing else, so the distance from a
limit to a time is the cost of everything that is neither.
"""
TORCH = ("torch-tuned", "torch-compiled")
ROUTERS = ("linear", "mlp", "attention", "expert_choice", "hash")
TOKENS, DIM, HIDDEN, EXPERTS, TOP_K = 2048, 768, 3072, 8, 2
CACHED = 128 << 20 # bytes of values, gradients and moments that the last cache may hold


def gemm_rate(limits, dtype):
    """Operations a second; where instructions for bf16 are the slower ones, f32 counts."""
    rates = [limits["fma_f32"]]
    if dtype != "f32":
        rates += [limits[k] for k in ("fma_bf16", "amx_bf16") if k in limits]
    return 1e9 * max(rates)


def attention_flops(T, d):
    """Scores and sums over values of one sequence, each token with those before it."""
    return 2 * 2 * d * T * (T + 1) / 2


def decoder(config, twin, vocab, seq, batch, layers, dim, macs, ids=True):
    """macs: multiply-adds of gemms per token in a forward pass, of the weights that a token uses."""
    return dict(config=config, twin=twin, vocab=vocab, seq=seq, batch=batch, layers=layers, dim=dim, macs=macs, ids=ids)


LAMOE_MACS = 4 * (512 * 1024 + 512 * 512 + 2 * 512 * 8 + 2 * 3 * 512 * 2048) + 512 * 30000
MODELS = {
    "lamoe": decoder("lamoe.ini", "lamoe", 30000, 300, 8, 4, 512, LAMOE_MACS),
    "switch": decoder("switch.ini", "switch", 65, 128, 32, 4, 128,
                      4 * (4 * 128 * 128 + 128 * 8 + 2 * 128 * 512) + 128 * 65),
    "gpt2": decoder("gpt2.ini", "gpt2", 50257, 64, 4, 12, 768, 12 * (4 * 768 * 768 + 8 * 768 * 768) + 768 * 50257),
    # The preset's own data: their vocabulary is the bytes. The twin's tokens are drawn.
    "default": decoder("default", "default", 256, 128, 16, 4, 128,
                       4 * (4 * 128 * 128 + 128 * 8 + 2 * 3 * 128 * 256) + 128 * 256, ids=False),
    "long": decoder("lamoe.ini", "lamoe", 30000, 8192, 1, 4, 512, LAMOE_MACS),
}


class Workload:
    def __init__(self, name, text, ours, twin, limit, turn=1, dtypes=("f32", "bf16"), threads=2, opponents=TORCH, model=None):
        self.name, self.text, self.ours, self.twin, self.limit = name, text, ours, twin, limit
        self.turn, self.dtypes, self.threads, self.opponents, self.model = turn, dtypes, threads, opponents, model


def train(name, text, turn=1):
    m = MODELS[name]
    tokens = m["batch"] * m["seq"]
    forward = 2 * m["macs"] * tokens + m["layers"] * m["batch"] * attention_flops(m["seq"], m["dim"])

    def limit(limits, dtype, params):
        adamw = limits["adamw_memory_gb" if 16 * params > CACHED else "adamw_gb"]
        return 1e3 * (3 * forward / gemm_rate(limits, dtype) + 28 * params / (adamw * 1e9))

    limit.says = "the gemms (%s GFLOP) on registers + 28 bytes a parameter of AdamW" % "{:,.0f}".format(3e-9 * forward)
    ours = ["bench", "train", m["config"]]
    twin = ["train", m["twin"]]
    if name == "long":
        ours += ["--set", "train.batch=1", "--set", "model.seq=%d" % m["seq"]]
        twin += ["--batch", "1", "--seq", str(m["seq"])]
    return Workload(name, text, ours, twin, limit, turn=turn, model=m)


def decode_limit(limits, dtype, params):
    return 1e3 * LAMOE_MACS * (2 if dtype == "bf16" else 4) / (limits["read_gb"] * 1e9)


decode_limit.says = "the weights in use (%.1f M), read from memory" % (LAMOE_MACS / 1e6)


def prompt_limit(limits, dtype, params):
    T, head = 300, 512 * 30000
    flops = 2 * T * (LAMOE_MACS - head) + 2 * head + 4 * attention_flops(T, 512)
    size = 2 if dtype == "bf16" else 4
    return 1e3 * max(flops / gemm_rate(limits, dtype), params * size / (limits["read_gb"] * 1e9))


prompt_limit.says = "the gemms on registers (logits of the last token), or all weights read from memory"


def olmoe(tokens):
    """A layer of OLMoE's dimensions: forward and backward of many tokens, forward of few."""
    d, hidden, experts, k = 2048, 1024, 64, 8
    few = tokens < 1024
    weights = experts * 3 * d * hidden
    flops = (1 if few else 3) * 2 * tokens * (k * 3 * d * hidden + d * experts)

    def limit(limits, dtype, params):
        size = 2 if dtype == "bf16" else 4
        return 1e3 * (weights * size / (limits["read_gb"] * 1e9) if few else flops / gemm_rate(limits, dtype))

    limit.says = "all weights (%.0f M), read from memory" % (weights / 1e6) if few else "the gemms (%s GFLOP) on registers" % "{:,.0f}".format(1e-9 * flops)
    size = ["--dim", str(d), "--hidden", str(hidden), "--experts", str(experts), "--top-k", str(k), "--tokens", str(tokens)]
    size += ["--forward"] if few else []
    return Workload("olmoe-%d" % tokens, "MoE layer of OLMoE, %s tokens, %s" % (
        "{:,}".format(tokens), "forward" if few else "forward + backward"),
        ["bench", "layer", "--routers", "linear", "--expert", "swiglu"] + size, ["olmoe"] + size, limit, turn=5 if few else 1,
        opponents=("torch-grouped", "torch-loop"))


def router_flops(name, d, experts, hidden=128, qk=64):
    """Operations of the gemms for one token."""
    linear = 2 * d * experts
    return {"linear": linear, "expert_choice": linear, "attention": 2 * qk * (d + experts), "mlp": 2 * hidden * (d + experts),
            "hash": 0}[name]


def layer(router):
    flops = 3 * (TOKENS * TOP_K * 2 * 2 * DIM * HIDDEN + TOKENS * router_flops(router, DIM, EXPERTS))

    def limit(limits, dtype, params):
        return 1e3 * flops / gemm_rate(limits, dtype)

    limit.says = "the gemms (%s GFLOP) on registers" % "{:,.0f}".format(1e-9 * flops)
    return Workload("layer-" + router, "MoE layer 768-3072-768 (GELU), 8 experts, top 2, 2,048 tokens, forward + backward",
                    ["bench", "layer", "--routers", router, "--expert", "mlp", "--dim", str(DIM), "--hidden", str(HIDDEN),
                     "--experts", str(EXPERTS), "--top-k", str(TOP_K), "--tokens", str(TOKENS)], ["layer", router], limit)


def router(name):
    flops = TOKENS * router_flops(name, DIM, EXPERTS)
    size = TOKENS * (4 if name == "hash" else 4 * DIM)

    def limit(limits, dtype, params):
        return 1e3 * (flops / gemm_rate(limits, "f32") + size / (limits["read_cache_gb"] * 1e9))

    limit.says = "the gemms on registers + x (hash: ids) read from the cache"
    return Workload("router-" + name, "router %s alone, 2,048 tokens, 768 wide, 8 experts" % name,
                    ["bench", "routers", "--routers", name, "--no-layer", "--seeds", "1"], ["router", name], limit, turn=21,
                    dtypes=("f32",), threads=1)


def big(name, text, dtypes, opponents, limit, says):
    """A pair that a script of its own runs (big.sh), on a model of OLMoE's dimensions."""
    limit.says = says
    return Workload(name, text, None, None, limit, dtypes=dtypes, opponents=opponents)


def big_all():
    """Five layers of OLMoE: weights that all tokens use, and those of experts."""
    dense, experts, head = 5 * 4 * 2048 * 2048, 5 * 64 * 3 * 2048 * 1024, 50304 * 2048
    active = dense + experts // 8
    bits = {"bf16": 16, "int8": 8.5, "int4": 4.5} # with a scale of 16 bits for 32 weights

    def prompt(limits, dtype, params):
        flops = 512 * (2 * active) + 2 * head + 5 * attention_flops(512, 2048)
        return 1e3 * max(flops / gemm_rate(limits, "bf16"), 2 * (dense + experts + head) / (limits["read_gb"] * 1e9))

    def decode(limits, dtype, params):
        return 1e3 * (active * bits[dtype] / 8 + 2 * head) / (limits["read_gb"] * 1e9)

    def quantize(limits, dtype, params):
        return 1e3 * 2 * (dense + experts) / (limits["read_gb"] * 1e9)

    return [
        big("big-prompt", "OLMoE, 5 layers (4.6 GB in bf16), a prompt of 512 tokens", ("bf16",), ("transformers", "llama"), prompt,
            "the gemms on registers, or all weights read from memory"),
        big("big-decode", "the same model, one token with the cache", ("bf16", "int8"), ("llama",), decode,
            "the weights in use, read from memory"),
        big("big-quantize", "the same model, rounded to nearest in groups of 32", ("int8", "int4"), ("llama",), quantize,
            "the weights in bf16, read from memory"),
    ]


def everything():
    out = [
        train("lamoe", "LaMoE, one training step, batch 8 x 300"),
        train("switch", "Switch character model, one training step, batch 32 x 128", turn=3),
        train("gpt2", "dense GPT-2, one training step, batch 4 x 64"),
        train("default", "preset default, one training step, batch 16 x 128", turn=3),
        train("long", "LaMoE, one training step, batch 1 x 8,192"),
        Workload("decode", "LaMoE, one token with the cache, 128 behind a prompt of 16",
                 ["bench", "generate", "lamoe.ini", "--prompt", "16", "--tokens", "128"], ["decode", "--prompt", "16", "--new", "128"],
                 decode_limit, opponents=("torch-tuned", "llama"), model=MODELS["lamoe"]),
        Workload("prompt", "LaMoE, a prompt of 300 tokens", ["bench", "prompt", "lamoe.ini", "--prompt", "300"],
                 ["prompt", "--prompt", "300"], prompt_limit, turn=3, opponents=TORCH + ("llama",), model=MODELS["lamoe"]),
    ]
    return out + big_all() + [olmoe(4096), olmoe(128), layer("linear")] + [router(r) for r in ROUTERS]


ALL = {w.name: w for w in everything()}


def chosen(words):
    """Workloads by name, or by the part before the dash: `router`, `layer`, `olmoe`."""
    own = [n for n in ALL if ALL[n].ours]
    names = []
    for word in words or own:
        found = [n for n in own if n == word or n.startswith(word + "-")]
        if not found:
            raise SystemExit("workload '%s': expected one of %s, olmoe, layer, router" % (word, ", ".join(n for n in own if "-" not in n)))
        names += [n for n in found if n not in names]
    return [ALL[n] for n in names]
