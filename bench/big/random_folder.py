#!/usr/bin/env python3
"""random_folder.py SHAPE FOLDER [--layers N]: a model folder in the form of Hugging Face with random
weights, for measurements of speed and memory where the real weights are not at hand.

SHAPE is olmoe (OLMoE-1B-7B, bf16) or qwen-gptq (Qwen1.5-MoE-A2.7B, GPTQ of 4 bits, groups of 128).
Every tensor has its own draw; dimensions are the published ones, the number of layers is an option. It needs
numpy and writes shards of about 2 GB."""
import argparse
import json
import os
import struct

import numpy as np


def bf16(values):
    return (values.view(np.uint32) >> 16).astype(np.uint16)


class Shards:
    """Writes tensors to safetensors files, each of which is kept in a list until it is full."""

    def __init__(self, folder):
        self.folder, self.waiting, self.bytes, self.files, self.map = folder, [], 0, 0, {}

    def add(self, name, kind, shape, data):
        self.waiting.append((name, kind, shape, data))
        self.bytes += data.nbytes
        if self.bytes > 2e9:
            self.write()

    def write(self):
        if not self.waiting:
            return
        self.files += 1
        file, header, at = f"model-{self.files:05d}.safetensors", {}, 0
        for name, kind, shape, data in self.waiting:
            header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + data.nbytes]}
            at += data.nbytes
            self.map[name] = file
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(self.folder, file), "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for *_, data in self.waiting:
                out.write(data)
        self.waiting, self.bytes = [], 0

    def end(self):
        self.write()
        with open(os.path.join(self.folder, "model.safetensors.index.json"), "w") as out:
            json.dump({"metadata": {}, "weight_map": self.map}, out)


class Weights:
    def __init__(self, folder, half):
        self.draw, self.half = np.random.default_rng(1), half
        self.kind = "F16" if half else "BF16"
        self.one = np.float16(1).view(np.uint16) if half else np.uint16(0x3F80)
        self.out = Shards(folder)

    def dense(self, name, *shape):
        values = self.draw.standard_normal(int(np.prod(shape)), dtype=np.float32)
        values *= np.float32(0.02)
        self.out.add(name, self.kind, shape, values.astype(np.float16) if self.half else bf16(values))

    def ones(self, name, count):
        data = np.full(count, self.one, dtype=np.uint16)
        self.out.add(name, self.kind, (count,), data)

    def words(self, count):
        return self.draw.integers(0, 1 << 32, count, dtype=np.uint32)

    def gptq(self, name, rows, columns, group=128):
        groups = columns // group
        self.out.add(name + ".qweight", "I32", (columns // 8, rows), self.words(columns // 8 * rows))
        self.out.add(name + ".qzeros", "I32", (groups, rows // 8), np.full(groups * rows // 8, 0x77777777, np.uint32))
        self.out.add(name + ".scales", "F16", (groups, rows), np.full(groups * rows, 0.004, np.float16))
        self.out.add(name + ".g_idx", "I32", (columns,), np.arange(columns, dtype=np.int32) // group)


def olmoe(folder, layers):
    d, heads, experts, hidden, vocab = 2048, 16, 64, 1024, 50304
    w = Weights(folder, half=False)
    w.dense("model.embed_tokens.weight", vocab, d)
    for i in range(layers):
        p = f"model.layers.{i}."
        for name in "qkvo":
            w.dense(f"{p}self_attn.{name}_proj.weight", d, d)
        w.ones(p + "self_attn.q_norm.weight", d)
        w.ones(p + "self_attn.k_norm.weight", d)
        w.ones(p + "input_layernorm.weight", d)
        w.ones(p + "post_attention_layernorm.weight", d)
        w.dense(p + "mlp.gate.weight", experts, d)
        for e in range(experts):
            w.dense(f"{p}mlp.experts.{e}.gate_proj.weight", hidden, d)
            w.dense(f"{p}mlp.experts.{e}.up_proj.weight", hidden, d)
            w.dense(f"{p}mlp.experts.{e}.down_proj.weight", d, hidden)
    w.ones("model.norm.weight", d)
    w.dense("lm_head.weight", vocab, d)
    w.out.end()
    return dict(model_type="olmoe", architectures=["OlmoeForCausalLM"], hidden_size=d, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=heads, intermediate_size=hidden,
                num_experts=experts, num_experts_per_tok=8, norm_topk_prob=False, vocab_size=vocab,
                max_position_embeddings=4096, rope_theta=10000.0, rms_norm_eps=1e-5, hidden_act="silu",
                tie_word_embeddings=False, attention_bias=False, clip_qkv=None, torch_dtype="bfloat16",
                output_router_logits=False, router_aux_loss_coef=0.01)


def qwen_gptq(folder, layers):
    d, heads, experts, hidden, shared, vocab = 2048, 16, 60, 1408, 5632, 151936
    w = Weights(folder, half=True)
    w.dense("model.embed_tokens.weight", vocab, d)
    for i in range(layers):
        p = f"model.layers.{i}."
        for name in "qkvo":
            w.gptq(f"{p}self_attn.{name}_proj", d, d)
            if name != "o":
                w.dense(f"{p}self_attn.{name}_proj.bias", d)
        w.ones(p + "input_layernorm.weight", d)
        w.ones(p + "post_attention_layernorm.weight", d)
        w.dense(p + "mlp.gate.weight", experts, d)
        w.dense(p + "mlp.shared_expert_gate.weight", 1, d)
        for name, width in [("shared_expert", shared)] + [(f"experts.{e}", hidden) for e in range(experts)]:
            w.gptq(f"{p}mlp.{name}.gate_proj", width, d)
            w.gptq(f"{p}mlp.{name}.up_proj", width, d)
            w.gptq(f"{p}mlp.{name}.down_proj", d, width)
    w.ones("model.norm.weight", d)
    w.dense("lm_head.weight", vocab, d)
    w.out.end()
    return dict(model_type="qwen2_moe", architectures=["Qwen2MoeForCausalLM"], hidden_size=d,
                num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads,
                intermediate_size=shared, moe_intermediate_size=hidden, shared_expert_intermediate_size=shared,
                num_experts=experts, num_experts_per_tok=4, norm_topk_prob=False, decoder_sparse_step=1,
                mlp_only_layers=[], vocab_size=vocab, max_position_embeddings=8192, rope_theta=1000000.0,
                rms_norm_eps=1e-6, hidden_act="silu", tie_word_embeddings=False, use_sliding_window=False,
                torch_dtype="float16", output_router_logits=False, router_aux_loss_coef=0.001,
                quantization_config=dict(quant_method="gptq", bits=4, group_size=128, desc_act=False, sym=True,
                                         checkpoint_format="gptq"))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("shape", choices=["olmoe", "qwen-gptq"])
    options.add_argument("folder")
    options.add_argument("--layers", type=int, default=6)
    a = options.parse_args()
    os.makedirs(a.folder)
    config = {"olmoe": olmoe, "qwen-gptq": qwen_gptq}[a.shape](a.folder, a.layers)
    with open(os.path.join(a.folder, "config.json"), "w") as out:
        json.dump(config, out, indent=2)


main()
