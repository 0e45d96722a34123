"""Makes all_linear/ and lm_head/: adapters on ../mixtral/hf as PEFT 0.21.2 with transformers 5.24 saves
them, with drawn values, and values.safetensors beside each: ids, and the last logits with the adapter.
The first has patterns that PEFT writes itself, the second the weight of the head that it repeats.
python3 make_saved.py
"""
import pathlib

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = pathlib.Path(__file__).parent
CASES = {"all_linear": "all-linear", "lm_head": ["q_proj", "lm_head"]}


def base():
    return AutoModelForCausalLM.from_pretrained(HERE.parent / "mixtral" / "hf", dtype=torch.float32, attn_implementation="eager")


for name, targets in CASES.items():
    torch.manual_seed(36)
    model = get_peft_model(base(), LoraConfig(r=4, lora_alpha=8, target_modules=targets, task_type="CAUSAL_LM"))
    for key, p in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(p, std=0.05)
    model.save_pretrained(HERE / name)
    config = HERE / name / "adapter_config.json"
    config.write_text(config.read_text().replace(str(HERE.parent) + "/", ""))
    (HERE / name / "README.md").unlink(missing_ok=True)
    ids = torch.randint(0, 512, (1, 12), generator=torch.Generator().manual_seed(36))
    with torch.no_grad():
        logits = PeftModel.from_pretrained(base(), HERE / name).eval()(ids).logits
    save_file({"input_ids": ids, "logits": logits[:, -4:].contiguous()}, HERE / name / "values.safetensors")
