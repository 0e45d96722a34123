"""Writes MOE-TYPES.md: each model type of transformers whose configuration has experts, with what moefw import says to it.

MOEFW=PROGRAM python3 moe_types.py. A folder gets the default configuration of the type and no weights, so a type that is read ends at its
first missing tensor; of a type that is known, a message about another key is about its default configuration alone. Made with transformers 5.24.0.
"""
import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile

import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING

HERE = pathlib.Path(__file__).parent
KEYS = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}


def has_experts(cls):
    names = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    return bool(KEYS & names) or "ffn_config" in names


def says(name):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "folder"
        path.mkdir()
        config = CONFIG_MAPPING[name]().to_dict()
        (path / "config.json").write_text(json.dumps(config | {"model_type": name}, default=str))
        save_file({"none": torch.zeros(1)}, path / "model.safetensors")
        run = subprocess.run([os.environ["MOEFW"], "import", "folder", "-o", "run", "--no-tokenizer"], cwd=folder, capture_output=True, text=True)
        return run.stderr.strip().splitlines()[-1].removeprefix("moefw: folder/config.json: ").removeprefix("moefw: ")


rows, n = [], 0
for name in sorted(CONFIG_MAPPING):
    try:
        if not has_experts(CONFIG_MAPPING[name]):
            continue
        text = says(name)
    except Exception as error:  # a class that wants arguments
        text = f"not tried: {type(error).__name__}"
    read = not ("model_type: " in text or "not tried" in text)
    n += read
    if "; the nearest architecture is " in text:
        text = "the nearest is " + text.split("; the nearest architecture is ")[1]
    elif "model_type: expected one of" in text:
        text = "no family is near"
    elif read:
        text = "" if "tensor '" in text else f"its default configuration: {text}"
    rows.append(f"| {name} | {'imports' if read else 'refused'} | {text.replace('|', '/')} |")
# why a type that is asked for is not read
WHY = """
gemma4_text, layer by layer: head_dim and num_key_value_heads differ between blocks of sliding and of full attention (per_layer_config), values are
normed, and are the keys before their norm with attention_k_eq_v; experts stand beside a dense half, each with norms in front and behind,
and a router with a scale for each expert; layer_scalar multiplies each block; logits have a soft cap; rope is proportional; E-models also have
hidden_size_per_layer_input and num_kv_shared_layers. [model] has one head_dim, one kv_heads, and a block has experts or a dense half.
"""
head = "# Types of transformers 5.24 with experts\n\nMade by `moe_types.py`: what `moefw import` says to the default configuration of each.\n"
(HERE / "MOE-TYPES.md").write_text(f"{head}{n} of {len(rows)} are read.\n\n| model_type | | message |\n|---|---|---|\n" + "\n".join(rows) + "\n" + WHY)
