"""Checks that both sides compute the same: numbers of parameters, and with the same weights and tokens
choices, gates and losses, up to rounding in f32.

    verify.py [NAME...]     names of workloads.py: router-linear, lamoe, ...

moefw trains one step, writes its weights, and records how one batch was routed; the twin takes the
weights over and is given the same vectors, or the same tokens.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

import twin_models
import twin_routers
import workloads
from run import OUT, ids_file

MOEFW = os.environ.get("MOEFW", "moefw")
HERE = os.path.dirname(os.path.abspath(__file__))
NOT_COMPARABLE = {"router-random": "draws differ", "router-expert_choice": "not in a causal decoder"}


def safetensors(path):
    """Tensors and texts of a file: a length, a table in JSON, the numbers."""
    with open(path, "rb") as f:
        table = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    texts = table.pop("__metadata__", {})
    kinds = {"F32": torch.float32, "I32": torch.int32, "I64": torch.int64, "U8": torch.uint8}
    out = {}
    for name, t in table.items():
        begin, end = t["data_offsets"]
        if t["dtype"] in kinds and end > begin:
            out[name] = torch.frombuffer(data[begin:end], dtype=kinds[t["dtype"]]).reshape(t["shape"])
    return out, texts


def trained(folder, config, sets):
    """One step; the weights, the recorded batch, and its texts."""
    run, trace = os.path.join(folder, "run"), os.path.join(folder, "trace")
    words = [w for s in sets for w in ("--set", s)]
    subprocess.check_call([MOEFW, "train", config, "-q", "--out", run, "--set", "train.steps=1", "--set", "report.enabled=no",
                           "--set", "train.eval_batches=1"] + words, cwd=HERE, stdout=subprocess.DEVNULL)
    model = os.path.join(run, "ckpt", "step-1", "model.safetensors")
    weights, _ = safetensors(model)
    recorded = {}, {}
    if config != "gpt2.ini": # it has no routing
        subprocess.check_call([MOEFW, "trace", "record", run, "-q", "--activations", "--batches=1", "-o", trace], cwd=HERE,
                              stdout=subprocess.DEVNULL)
        recorded = safetensors(trace)
    return weights, recorded[0], recorded[1], run


def sorted_by_expert(gate, expert):
    order = expert.long().argsort(-1)
    return gate.gather(-1, order), expert.long().gather(-1, order)


def router(w, folder):
    name, _, rest = w.name.split("-", 1)[1].partition(":")
    sets = ["model.dim=768", "model.heads=12", "model.layers=1", "model.seq=128", "train.batch=4", "expert.hidden=64",
            "router.plugin=" + name, "data.path=builtin:topics?bytes=40000"]
    sets += ["router." + part for part in rest.split("+") if part]
    weights, t, _, _ = trained(folder, "default", sets)
    own = {k[len("layers.0.router."):]: v for k, v in weights.items() if k.startswith("layers.0.router.")}
    twin = twin_routers.make(w.name.split("-", 1)[1], 768, 8, 2).eval()
    named = dict(list(twin.named_parameters()) + [(k, v) for k, v in twin.named_buffers() if k in own])
    missing = set(own) ^ set(named) - {"lambda"}
    missing.discard("lambda")
    if missing:
        return "parameters differ: %s" % sorted(missing)
    with torch.no_grad():
        for k, p in named.items():
            p.copy_(own[k].reshape(p.shape))
        gate, expert = twin(t["layers.0.x"], t["token"])
    if name == "relu":
        theirs = t["layers.0.chosen"].reshape(gate.shape)
        used = theirs >= 0
        wrong, worst = (used != (gate > 0)).sum().item(), (t["layers.0.gate"].reshape(gate.shape) - gate)[used].abs().max().item()
    else:
        gate, expert = sorted_by_expert(gate, expert)
        g, e = sorted_by_expert(t["layers.0.gate"].reshape(gate.shape), t["layers.0.chosen"].reshape(expert.shape))
        same = (e == expert).all(-1)
        wrong, worst = (~same).sum().item(), (g - gate)[same].abs().max().item()
    if wrong > len(gate) // 500 or worst > 1e-4:
        return "%d of %d tokens go elsewhere, gates differ by up to %.1e" % (wrong, len(gate), worst)
    return None, "%d of %d tokens go elsewhere, gates differ by at most %.0e" % (wrong, len(gate), worst)


def model(w, folder):
    m = workloads.MODELS[w.name]
    sets = ["data.path=" + ids_file(m["vocab"]), "data.format=bin"]
    weights, t, texts, run = trained(folder, w.name + ".ini", sets)
    twin = twin_models.MODELS[w.name]().eval()
    params = twin_models.parameters(twin)
    there = sum(v.numel() for v in weights.values())
    if params != there:
        return "%d parameters there, %d here" % (params, there)
    twin_models.load(twin, weights)
    if not t:
        return None, "%d parameters; weights fit" % params
    ids = t["token"].long().view(m["batch"], m["seq"])
    with torch.no_grad():
        loss = F.cross_entropy(twin(ids).reshape(-1, m["vocab"]), t["target"].long(), ignore_index=-1).item()
    off = abs(loss - float(texts["task_loss"]))
    text = "%d parameters; loss %.6f here, %.6f there" % (params, float(texts["task_loss"]), loss)
    return text if off > 2e-4 else (None, text)


def main():
    failed = 0
    os.makedirs(OUT, exist_ok=True)
    for w in workloads.chosen(sys.argv[1:] or ["router", "lamoe", "switch", "gpt2"]):
        if w.name in NOT_COMPARABLE:
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = router(w, folder) if w.name.startswith("router-") else model(w, folder)
        ok = not isinstance(result, str)
        text = result[1] if ok else result
        failed += not ok
        print("%-50s %s %s" % (w.name, "same" if ok else "DIFFERENT", text), flush=True)
        with open(os.path.join(OUT, "verify.jsonl"), "a") as f:
            f.write(json.dumps({"workload": w.name, "same": ok, "text": text, "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
