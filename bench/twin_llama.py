"""llama.cpp as the other side of decode and prompt: the LaMoE shapes as a GGUF file with random
weights, driven through llama-cpp-python's low-level functions. Runs on request, as twin.py does.

    twin_llama.py decode|prompt [--dtype f32|bf16] [--threads N] [--prompt N] [--new N]
"""
import argparse
import ctypes
import json
import os
import resource
import sys
import time

import numpy as np

VOCAB, DIM, LAYERS, HEADS, KV, EXPERTS, TOP_K, HIDDEN = 30000, 512, 4, 8, 4, 8, 2, 2048
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")


def write(path, dtype):
    import gguf

    kind = gguf.GGMLQuantizationType.BF16 if dtype == "bf16" else gguf.GGMLQuantizationType.F32
    draw = np.random.default_rng(0)
    w = gguf.GGUFWriter(path + "-t", "llama")
    w.add_context_length(1024)
    w.add_embedding_length(DIM)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(HIDDEN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_rope_dimension_count(DIM // HEADS)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_expert_count(EXPERTS)
    w.add_expert_used_count(TOP_K)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("no_vocab")
    size = 0

    def matrix(name, *shape, f32=False):
        nonlocal size
        v = draw.standard_normal(shape, dtype=np.float32) * 0.02
        size += v.size
        if f32 or dtype == "f32":
            w.add_tensor(name, v)
        else:
            w.add_tensor(name, gguf.quants.quantize(v, kind), raw_dtype=kind)

    def ones(name):
        nonlocal size
        size += DIM
        w.add_tensor(name, np.ones(DIM, np.float32))

    matrix("token_embd.weight", VOCAB, DIM)
    for i in range(LAYERS):
        b = "blk.%d." % i
        ones(b + "attn_norm.weight")
        matrix(b + "attn_q.weight", DIM, DIM)
        matrix(b + "attn_k.weight", DIM * KV // HEADS, DIM)
        matrix(b + "attn_v.weight", DIM * KV // HEADS, DIM)
        matrix(b + "attn_output.weight", DIM, DIM)
        ones(b + "ffn_norm.weight")
        matrix(b + "ffn_gate_inp.weight", EXPERTS, DIM, f32=True)
        matrix(b + "ffn_gate_exps.weight", EXPERTS, HIDDEN, DIM)
        matrix(b + "ffn_up_exps.weight", EXPERTS, HIDDEN, DIM)
        matrix(b + "ffn_down_exps.weight", EXPERTS, DIM, HIDDEN)
    ones("output_norm.weight")
    matrix("output.weight", VOCAB, DIM)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.rename(path + "-t", path)
    with open(path + ".params", "w") as f:
        f.write("%d" % size)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("what", choices=("decode", "prompt"))
    a.add_argument("--dtype", default="f32")
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--prompt", type=int, default=16)
    a.add_argument("--new", type=int, default=128)
    o = a.parse_args()
    path = os.path.join(OUT, "lamoe-%s.gguf" % o.dtype)
    if not os.path.exists(path):
        write(path, o.dtype)
    import llama_cpp as lib

    quiet = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(quiet, ctypes.c_void_p(0))
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    p = lib.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch = 512, 512, 512
    p.n_threads = p.n_threads_batch = o.threads
    context = lib.llama_init_from_model(model, p)
    if not context:
        raise SystemExit("llama.cpp did not take " + path)
    draw = np.random.default_rng(1)
    memory = lib.llama_get_memory(context)

    def feed(ids):
        array = (lib.llama_token * len(ids))(*ids)
        if lib.llama_decode(context, lib.llama_batch_get_one(array, len(ids))) != 0:
            raise SystemExit("llama_decode failed")
        lib.llama_get_logits(context) # waits for the logits

    def run():
        lib.llama_memory_clear(memory, True)
        began = time.perf_counter()
        feed(draw.integers(VOCAB, size=o.prompt).tolist())
        if o.what == "prompt":
            return time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(o.new):
            feed([int(draw.integers(VOCAB))])
        return (time.perf_counter() - began) / o.new

    about = {"params": int(open(path + ".params").read()), "threads": o.threads, "tokens": 1 if o.what == "decode" else o.prompt,
             "llama": lib.__version__}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        print(json.dumps({"ms": [1e3 * run() for _ in range(int(line))]}), flush=True)
    print(json.dumps({"peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
