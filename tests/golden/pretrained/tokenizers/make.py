#!/usr/bin/env python3
"""make.py SET: copies small tokenizers of the reference set and writes what `tokenizers` makes of texts.

SET is the folder with tiny/NAME/hf and tiny_tokenizers.py. Needs the package tokenizers (0.23 was used).
Each folder gets tokenizer.json and vectors.json: ids of each text, its text after decoding if that is
another one, and the ids with the template's tokens for some. The folders NAME_list(s) have the older files.
"""
import json
import os
import shutil
import sys

from tokenizers import Tokenizer

reference, here = sys.argv[1], os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, reference)
from tiny_tokenizers import TRICKY  # noqa: E402

KINDS = {"gpt2": "gpt2", "neox": "olmoe", "qwen2": "qwen2_moe", "deepseek": "deepseek_v2", "o200k": "gpt_oss",
         "mistral": "mixtral", "bert": "bert"}
LISTS = {"gpt2_lists": ("gpt2", "vocab.json", "merges.txt"), "qwen2_lists": ("qwen2_moe", "vocab.json", "merges.txt"),
         "bert_list": ("bert", "vocab.txt")}


def vectors(t, name, extra):
    more = ["a" + extra[0] + " b " + extra[-1], "\u0903ABC \u0903abc DEFghi'LL jklMNO's \u01c5x", "x=1;;\r\n\r\n  y/z//\n/",
            " \u00a0\u2003 end", "12345 678\u0661\u0662", "'\u017f 'Re don'T"]
    cases = []
    for i, s in enumerate(TRICKY + more):
        ids, wrapped = t.encode(s, add_special_tokens=False).ids, t.encode(s).ids
        text = t.decode(ids, skip_special_tokens=False)
        case = {"text": s, "ids": ids}
        case.update({"decoded": text} if text != s else {})
        case.update({"wrapped": wrapped} if wrapped != ids and i % 11 == 5 else {})
        cases.append(json.dumps(case, separators=(",", ":")))
    pair = t.encode("one two", "three")
    pair = {"first": "one two", "second": "three", "ids": pair.ids, "types": pair.type_ids}
    return '{"what":%s,\n"pair":%s,\n"cases":[\n%s]}\n' % (json.dumps(name), json.dumps(pair), ",\n".join(cases))


for name, source in KINDS.items():
    to = os.path.join(here, name)
    os.makedirs(to, exist_ok=True)
    shutil.copyfile(f"{reference}/tiny/{source}/hf/tokenizer.json", f"{to}/tokenizer.json")
    added = [a["content"] for a in json.load(open(f"{to}/tokenizer.json"))["added_tokens"]]
    open(f"{to}/vectors.json", "w").write(vectors(Tokenizer.from_file(f"{to}/tokenizer.json"), name, added))
for name, (source, *files) in LISTS.items():
    to = os.path.join(here, name)
    os.makedirs(to, exist_ok=True)
    for file in files:
        shutil.copyfile(f"{reference}/tiny/{source}/hf/{file}", f"{to}/{file}")
added = json.load(open(f"{here}/qwen2/tokenizer.json"))["added_tokens"]
json.dump({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"},
           "added_tokens_decoder": {str(a.pop("id")): a for a in added}},
          open(f"{here}/qwen2_lists/tokenizer_config.json", "w"))
