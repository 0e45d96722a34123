"""Answers of inference engines with routes, by numpy: vllm.jsonl, vllm021.jsonl, sglang.jsonl, megatron.jsonl.

A model of 4 layers, of which 1 and 3 have 8 experts, 2 of them for each token; ids are bytes. Three
sequences of a prompt and an answer. Expert j (0, 1) of token t in layer l of sequence s is
(3 t + 5 l + s + j (1 + t mod 3)) mod 8. The last token was never run, so it has no experts.
The layout is that of the engines: tests/cli/train/routes.bats says what is expected of it.
"""
import base64, io, json, pathlib
import numpy as np

here = pathlib.Path(__file__).parent
layers, moe = 4, [1, 3]
texts = [("The cat", " sat"), ("A d", "og"), ("One", " two three")]


def experts(s, t, l):
    return [(3 * t + 5 * l + s + j * (1 + t % 3)) % 8 for j in (0, 1)]


def npy(a):
    f = io.BytesIO()
    np.save(f, a)
    return base64.b64encode(f.getvalue()).decode()


out = {name: [] for name in ("vllm", "vllm021", "sglang", "megatron")}
for s, (prompt, answer) in enumerate(texts):
    p, a = list(prompt.encode()), list(answer.encode())
    n = len(p) + len(a) - 1
    every = np.zeros((n, layers, 2), np.int32)
    for t in range(n):
        for l in moe:
            every[t, l] = experts(s, t, l)
    types = [np.uint8, np.uint16, np.int32]
    out["vllm"].append({"id": "x", "prompt_token_ids": p, "choices": [
        {"index": 0, "text": answer, "token_ids": a, "routed_experts": npy(every.astype(types[s]))}]})
    out["vllm021"].append({"prompt_token_ids": p, "prompt_routed_experts": npy(every[: len(p), moe].astype(np.int16)),
        "choices": [{"token_ids": a, "routed_experts": npy(every[len(p) :, moe].astype(np.int16))}]})
    out["sglang"].append({"text": answer, "input_ids": p, "output_ids": a,
        "meta_info": {"routed_experts": base64.b64encode(every.astype("<i4").tobytes()).decode()}})
    out["megatron"].append({"prompt_tokens": p, "generated_tokens": a, "moe_topk_indices": every[:, moe].tolist()})
for name, lines in out.items():
    (here / f"{name}.jsonl").write_text("".join(json.dumps(x, separators=(",", ":")) + "\n" for x in lines))
