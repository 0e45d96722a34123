#!/usr/bin/env python3
"""make.py: draws an adapter for ../mixtral/hf, in both packings of PEFT, and computes what it makes of weights.

corrected/ and exchanged/ hold the same adapter as PEFT 0.19 and 0.18 pack it: experts' A [E r,in] and B
[out,r E], or A [E r,out] and B [in,r E]. merged.safetensors has some weights of the model with the adapter
added, computed here in double precision from the formula W + alpha / r B A, with no code of moefw. The shards
are read for their weights; only the standard library is needed.
"""
import json
import os
import random
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "..", "mixtral", "hf")
R, ALPHA, E, D, H = 2, 8, 8, 64, 96
LAYER = "base_model.model.model.layers.%d."


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def draw(rng, rows, columns):
    return [[f32(rng.uniform(-0.2, 0.2)) for _ in range(columns)] for _ in range(rows)]


def write(path, tensors, metadata):
    header, data, at = {"__metadata__": metadata}, [], 0
    for name in sorted(tensors):
        rows = tensors[name]
        raw = b"".join(struct.pack("<%df" % len(r), *r) for r in rows)
        header[name] = {"dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def weight(name):
    """A matrix of the model, BF16, as rows of numbers."""
    with open(os.path.join(MODEL, "model.safetensors.index.json")) as f:
        shard = json.load(f)["weight_map"][name]
    with open(os.path.join(MODEL, shard), "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        t = json.loads(f.read(n))[name]
        f.seek(8 + n + t["data_offsets"][0])
        raw = f.read(t["data_offsets"][1] - t["data_offsets"][0])
    values = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    rows, columns = t["shape"]
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def add(w, a, b):
    """W + alpha / r B A; a [r][in], b [out][r]."""
    s = ALPHA / R
    return [[x + s * sum(b[o][i] * a[i][k] for i in range(R)) for k, x in enumerate(row)] for o, row in enumerate(w)]


def transposed(m):
    return [list(c) for c in zip(*m)]


def experts(a, b, out):
    """A [E r,in], expert by expert, and B [out,r E] with column i E + e, of lists by expert."""
    return ([row for e in range(E) for row in a[e]],
            [[b[e][o][i] for i in range(R) for e in range(E)] for o in range(out)])


def main():
    rng = random.Random(14)
    plain, one, other, merged = {}, {}, {}, {}
    for layer in (0, 1):
        for name, out in (("self_attn.q_proj", 64), ("self_attn.v_proj", 32), ("mlp.gate", E)):
            key, a, b = LAYER % layer + name, draw(rng, R, D), draw(rng, out, R)
            plain[key + ".lora_A.weight"], plain[key + ".lora_B.weight"] = a, b
            file = "model.layers.%d.%s.weight" % (layer, name.replace("mlp.", "block_sparse_moe."))
            merged[file] = add(weight(file), a, b)
    for parameter, nested, width, out in (("gate_up", ".base_layer", D, 2 * H), ("down", "", H, D)):
        a, b = [draw(rng, R, width) for _ in range(E)], [draw(rng, out, R) for _ in range(E)]
        key = LAYER % 1 + "mlp.experts" + nested
        one[key + ".lora_A.weight"], one[key + ".lora_B.weight"] = experts(a, b, out)
        swap_a, swap_b = [transposed(x) for x in b], [transposed(x) for x in a]
        other[key + ".lora_A.weight"], other[key + ".lora_B.weight"] = experts(swap_a, swap_b, width)
        for e in (0, 5):
            parts = (("w1", b[e][:H]), ("w3", b[e][H:])) if parameter == "gate_up" else (("w2", b[e]),)
            for name, rows in parts:
                file = "model.layers.1.block_sparse_moe.experts.%d.%s.weight" % (e, name)
                merged[file] = add(weight(file), a[e], rows)
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "mixtral", "bias": "none", "r": R,
              "lora_alpha": ALPHA, "lora_dropout": 0.0, "use_rslora": False, "use_dora": False, "modules_to_save": None,
              "target_modules": ["q_proj", "v_proj"], "rank_pattern": {}, "alpha_pattern": {},
              "target_parameters": ["mlp.gate.weight", "model.layers.1.mlp.experts.gate_up_proj",
                                    "model.layers.1.mlp.experts.down_proj"]}
    for name, version, more in (("corrected", "0.19.1", one), ("exchanged", "0.18.0", other)):
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        write(os.path.join(folder, "adapter_model.safetensors"), {**plain, **more}, {"format": "pt"})
        with open(os.path.join(folder, "adapter_config.json"), "w") as f:
            json.dump({**config, "peft_version": version}, f, indent=1)
    write(os.path.join(HERE, "merged.safetensors"), merged, {})


main()
