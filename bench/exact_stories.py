#!/usr/bin/env python3
"""Logits of the reference decoder `stories` in f64 throughout, for every fourth position of its golden text.

    exact_stories.py FOLDER OUT.safetensors

FOLDER has hf/ (a Llama folder) and golden.safetensors of transformers, in f32, whose distance is printed. transformers in
f64 still computes norms, rotations and softmax in f32, so the model is written out here. The mixture of experts
made of this decoder has the same function. The output is tests/golden/pretrained/stories/exact.safetensors.
"""
import json
import sys

import torch
from safetensors.torch import load_file, save_file

STEP = 4


def logits(w, c, ids):
    d, H, KV, eps = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
    hd, T = d // H, len(ids)
    theta = c["rope_theta"] if "rope_theta" in c else c["rope_parameters"]["rope_theta"]
    frequency = theta ** (-torch.arange(0, hd, 2, dtype=torch.float64) / hd)
    angle = torch.arange(T, dtype=torch.float64)[:, None] * frequency
    cos, sin = torch.cat([angle.cos()] * 2, 1), torch.cat([angle.sin()] * 2, 1)

    def norm(x, g):
        return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * g

    def turned(x):
        a, b = x[..., :hd // 2], x[..., hd // 2:]
        return x * cos + torch.cat([-b, a], -1) * sin

    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    x = w["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y = norm(x, w[p + "input_layernorm.weight"])
        q, k, v = ((y @ w[f"{p}self_attn.{n}_proj.weight"].T).view(T, h, hd).transpose(0, 1)
                   for n, h in (("q", H), ("k", KV), ("v", KV)))
        q, k = turned(q), turned(k).repeat_interleave(H // KV, 0)
        s = (q @ k.transpose(1, 2) / hd ** 0.5).masked_fill(later, float("-inf")).softmax(-1)
        a = s @ v.repeat_interleave(H // KV, 0)
        x = x + a.transpose(0, 1).reshape(T, d) @ w[p + "self_attn.o_proj.weight"].T
        y = norm(x, w[p + "post_attention_layernorm.weight"])
        gate, up = y @ w[p + "mlp.gate_proj.weight"].T, y @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    head = w["model.embed_tokens.weight"] if c["tie_word_embeddings"] else w["lm_head.weight"]
    return norm(x, w["model.norm.weight"]) @ head.T


def main():
    folder, out = sys.argv[1:3]
    w = {k: v.double() for k, v in load_file(folder + "/hf/model.safetensors").items()}
    with open(folder + "/hf/config.json") as f:
        c = json.load(f)
    golden = load_file(folder + "/golden.safetensors")
    z = logits(w, c, golden["input_ids"][0])
    apart = (golden["logits"][0].double() - z).abs().max().item()
    print(f"largest logit {z.abs().max().item():.4g}; transformers in f32 is {apart:.2e} from f64")
    save_file({"position": torch.arange(0, len(z), STEP), "logits": z[::STEP].float().contiguous()}, out)


main()
