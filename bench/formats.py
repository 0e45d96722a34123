#!/usr/bin/env python3
"""What moefw exports, opened by the programs that the formats belong to.

    formats.py MOEFW SET [hf] [peft] [gguf]

SET is a folder of reference models: tiny/NAME, lora/CASE, ggsrc/NAME, stories/NAME, with hf/ and
golden.safetensors. Each model is imported and exported by MOEFW. Printed are, for

    hf    whether all tensors are equal in bits, the missing and unexpected keys of
          from_pretrained, and the largest difference of logits from those of the folder itself
    peft  the same of an adapter that was imported and exported, against PEFT's own
    gguf  the largest difference of llama.cpp's logits from transformers' (flash attention off)

A part whose programs are not installed is skipped. The status is 1 if a bound is broken.
Bounds: bits equal, no such keys, logits within 0 (hf), 1e-5 (peft; gguf, or 5e-6 of the largest
logit; GPT-2: 3e-3, since the GELU of llama.cpp is a table; MXFP4 is printed only, since llama.cpp
rounds the inputs).
"""
import ctypes
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
MOEFW, SET = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PARTS = sys.argv[3:] or ["hf", "peft", "gguf"]
broken = []


def moefw(*args):
    done = subprocess.run([MOEFW, *args, "-q"], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def must(*args):
    rc, text = moefw(*args)
    if rc:
        raise SystemExit(f"moefw {' '.join(args)}: {text}")


def row(part, name, good, text):
    print(f"{part:5} {name:22} {'ok' if good else 'BROKEN':7} {text}", flush=True)
    if not good:
        broken.append(name)


def tensors(folder):
    """Bytes, type and shape of all tensors of a folder, by name."""
    from safetensors import safe_open
    import torch
    out = {}
    for f in sorted(os.listdir(folder)):
        if f.endswith(".safetensors"):
            with safe_open(os.path.join(folder, f), "pt") as s:
                for k in s.keys():
                    t = s.get_tensor(k).contiguous()
                    out[k] = (t.dtype, tuple(t.shape), bytes(t.reshape(-1).view(torch.uint8).numpy().data))
    return out


def open_model(folder):
    import torch
    import transformers as tr
    config = tr.AutoConfig.from_pretrained(folder)
    kind = tr.AutoModelForSequenceClassification if config.model_type == "bert" else tr.AutoModelForCausalLM
    more = {}
    if getattr(config, "quantization_config", None):
        more["quantization_config"] = tr.Mxfp4Config(dequantize=True)
    model, info = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True,
                                       attn_implementation="eager", **more)
    return model.float().eval(), info


def logits_of(model, golden):
    import torch
    feed = {k: golden[k] for k in ("input_ids", "attention_mask", "token_type_ids") if k in golden}
    with torch.no_grad():
        return model(**feed).logits


def difference(a, b, mask):
    d = (a - b).abs()
    return (d[mask.bool()] if d.dim() == 3 else d).max().item()


def check_hf(work):
    from safetensors.torch import load_file
    tiny = os.path.join(SET, "tiny")
    for name in sorted(os.listdir(tiny)):
        hf, out = os.path.join(tiny, name, "hf"), os.path.join(work, name)
        must("import", hf, "-o", out + ".run")
        must("export", "hf", out + ".run", "-o", out)
        same = tensors(hf) == tensors(out)
        text = "tensors equal in bits" if same else "tensors differ"
        if "gptq" in name:  # transformers has no kernel of it for this processor
            row("hf", name, same, text)
            continue
        golden = load_file(os.path.join(tiny, name, "golden.safetensors"))
        (ours, info), (theirs, before) = open_model(out), open_model(hf)
        keys = {k: sorted(v) for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys")}
        also = {k: sorted(v) for k, v in before.items() if v and k in keys}
        d = difference(logits_of(ours, golden), logits_of(theirs, golden), golden["attention_mask"])
        g = difference(logits_of(ours, golden), golden["logits"], golden["attention_mask"])
        row("hf", name, same and keys == also and d == 0,
            f"{text}; keys {keys or 'all'}{' as of the folder itself' if keys else ''}; logits {d:.1e}, golden {g:.1e}")


def check_peft(work):
    import peft
    from safetensors.torch import load_file
    base = os.path.join(SET, "tiny", "qwen2_moe")
    golden = load_file(os.path.join(base, "golden.safetensors"))
    run = os.path.join(work, "base.run")
    must("import", os.path.join(base, "hf"), "-o", run)
    for case in sorted(os.listdir(os.path.join(SET, "lora"))):
        folder = os.path.join(SET, "lora", case)
        for which in sorted(os.listdir(folder)):
            adapter = os.path.join(folder, which)
            if not os.path.exists(os.path.join(adapter, "adapter_config.json")):
                continue
            out = os.path.join(work, f"{case}-{which}")
            must("import", adapter, "--onto", run, "-o", out + ".run")
            must("export", "peft", out + ".run", "-o", out)
            must("export", "hf", out + ".run", "-o", out + ".merged", "--dtype", "f32")
            results = []
            for f in (out, adapter):
                model, _ = open_model(os.path.join(base, "hf"))
                results.append(logits_of(peft.PeftModel.from_pretrained(model, f).float().eval(), golden))
            merged, _ = open_model(out + ".merged")
            d = difference(*results, golden["attention_mask"])
            m = difference(results[0], logits_of(merged, golden), golden["attention_mask"])
            plain = difference(results[0], golden["logits"], golden["attention_mask"])
            row("peft", f"{case}/{which}", d <= 1e-5 and m <= 2e-5,
                f"logits {d:.1e} from PEFT's own, merged model {m:.1e}; the adapter changes {plain:.2f}")


def llama_logits(lib, path, ids, vocab):
    import numpy as np
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    if not model:
        return None
    p = lib.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 256, 256, 256, 1, 1
    p.type_k = p.type_v = 0  # F32
    p.flash_attn_type = 0
    ctx = lib.llama_init_from_model(model, p)
    batch = lib.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, t in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = t, i, 1, 1
        batch.seq_id[i][0] = 0
    lib.llama_decode(ctx, batch)
    out = np.stack([np.ctypeslib.as_array(lib.llama_get_logits_ith(ctx, i), shape=(vocab,)).copy()
                    for i in range(len(ids))])
    lib.llama_free(ctx)
    lib.llama_model_free(model)
    return out


def check_gguf(work):
    import llama_cpp as lib
    import numpy as np
    from safetensors.numpy import load_file
    quiet = lib.llama_log_callback(lambda level, text, data: None)
    check_gguf.keep = quiet
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    lib.llama_backend_init()
    folders = [(n, os.path.join(SET, "ggsrc", n)) for n in sorted(os.listdir(os.path.join(SET, "ggsrc")))]
    folders += [("stories/" + n, os.path.join(SET, "stories", n)) for n in ("llama", "mixtral")]
    for name, folder in folders:
        if not os.path.exists(os.path.join(folder, "golden.safetensors")):
            continue
        run, out = os.path.join(work, name.replace("/", "-") + ".gg"), os.path.join(work, name.replace("/", "-") + ".gguf")
        must("import", os.path.join(folder, "hf"), "-o", run)
        rc, text = moefw("export", "gguf", run, "-o", out, "--dtype", "f32")
        if rc:
            row("gguf", name, rc == 3, f"refused: {text.removeprefix('moefw: ')}")
            continue
        golden = load_file(os.path.join(folder, "golden.safetensors"))
        want = golden["logits"][0]
        got = llama_logits(lib, out, golden["input_ids"][0].tolist(), want.shape[-1])
        if got is None:
            row("gguf", name, False, "llama.cpp does not open it")
            continue
        d = float(np.abs(got - want).max())
        bound = 3e-3 if name == "gpt2" else np.inf if "mxfp4" in name else max(1e-5, 5e-6 * float(np.abs(want).max()))
        best = (got.argmax(-1) == want.argmax(-1)).sum()
        row("gguf", name, d <= bound, f"logits {d:.1e} of {np.abs(want).max():.1f}, the best token is the same at {best} of {len(want)}")


with tempfile.TemporaryDirectory() as folder:
    for part, check, programs in (("hf", check_hf, ("torch", "transformers")), ("peft", check_peft, ("torch", "transformers", "peft")),
                                  ("gguf", check_gguf, ("llama_cpp", "numpy"))):
        if part not in PARTS:
            continue
        try:
            for p in programs:
                __import__(p)
        except ImportError as missing:
            print(f"{part:5} skipped: {missing}")
            continue
        os.makedirs(os.path.join(folder, part))
        check(os.path.join(folder, part))
sys.exit(1 if broken else 0)
