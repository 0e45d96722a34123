"""Checks that both sides compute the same: numbers of parameters, and with the same weights and tokens
choices, gates and losses, up to rounding in f32.

    verify.py [NAME...]     names of workloads.py: router-linear, lamoe, ...

moefw trains one step, writes its weights, and records how one batch was routed; the twin takes the
weights over and is given the same vectors, or the same tokens. What this commit has passed is not
repeated.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

import record
import twin_models
import twin_routers
import workloads
from run import ids_file

MOEFW = os.environ.get("MOEFW", "moefw")
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["lamoe", "switch", "gpt2", "default", "long", "olmoe", "router-linear", "router-mlp", "router-attention", "router-hash"]


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
    weights, _ = safetensors(os.path.join(run, "ckpt", "step-1", "model.safetensors"))
    recorded = {}, {}
    if config != "gpt2.ini": # it has no routing
        subprocess.check_call([MOEFW, "trace", "record", run, "-q", "--activations", "--batches=1", "-o", trace], cwd=HERE,
                              stdout=subprocess.DEVNULL)
        recorded = safetensors(trace)
    return weights, recorded[0], recorded[1]


def sorted_by_expert(gate, expert):
    order = expert.long().argsort(-1)
    return gate.gather(-1, order), expert.long().gather(-1, order)


def router(name, folder):
    sets = ["model.dim=768", "model.heads=12", "model.layers=1", "model.seq=128", "train.batch=4", "expert.hidden=64",
            "router.plugin=" + name, "data.path=builtin:topics?bytes=40000"]
    weights, t, _ = trained(folder, "default", sets)
    own = {k[len("layers.0.router."):]: v for k, v in weights.items() if k.startswith("layers.0.router.")}
    twin = twin_routers.make(name, 768, 8, 2).eval()
    named = dict(twin.named_parameters())
    if set(own) != set(named):
        return "parameters differ: %s" % sorted(set(own) ^ set(named))
    with torch.no_grad():
        for k, p in named.items():
            p.copy_(own[k].reshape(p.shape))
        gate, expert = twin(t["layers.0.x"], t["token"])
    gate, expert = sorted_by_expert(gate, expert)
    g, e = sorted_by_expert(t["layers.0.gate"].reshape(gate.shape), t["layers.0.chosen"].reshape(expert.shape))
    same = (e == expert).all(-1)
    wrong, worst = (~same).sum().item(), (g - gate)[same].abs().max().item()
    if wrong > len(gate) // 500 or worst > 1e-4:
        return "%d of %d tokens go elsewhere, gates differ by up to %.1e" % (wrong, len(gate), worst)
    return None, "%d of %d tokens go elsewhere, gates differ by at most %.0e" % (wrong, len(gate), worst)


def logits(twin, folder, m, params):
    """Those of the trained run for two drawn sequences, beside the twin's."""
    ids = torch.randint(m["vocab"], (2, m["seq"]), generator=torch.Generator().manual_seed(1))
    table = json.dumps({"input_ids": {"dtype": "I64", "shape": list(ids.shape), "data_offsets": [0, 8 * ids.numel()]}}).encode()
    tokens, out = os.path.join(folder, "tokens"), os.path.join(folder, "logits")
    with open(tokens, "wb") as f:
        f.write(struct.pack("<Q", len(table)) + table + ids.numpy().tobytes())
    subprocess.check_call([MOEFW, "eval", os.path.join(folder, "run"), "--tokens", tokens, "--save", out, "--dtype", "f32"],
                          stdout=subprocess.DEVNULL)
    here = safetensors(out)[0]["logits"]
    with torch.no_grad():
        there = twin(ids).reshape(here.shape)
    off, largest = (here - there).abs().max().item(), there.abs().max().item()
    text = "%d parameters; logits differ by at most %.0e, the largest is %.1f" % (params, off, largest)
    return (None, text) if off <= 1e-5 * largest else text


def model(name, folder):
    m = workloads.MODELS[name]
    sets = ["data.path=" + ids_file(m["vocab"]), "data.format=bin"] if m["ids"] else ["data.path=builtin:topics?bytes=400000"]
    if name == "long":
        sets += ["train.batch=1", "model.seq=%d" % m["seq"]]
    weights, t, texts = trained(folder, m["config"], sets)
    twin = twin_models.MODELS[m["twin"]]().eval()
    params = twin_models.parameters(twin)
    there = sum(v.numel() for v in weights.values())
    if params != there:
        return "%d parameters there, %d here" % (params, there)
    twin_models.load(twin, weights)
    if not t:
        return logits(twin, folder, m, params)
    ids = t["token"].long().view(-1, m["seq"])
    with torch.no_grad():
        loss = F.cross_entropy(twin(ids).reshape(-1, m["vocab"]), t["target"].long(), ignore_index=-1).item()
    off = abs(loss - float(texts["task_loss"]))
    text = "%d parameters; loss %.6f here, %.6f there" % (params, float(texts["task_loss"]), loss)
    return text if off > 2e-4 else (None, text)


def olmoe(name, folder):
    """Both forms of the twin beside the experts of preset default's twin, whose loss is compared with
    moefw's; moefw's layer has as many parameters."""
    d, hidden, experts, k = 64, 32, 16, 4
    size = ["--dim", d, "--hidden", hidden, "--experts", experts, "--top-k", k, "--tokens", 32]
    here = json.loads(subprocess.check_output([MOEFW, "bench", "layer", "--routers", "linear", "--expert", "swiglu", "--json",
                                               "--repetitions", "1"] + [str(s) for s in size], text=True))["params"]
    torch.manual_seed(0)
    by = {how: twin_models.Olmoe(d, hidden, experts, k, how) for how in ("grouped", "loop")}
    by["loop"].load_state_dict(by["grouped"].state_dict())
    single = [twin_models.SwiGlu(d, hidden) for _ in range(experts)]
    x = torch.randn(32, d)
    with torch.no_grad():
        for e, one in enumerate(single):
            one.w1.weight.copy_(by["loop"].w13[e, :hidden])
            one.w3.weight.copy_(by["loop"].w13[e, hidden:])
            one.w2.weight.copy_(by["loop"].w2[e])
        y = twin_models.by_expert(x, *by["loop"].router(x), single)
        off = max((f(x) - y).abs().max().item() for f in by.values()) / y.abs().max().item()
    params = twin_models.parameters(by["loop"])
    text = "%d parameters here, %d there; both forms of the twin differ from the experts of default's by at most %.0e" % (here, params, off)
    return (None, text) if here == params and off < 1e-5 else text


def main():
    failed = 0
    passed = {r["workload"] for r in record.read(os.path.join(record.OUT, "verify.jsonl"))
              if r["same"] and r.get("commit") == record.commit()}
    os.makedirs(record.OUT, exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        if name in passed:
            continue
        with tempfile.TemporaryDirectory() as folder:
            kind = router if name.startswith("router-") else olmoe if name == "olmoe" else model
            result = kind(name.removeprefix("router-"), folder)
        ok = not isinstance(result, str)
        text = result[1] if ok else result
        failed += not ok
        print("%-20s %s %s" % (name, "same" if ok else "DIFFERENT", text), flush=True)
        record.append("verify.jsonl", {"workload": name, "same": ok, "text": text, "commit": record.commit()})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
