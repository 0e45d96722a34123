"""Writes defaults.json: what transformers takes for keys that a config.json does not have.

For each family the defaults of the fields of its configuration class, `rope_theta` (the base of
rope that the class has), and `rope_parameters.KEY` if a configuration without any key of rope gets
numbers of scaling.

Writes also CASE.safetensors for some config.json, CASE.json, of the models beside this folder:
ids, and the logits that transformers computes. Made with transformers 5.24.0: python3 make.py
"""
import dataclasses
import json
import pathlib
import shutil
import tempfile

import torch
from safetensors.torch import save_file

import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

FAMILIES = ["bert", "gpt2", "llama", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "gpt_oss", "deepseek_v2", "deepseek_v3",
            "deepseek_v32", "dots1", "glm4_moe", "glm4_moe_lite", "hy_v3", "minimax_m2", "mistral", "qwen2", "qwen3", "sarvam_mla", "sarvam_moe",
            "seed_oss", "solar_open", "olmo2", "olmo3", "qwen3_next", "qwen3_5_moe_text", "flex_olmo", "granitemoe", "granitemoeshared", "smollm3", "hunyuan_v1_moe", "exaone_moe",
            "afmoe", "aria_text", "dbrx", "llama4_text", "ernie4_5_moe", "flint", "glm_moe_dsa", "granitemoe_swa", "granitemoehybrid", "mistral4", "phimoe", "lfm2_moe"]
BASE = {f.name for f in dataclasses.fields(transformers.PreTrainedConfig)}


def defaults(family):
    cls = CONFIG_MAPPING[family]
    out = {}
    for f in dataclasses.fields(cls):
        if f.default is not dataclasses.MISSING and (f.name not in BASE or f.name == "tie_word_embeddings"):
            out[f.name] = f.default
    for key, part in cls.sub_configs.items():
        out |= {f"{key}.{f.name}": f.default for f in dataclasses.fields(part) if f.name not in BASE and f.default is not dataclasses.MISSING}
    rope = getattr(cls(), "rope_parameters", None)
    if rope is not None:
        out["rope_theta"] = cls.default_theta
        rope = rope.get("full_attention", rope)  # a class may have numbers for each kind of block
        if rope.get("partial_rotary_factor", 1) != 1:
            out["partial_rotary_factor"] = rope["partial_rotary_factor"]
        if rope["rope_type"] != "default":
            out |= {f"rope_parameters.{k}": v for k, v in rope.items() if k != "rope_theta"}
    return {k: v for k, v in sorted(out.items()) if v is None or isinstance(v, (bool, int, float, str))}


HERE = pathlib.Path(__file__).parent
ROPE = ["rope_scaling", "rope_parameters", "rope_theta"]
# name: model, keys that go, keys that come
CASES = {
    "rope_twice": ("qwen2_moe", ROPE, {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
    "rope_empty": ("qwen2_moe", ROPE, {"rope_scaling": {}, "rope_theta": 900.0, "rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
    "yarn_nulls": ("mixtral", ROPE, {"head_dim": 16, "rope_theta": 700.0, "rope_scaling": {"rope_type": "yarn", "factor": None, "truncate": None, "beta_fast": None, "attention_factor": None, "original_max_position_embeddings": 16}}),
    "yarn_whole": ("mixtral", ROPE, {"head_dim": 16, "partial_rotary_factor": 1.0, "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.4, "beta_fast": 4, "beta_slow": 0.5}}),
    "yarn_beside": ("mixtral", ROPE, {"head_dim": 16, "original_max_position_embeddings": 16, "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}),
    "llama3_beside": ("qwen2_moe", ROPE, {"original_max_position_embeddings": 16, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}),
    "keys_absent": ("mixtral", ROPE + ["rms_norm_eps", "sliding_window", "head_dim", "tie_word_embeddings", "hidden_act", "num_experts_per_tok", "router_aux_loss_coef", "output_router_logits"], {"hidden_activation": "gelu", "partial_rotary_factor": 0.5}),
    "other_names": ("gpt2", ["n_embd", "n_layer", "n_head", "n_positions", "layer_norm_epsilon", "activation_function"], {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}),
}


def case(name, base, gone, come):
    hf = HERE.parent / base / "hf"
    config = json.loads((hf / "config.json").read_text())
    sizes = {k: config[k] for k in ("n_embd", "n_layer", "n_head", "n_positions") if k in config}
    for key in gone:
        config.pop(key, None)
    config |= come
    if base == "gpt2":  # the sizes of the model, by the other names
        config |= dict(zip(("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"), sizes.values()))
    with tempfile.TemporaryDirectory() as folder:
        for file in hf.iterdir():
            shutil.copy(file, folder)
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(0, config["vocab_size"], (1, 24), generator=torch.Generator().manual_seed(36))
    with torch.no_grad():
        logits = model(ids).logits
    (HERE / f"{name}.json").write_text(json.dumps({"model": base, "config": config}, indent=1) + "\n")
    save_file({"input_ids": ids, "logits": logits[:, -8:].contiguous()}, HERE / f"{name}.safetensors")


(HERE / "defaults.json").write_text(json.dumps({"transformers": transformers.__version__, "families": {f: defaults(f) for f in FAMILIES}}, indent=1) + "\n")
for name, what in CASES.items():
    case(name, *what)
