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
# DeepSeek-V2 and V2-Lite: the tokenizer of V3's form with the words of V2
CASED = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
         "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
         "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
         "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
         "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
         "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
         "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
         "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
         "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
         "\U000118a0-\U000118df\U0001e900-\U0001e943")
PATTERNS = ["[\r\n]", "\\s?[" + CASED + "]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", "\\s+$",
            "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
to = os.path.join(here, "deepseek_v2")
os.makedirs(to, exist_ok=True)
j = json.load(open(f"{here}/deepseek/tokenizer.json"))
j["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in PATTERNS] + [
    {"type": "Digits", "individual_digits": True},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
json.dump(j, open(f"{to}/tokenizer.json", "w"), ensure_ascii=False)
added = [a["content"] for a in j["added_tokens"]]
open(f"{to}/vectors.json", "w").write(vectors(Tokenizer.from_file(f"{to}/tokenizer.json"), "deepseek_v2", added))
for name, (source, *files) in LISTS.items():
    to = os.path.join(here, name)
    os.makedirs(to, exist_ok=True)
    for file in files:
        shutil.copyfile(f"{reference}/tiny/{source}/hf/{file}", f"{to}/{file}")
added = json.load(open(f"{here}/qwen2/tokenizer.json"))["added_tokens"]
json.dump({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"},
           "added_tokens_decoder": {str(a.pop("id")): a for a in added}},
          open(f"{here}/qwen2_lists/tokenizer_config.json", "w"))
