"""Writes a tiny model and golden values for each family that the other folders beside this one do not have.

NAME/hf is what transformers saves (bf16, seeded numbers in every tensor, so that no bias is 0 and no norm is 1), and
NAME/golden.safetensors and golden.json are what it computes of it in f32: logits, the loss of the labels, the norm of each
gradient, and the likeliest tokens behind a prompt. Made with transformers 5.24.0: python3 make.py [NAME ...]
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, Mistral4ForCausalLM

HERE = pathlib.Path(__file__).parent
SIZES = dict(vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=48, rms_norm_eps=1e-3, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
HEAD = dict(head_dim=8)
SIGMOID = dict(moe_intermediate_size=12, n_routed_experts=6, num_experts_per_tok=3, n_group=2, topk_group=1, routed_scaling_factor=1.7)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=10, q_lora_rank=9, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7)
SOFTMAX = dict(num_experts_per_tok=3)
DELTA = dict(linear_conv_kernel_dim=3, linear_key_head_dim=6, linear_value_head_dim=5, linear_num_key_heads=2, linear_num_value_heads=4)
# name: keys beside the sizes
FAMILIES = {
    "afmoe": HEAD | dict(num_hidden_layers=4, num_key_value_heads=2, moe_intermediate_size=12, num_experts=6, num_experts_per_tok=3, num_shared_experts=2,
                         route_scale=1.7, sliding_window=5, mup_enabled=True, attention_bias=True),
    "aria_text": HEAD | dict(moe_num_experts=5, moe_topk=3, moe_num_shared_experts=2, attention_bias=True),
    "dbrx": dict(hidden_size=32, d_model=32, n_heads=4, n_layers=2, max_seq_len=48, attn_config=dict(kv_n_heads=2, clip_qkv=0.9, rope_theta=5e5),
                 ffn_config=dict(ffn_hidden_size=12, moe_num_experts=5, moe_top_k=3), rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
    "deepseek_v2": SIGMOID | LATENT | dict(first_k_dense_replace=1, topk_method="group_limited_greedy"),
    "deepseek_v3": SIGMOID | LATENT | dict(first_k_dense_replace=1),
    "deepseek_v32": SIGMOID | LATENT | dict(v_head_dim=12, first_k_dense_replace=1, index_topk=32, index_head_dim=6, index_n_heads=2),
    "dots1": SIGMOID | HEAD | dict(first_k_dense_replace=1, n_shared_experts=2, attention_bias=True, sliding_window=5, max_window_layers=1),
    "ernie4_5_moe": dict(num_hidden_layers=3, moe_intermediate_size=12, moe_num_experts=5, moe_k=3, moe_num_shared_experts=2,
                         moe_layer_start_index=1, moe_layer_end_index=1),
    "exaone_moe": HEAD | dict(num_hidden_layers=3, moe_intermediate_size=12, num_experts=6, num_experts_per_tok=3, sliding_window=5,
                              layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "flex_olmo": SOFTMAX | dict(num_experts=5),
    "flint": HEAD | SOFTMAX | dict(num_hidden_layers=4, num_experts=5, moe_intermediate_size=12, shared_expert_intermediate_size=14,
                                   sliding_window=5),
    "glm4_moe": SIGMOID | HEAD | dict(attention_bias=True, use_qk_norm=True, n_shared_experts=2, num_nextn_predict_layers=1),
    "glm4_moe_lite": SIGMOID | LATENT | dict(attention_bias=True),
    "glm_moe_dsa": SIGMOID | LATENT | dict(v_head_dim=12, first_k_dense_replace=1, index_topk=32, index_head_dim=6, index_n_heads=2),
    "gpt_oss": HEAD | SOFTMAX | dict(num_local_experts=5, sliding_window=5, layer_types=["sliding_attention", "full_attention"]),
    "granitemoe": SOFTMAX | dict(num_local_experts=5, embedding_multiplier=3.5, residual_multiplier=0.6, attention_multiplier=0.2,
                                 logits_scaling=2.5, attention_bias=True),
    "granitemoe_swa": SOFTMAX | dict(num_local_experts=5, shared_intermediate_size=14, sliding_window=5, num_hidden_layers=3,
                                     layer_rope_theta=[0, 5e3, 5e3], attention_multiplier=0.2),
    "granitemoehybrid": SOFTMAX | dict(num_local_experts=5, shared_intermediate_size=14, embedding_multiplier=2.0, residual_multiplier=0.6,
                                       layer_types=["full_attention"] * 2, mamba_n_heads=4),
    "granitemoeshared": SOFTMAX | dict(num_local_experts=5, shared_intermediate_size=14, embedding_multiplier=2.0),
    "hunyuan_v1_moe": HEAD | dict(num_experts=5, moe_topk=2),
    "hy_v3": HEAD | dict(moe_intermediate_size=12, num_experts=5, num_experts_per_tok=2),
    "lfm2_moe": dict(num_hidden_layers=4, norm_eps=1e-3, moe_intermediate_size=12, num_dense_layers=1, conv_bias=True, num_experts=6,
                     num_experts_per_tok=3, routed_scaling_factor=1.7, layer_types=["conv", "full_attention", "conv", "conv"]),
    "llama": HEAD | dict(attention_bias=True, mlp_bias=True),
    "llama4_text": HEAD | dict(num_hidden_layers=4, num_key_value_heads=2, intermediate_size=12, intermediate_size_mlp=20, num_local_experts=5, num_experts_per_tok=2,
                               interleave_moe_layer_step=2, attention_chunk_size=4, floor_scale=3, attn_scale=0.4, no_rope_layer_interval=3),
    "minimax_m2": HEAD | dict(num_local_experts=5, num_experts_per_tok=2, rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                                                                           "partial_rotary_factor": 0.5}),
    "mistral": HEAD | dict(sliding_window=5),
    "mistral4": SIGMOID | LATENT | dict(q_lora_rank=9, first_k_dense_replace=1, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0,
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}),
    "olmo2": {},
    "olmo3": dict(num_hidden_layers=4, sliding_window=5, rope_parameters={
        "full_attention": {"rope_type": "yarn", "rope_theta": 5e4, "factor": 4.0, "original_max_position_embeddings": 12},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}}),
    "olmoe": SOFTMAX | dict(num_experts=5, clip_qkv=0.8),
    "phimoe": dict(num_local_experts=5, attention_bias=True, lm_head_bias=True, router_jitter_noise=0.2),
    "phimoe_longrope": dict(num_local_experts=5, router_jitter_noise=0.2, original_max_position_embeddings=12, rope_parameters={
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.25, 1.7], "long_factor": [1.5, 2.5, 4.0], "short_mscale": 1.2,
        "long_mscale": 1.3, "original_max_position_embeddings": 12}),
    "qwen2": dict(use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "qwen3": HEAD | dict(attention_bias=True),
    "qwen3_moe": HEAD | SOFTMAX | dict(num_experts=5, moe_intermediate_size=12, mlp_only_layers=[0]),
    "qwen3_next": HEAD | SOFTMAX | DELTA | dict(num_hidden_layers=3, num_experts=5, moe_intermediate_size=12, shared_expert_intermediate_size=14, mlp_only_layers=[1],
                                                layer_types=["linear_attention", "full_attention", "linear_attention"],
                                                rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}),
    "qwen3_5_moe_text": HEAD | SOFTMAX | DELTA | dict(num_experts=5, moe_intermediate_size=12, shared_expert_intermediate_size=14,
                                                      layer_types=["linear_attention", "full_attention"],
                                                      rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}),
    "sarvam_mla": SIGMOID | LATENT,
    "sarvam_moe": SIGMOID | HEAD,
    "seed_oss": HEAD | dict(mlp_bias=True, attention_out_bias=True),
    "smollm3": dict(num_hidden_layers=4, tie_word_embeddings=True, mlp_bias=True, attention_bias=True, no_rope_layers=[1, 0, 1, 1]),
    "solar_open": SIGMOID | HEAD,
}

# models whose name is not their type
TYPES = {"phimoe_longrope": "phimoe"}


def fill(model, generator):
    """Numbers of the size that the tensor's form wants, in bf16: norms near 1, matrices by their width."""
    for name, t in list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if "bias" in n]:
        r = torch.randn(t.shape, generator=generator)
        if "norm" in name and name.endswith("weight") and t.dim() == 1:
            r = 1 + 0.2 * r
        elif t.dim() < 2:
            r = 0.2 * r
        else:
            r = r / t.shape[-1] ** 0.5
        t.data.copy_(r.to(torch.bfloat16))


def further(folder, layers):
    """Adds a block behind the last one, as files of models that predict further tokens have it."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    last = {k: v for k, v in tensors.items() if k.startswith(f"model.layers.{layers - 1}.")}
    tensors |= {k.replace(f".{layers - 1}.", f".{layers}.", 1): v.clone() for k, v in last.items()}
    save_file(tensors, path, {"format": "pt"})


def make(name):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    config = CONFIG_MAPPING[TYPES.get(name, name)](**(SIZES | FAMILIES[name]))
    auto = name != "mistral4"  # AutoModelForCausalLM does not know this one
    model = (AutoModelForCausalLM.from_config if auto else Mistral4ForCausalLM._from_config)(config, attn_implementation="eager")
    fill(model, generator)
    out = HERE / name
    shutil.rmtree(out, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(out / "hf")
    (out / "hf" / "generation_config.json").unlink(missing_ok=True)
    model = (AutoModelForCausalLM if auto else Mistral4ForCausalLM).from_pretrained(out / "hf", dtype=torch.float32, attn_implementation="eager").eval()
    if name == "qwen3_next":
        path = out / "hf" / "model.safetensors"
        save_file(load_file(path) | {"mtp.norm.weight": torch.ones(config.hidden_size, dtype=torch.bfloat16)}, path, {"format": "pt"})
    if name == "glm4_moe":
        further(out / "hf", config.num_hidden_layers)
    ids = torch.randint(3, config.vocab_size, (2, 11), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    labels = ids.masked_fill(mask == 0, -100)
    got = model(ids, attention_mask=mask, labels=labels)
    got.loss.backward()
    names = dict(model.named_parameters())
    stored = load_file(out / "hf" / "model.safetensors")
    norms = {k: names[k].grad.double().norm().item() for k in sorted(stored) if k in names and names[k].grad is not None}
    if config.model_type == "phimoe":  # its router draws experts where there are gradients
        norms = {}
    prompt = ids[:1, :4]
    with torch.no_grad():
        text = prompt
        for _ in range(8):
            text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], 1)
    save_file({"input_ids": ids, "attention_mask": mask, "labels": labels, "logits": got.logits.detach().contiguous()},
              out / "golden.safetensors")
    (out / "golden.json").write_text(json.dumps(
        {"name": name, "model_type": config.model_type, "loss": got.loss.item(), "grad_norm": norms,
         "greedy": {"prompt": prompt[0].tolist(), "tokens": text[0, 4:].tolist()}}, indent=1) + "\n")
    print(name, sum(f.stat().st_size for f in out.rglob("*") if f.is_file()) // 1024, "KiB")


# A folder with more than a text model: the text model, its keys in text_config, the begin of its names, and a tensor of the other part.
WHOLE = {"llama4": ("llama4_text", lambda name: f"language_model.{name}", "vision_model.layernorm_post.weight"),
         "qwen3_5_moe": ("qwen3_5_moe_text", lambda name: name.replace("model.", "model.language_model.", 1), "model.visual.patch_embed.proj.bias")}


def make_whole(name):
    text, rename, other = WHOLE[name]
    shutil.rmtree(HERE / name, ignore_errors=True)
    shutil.copytree(HERE / text, HERE / name)
    path, config = HERE / name / "hf" / "model.safetensors", HERE / name / "hf" / "config.json"
    tensors = {rename(k): v for k, v in load_file(path).items()}
    save_file(tensors | {other: torch.ones(3, dtype=torch.bfloat16)}, path, {"format": "pt"})
    keys = json.loads(config.read_text())
    config.write_text(json.dumps({"model_type": name, "tie_word_embeddings": keys["tie_word_embeddings"], "text_config": keys}, indent=1) + "\n")


for name in sys.argv[1:] or FAMILIES | WHOLE:
    make_whole(name) if name in WHOLE else make(name)
