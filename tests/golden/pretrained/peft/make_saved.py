"""Makes all_linear/, lm_head/ and latent/: adapters as PEFT 0.21.2 with transformers 5.24 saves them, with
drawn values, and values.safetensors beside each: ids, and the last logits with the adapter. The first has
patterns that PEFT writes itself, the second the weight of the head that it repeats; both stand on
../mixtral/hf. The third is on all parts of latent attention, and on a model of its own, latent/hf.
python3 make_saved.py [NAME ...]
"""
import pathlib
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, DeepseekV2Config

HERE = pathlib.Path(__file__).parent
MIXTRAL = HERE.parent / "mixtral" / "hf"
LATENT = HERE / "latent" / "hf"
CASES = {
    "all_linear": (MIXTRAL, "all-linear"),
    "lm_head": (MIXTRAL, ["q_proj", "lm_head"]),
    "latent": (LATENT, ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]),
}


def make_latent():
    torch.manual_seed(35)
    config = DeepseekV2Config(
        vocab_size=512, hidden_size=16, intermediate_size=24, moe_intermediate_size=12, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2,
        first_k_dense_replace=1, q_lora_rank=12, kv_lora_rank=10, qk_nope_head_dim=8, qk_rope_head_dim=4,
        v_head_dim=6, max_position_embeddings=64, initializer_range=0.2)
    AutoModelForCausalLM.from_config(config).save_pretrained(LATENT)
    (LATENT / "generation_config.json").unlink(missing_ok=True)


def base(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


for name in sys.argv[1:] or CASES:
    folder, targets = CASES[name]
    if folder == LATENT:
        make_latent()
    torch.manual_seed(36)
    model = get_peft_model(base(folder), LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM"))
    for key, p in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(p, std=0.05)
    model.save_pretrained(HERE / name)
    config = HERE / name / "adapter_config.json"
    config.write_text(config.read_text().replace(str(HERE.parent) + "/", ""))
    (HERE / name / "README.md").unlink(missing_ok=True)
    ids = torch.randint(0, 512, (1, 12), generator=torch.Generator().manual_seed(36))
    with torch.no_grad():
        logits = PeftModel.from_pretrained(base(folder), HERE / name).eval()(ids).logits
    save_file({"input_ids": ids, "logits": logits[:, -4:].contiguous()}, HERE / name / "values.safetensors")
