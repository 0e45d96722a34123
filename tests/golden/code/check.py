#!/usr/bin/env python3
"""check.py MOEFW [NAME...]: models exported with their own code, against moefw.

Trains a small model for each variant (or those whose names contain NAME) by the program MOEFW, exports it with
`moefw export hf --with-code`, opens the folder in transformers, and compares the logits of drawn tokens, in batches of
several sizes and with padding. Prints the largest difference of each; the exit status is 1 if one is above 1e-5, or if
the export fails. Needs torch, transformers and safetensors. tests/RESULTS.md has its result.
"""
import os
import subprocess
import sys
import tempfile

os.environ["TQDM_DISABLE"] = "1"
import torch  # noqa: E402
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

LIMIT = 1e-5
BASE = """[model]
layers = 2
dim = 32
heads = 4
seq = 24
[moe]
experts = 8
top_k = 2
[data]
path = builtin:topics
[train]
steps = 12
lr = 0.05
warmup = 0
batch = 4
"""
PLAIN = """attention base cosine densemix dselect_k dynmoe gumbel hadamard hash hybrid hyper kmeans lapsum linear mlp
mlp_hadamard noisy_topk product_keys quantile relu residual self_supervised sigmoid_bias sinkhorn sparsemixer threshold
tia_r top_p two_level""".split()
VARIANTS = {name: [f"router.plugin={name}"] for name in PLAIN}
for name in "expert_choice seq_topk soft".split():
    VARIANTS[name] = [f"router.plugin={name}", "moe.force_causal=yes"]
VARIANTS["random by position"] = ["router.plugin=random", "router.draw=position"]
MORE = {
    "linear groups": "router.plugin=linear router.groups=4 router.topk_groups=2 router.bias=yes",
    "linear gate norm": "router.plugin=linear router.gate_norm=2",
    "sigmoid_bias groups": "router.plugin=sigmoid_bias router.groups=4 router.topk_groups=2 router.score=sqrt_softplus",
    "hash balanced": "router.plugin=hash router.table=balanced router.hashes=3",
    "hash signs": "router.plugin=hash router.source=sign_bits router.hashes=2 router.gate=sigmoid",
    "mlp_hadamard product": "router.plugin=mlp_hadamard router.mode=product",
    "mlp_hadamard matrix": "router.plugin=mlp_hadamard router.mode=matrix router.k_experts=3",
    "tia_r literal": "router.plugin=tia_r router.mode=literal",
    "gumbel straight": "router.plugin=gumbel router.gate=straight",
    "top_p renormalized": "router.plugin=top_p router.renormalize=yes router.most=4",
    "residual zeros": "router.plugin=residual router.zero_experts=1 expert.plugin=mixed expert.zeros=1 expert.copies=1 expert.constants=2",
    "capacity": "router.plugin=linear moe.capacity_factor=1",
    "reassign": "router.plugin=linear moe.capacity_factor=0.75 moe.overflow=reassign",
    "adaptive": "router.plugin=linear moe.capacity_factor=0.5 moe.adaptive_capacity=0.5 moe.dropped=input moe.priority=gate",
    "attention experts": "router.plugin=linear expert.plugin=attention",
    "grove experts": "router.plugin=linear expert.plugin=grove expert.group=2",
    "lora experts": "router.plugin=linear expert.plugin=lora_experts",
    "mlp experts": "router.plugin=linear expert.plugin=mlp",
    "shared experts": "router.plugin=linear moe.shared_experts=2",
    "latent experts": "router.plugin=linear moe.latent=16",
    "expert bias": "router.plugin=sigmoid_bias controller.bias.plugin=expert_bias",
    "film": "router.plugin=linear adapter.film.plugin=film",
    "delta net": "router.plugin=linear model.delta_layers=0",
    "latent attention": "router.plugin=linear model.latent=8 model.rope_dims=4",
    "learned positions": "router.plugin=linear model.position=learned model.norm=layernorm model.tie_embeddings=yes",
    "grouped queries, window": "router.plugin=linear model.kv_heads=2 model.window=5 model.qk_norm=head",
    "layers that differ": "router.plugin=linear block.last.layers=1 block.last.experts=4 block.last.top_k=1",
}
VARIANTS.update({name: text.split() for name, text in MORE.items()})


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().split("\n")[-1])


def difference(program, folder, settings):
    config = f"{folder}/m.ini"
    with open(config, "w") as out:
        out.write(BASE)
    words = [w for s in settings for w in ("--set", s)]
    run(program, "train", config, "-t", "1", "-o", f"{folder}/run", *words)
    run(program, "export", "hf", f"{folder}/run", "--with-code", "-o", f"{folder}/hf")
    model = AutoModelForCausalLM.from_pretrained(f"{folder}/hf", trust_remote_code=True).eval()
    worst = 0.0
    for batch, n in ((1, 24), (1, 1), (3, 17), (2, 8), (5, 3)):
        ids = torch.randint(0, 256, (batch, n), generator=torch.Generator().manual_seed(batch * 100 + n))
        save_file({"input_ids": ids}, f"{folder}/ids.safetensors")
        run(program, "eval", f"{folder}/run", "--tokens", f"{folder}/ids.safetensors", "--save", f"{folder}/out.safetensors", "--force")
        ours = load_file(f"{folder}/out.safetensors")["logits"].reshape(batch, n, -1)
        with torch.no_grad():
            theirs = model(ids).logits
        worst = max(worst, float((ours - theirs).abs().max()))
    with torch.no_grad():
        alone = model(ids[:1]).logits
        padded = torch.cat([torch.zeros(1, 4, dtype=ids.dtype), ids[:1]], 1)
        mask = torch.tensor([[0] * 4 + [1] * n])
        worst = max(worst, float((model(padded, attention_mask=mask).logits[:, 4:] - alone).abs().max()))
    return worst


def main():
    program, names = sys.argv[1], sys.argv[2:]
    bad = 0
    for name, settings in VARIANTS.items():
        if names and not any(n in name for n in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                d = difference(program, folder, settings)
            except Exception as why:  # the table goes on, and says what failed
                print(f"{name:26} failed: {str(why)[:300]}", flush=True)
                bad += 1
                continue
        print(f"{name:26} {d:.1e}{'' if d <= LIMIT else '  above ' + str(LIMIT)}", flush=True)
        bad += not d <= LIMIT
    sys.exit(bad > 0)


main()
