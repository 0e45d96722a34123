"""Writes one tiny Qwen3-MoE in each form of quantized weights that an import reads, with golden values.

NAME/hf is a folder as published: its matrices of blocks are quantized here by plain rounding, so no quantizer is needed, and
routers, norms, embeddings and the head are bf16. NAME/golden.safetensors has the logits that transformers computes in f32 of the
weights that the folder stands for: scale times code in f32. Made with transformers 5.24.0: python3 make.py [NAME ...]
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Qwen3MoeConfig

HERE = pathlib.Path(__file__).parent
SIZES = dict(vocab_size=61, hidden_size=32, intermediate_size=24, moe_intermediate_size=16, head_dim=8, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, num_experts=3, num_experts_per_tok=2, mlp_only_layers=[0], norm_topk_prob=True,
             max_position_embeddings=48, rms_norm_eps=1e-3, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GROUP, FEW = 16, 8  # inputs of a group; of compressed-tensors, whose groups must all be full


def words(codes, bits, dim, order=None):
    """Packs codes along a dimension to int32, the first in the lowest bits, or eight of them in another order."""
    each = 32 // bits
    c = np.moveaxis(codes.astype(np.uint32), dim, -1)
    c = c.reshape(*c.shape[:-1], -1, each)
    c = c[..., order] if order else c
    w = np.zeros(c.shape[:-1], np.uint32)
    for k in range(each):
        w |= c[..., k] << np.uint32(bits * k)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(w, -1, dim)).view(np.int32))


def integers(w, bits, sym, kind, group_of):
    """Scales [groups,out] of a 16-bit type, zeros [groups,out], codes [in,out] and values [out,in]."""
    top, n = 2 ** bits - 1, int(group_of.max()) + 1
    lo = torch.stack([w[:, group_of == g].amin(1).clamp(max=0) for g in range(n)])
    hi = torch.stack([w[:, group_of == g].amax(1).clamp(min=0) for g in range(n)])
    scale = (2 * torch.maximum(hi, -lo) / top if sym else (hi - lo) / top).clamp(min=1e-4).to(kind)
    s = scale.float()
    zero = torch.full_like(s, 2 ** (bits - 1)) if sym else (-lo / s).round().clamp(1, top)
    code = ((w.t() / s[group_of]).round() + zero[group_of]).clamp(0, top)
    return scale, zero.numpy().astype(int), code.numpy().astype(int), (s[group_of] * (code - zero[group_of])).t().contiguous()


def groups(w, generator=None, size=GROUP):
    n = w.shape[1]
    order = torch.randperm(n, generator=generator) if generator else torch.arange(n)
    return order // size


def gptq(bits=4, sym=True, less=1, kind=torch.float16, act=False, listed=True):
    def form(w, generator):
        g = groups(w, generator if act else None)
        scale, zero, code, value = integers(w, bits, sym, kind, g)
        t = {"qweight": words(code, bits, 0), "qzeros": words(zero - less, bits, 1), "scales": scale}
        return t | ({"g_idx": g.to(torch.int32)} if listed else {}), value
    return form


def awq(w, generator):
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    scale, zero, code, value = integers(w, 4, False, torch.float16, groups(w))
    return {"qweight": words(code, 4, 1, order), "qzeros": words(zero, 4, 1, order), "scales": scale}, value


def int4(sym):
    def form(w, generator):
        scale, zero, code, value = integers(w, 4, sym, torch.bfloat16, groups(w, size=FEW))
        t = {"weight_packed": words(code.T, 4, 1), "weight_scale": scale.t().contiguous(), "weight_shape": torch.tensor(w.shape)}
        return t | ({} if sym else {"weight_zero_point": words(zero.T, 4, 0)}), value
    return form


def fp8(block, dtype=torch.float8_e4m3fn, kind=torch.float32, name="weight_scale_inv", more=()):
    """block: rows and inputs that share a scale, None: all of them."""
    def form(w, generator):
        rows, columns = block[0] or w.shape[0], block[1] or w.shape[1]
        R, C = -(-w.shape[0] // rows), -(-w.shape[1] // columns)
        s = torch.stack([torch.stack([w[r * rows:(r + 1) * rows, c * columns:(c + 1) * columns].abs().max() for c in range(C)])
                         for r in range(R)])
        s = (s / torch.finfo(dtype).max * 1.01).to(kind)
        full = s.float().repeat_interleave(rows, 0)[:w.shape[0]].repeat_interleave(columns, 1)[:, :w.shape[1]]
        code = (w / full).to(dtype)
        scale = s if block[0] else s.reshape(1)
        return {"weight": code, name: scale} | {k: torch.tensor([0.02], dtype=kind) for k in more}, code.float() * full
    return form


def compressed(fmt, **weights):
    return {"quant_method": "compressed-tensors", "format": fmt, "ignore": ["lm_head", "re:.*mlp.gate$"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def gptq_config(**more):
    return {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": True} | more


FORMS = {
    "fp8": (fp8((20, 12)), {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [20, 12]}),
    "fp8_e5m2": (fp8((16, 16), torch.float8_e5m2, torch.bfloat16), {"quant_method": "fp8", "weight_block_size": [16, 16]}),
    "fp8_channel": (fp8((1, None), kind=torch.bfloat16, name="weight_scale"),
                    compressed("float-quantized", type="float", num_bits=8, strategy="channel")),
    "fp8_tensor": (fp8((None, None), name="weight_scale", more=["input_scale"]),
                   compressed("float-quantized", type="float", num_bits=8, strategy="tensor")),
    "int4": (int4(True), compressed("pack-quantized", type="int", num_bits=4, strategy="group", group_size=FEW)),
    "int4_points": (int4(False), compressed("pack-quantized", type="int", num_bits=4, strategy="group", group_size=FEW, symmetric=False)),
    "gptq_v2": (gptq(sym=False, less=0, kind=torch.bfloat16, act=True), gptq_config(checkpoint_format="gptq_v2", desc_act=True, sym=False)),
    "gptq_8": (gptq(bits=8), gptq_config(bits=8, checkpoint_format="gptq")),
    "gptq_8_v2": (gptq(bits=8, sym=False, less=0, act=True), gptq_config(bits=8, checkpoint_format="gptq_v2", desc_act=True, sym=False)),
    "gptq_unlisted": (gptq(sym=False, listed=False), gptq_config(sym=False)),
    "f64": (None, None),  # all tensors, with numbers that f32 does not have
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}),
}


def is_quantized(name, t):
    return name.startswith("model.layers.") and t.dim() == 2 and not name.endswith("mlp.gate.weight")


def make(name):
    form, settings = FORMS[name]
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(Qwen3MoeConfig(**SIZES), attn_implementation="eager")
    for n, t in model.named_parameters():
        r = torch.randn(t.shape, generator=generator)
        r = 1 + 0.2 * r if "norm" in n else r / t.shape[-1] ** 0.5
        t.data.copy_(r.to(torch.bfloat16))
    out = HERE / name
    shutil.rmtree(out, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(out / "hf")
    (out / "hf" / "generation_config.json").unlink(missing_ok=True)
    path = out / "hf" / "model.safetensors"
    tensors, values = {}, {}
    for n, t in load_file(path).items():
        values[n] = t.float()
        if form is None:
            tensors[n] = t.double() * (1 + 2.0 ** -40 * torch.rand(t.shape, generator=generator, dtype=torch.float64))
            values[n] = tensors[n].float()
        elif is_quantized(n, t):
            parts, values[n] = form(t.float(), generator)
            tensors |= {n.removesuffix("weight") + k: v for k, v in parts.items()}
        else:
            tensors[n] = t
    config = json.loads((out / "hf" / "config.json").read_text())
    with tempfile.TemporaryDirectory() as plain:
        plain = pathlib.Path(plain)
        (plain / "config.json").write_text(json.dumps(config))
        save_file(values, plain / "model.safetensors", {"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(plain, dtype=torch.float32, attn_implementation="eager").eval()
    save_file(tensors, path, {"format": "pt"})
    (out / "hf" / "config.json").write_text(json.dumps(config | ({"quantization_config": settings} if settings else {}), indent=2) + "\n")
    ids = torch.randint(3, SIZES["vocab_size"], (2, 11), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    with torch.no_grad():
        got = model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100))
    save_file({"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100), "logits": got.logits.contiguous()},
              out / "golden.safetensors")
    (out / "golden.json").write_text(json.dumps({"name": name, "model_type": "qwen3_moe", "loss": got.loss.item(), "grad_norm": {}},
                                                indent=1) + "\n")
    print(name, sum(f.stat().st_size for f in out.rglob("*") if f.is_file()) // 1024, "KiB")


for name in sys.argv[1:] or FORMS:
    make(name)
