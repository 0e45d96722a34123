#!/usr/bin/env python3
"""draw.py -o OUT [--seed N] [--strings N] PATH...: drawn strings, and what the package tokenizers makes of them.

PATH is a file tokenizer.json, tokenizer.model, whose ids are those of the tokenizer.json beside it, or tekken.json, which the package
tiktoken reads. Writes OUT/NUMBER-FOLDER-FILE with a copy of it and vectors.json:
{"name", "cases": [{"text", "ids", "wrapped", "decoded"}]}. MOEFW_TOKENIZERS=OUT tests/unit/data/check_pretrained compares them.

A string has 1 to 12 parts of drawn kinds: words of a text and of scripts, runs of blanks, digits, punctuation, code points of every
general category, marks behind letters, sequences of emoji, control characters, names of the tokenizer's own special tokens and parts of
them, tokens of its vocabulary. Unassigned code points are drawn, too; surrogates are not, since no UTF-8 has them. "decoded" is left
out where ids are bytes that are no UTF-8, of which the library writes U+FFFD for all that are in one run, moefw for those alone.
"""
import argparse
import base64
import json
import pathlib
import random
import shutil
import unicodedata

from tokenizers import Tokenizer

WORDS = ("the quick Brown FOX don't WE'LL I'm it's they're x1y2 camelCase HTTPServer snake_case naïve café Straße İstanbul ΣΊΣΥΦΟΣ ǅungla Привет "
         "Ёлка שָׁלוֹם مَرْحَبًا नमस्ते क्षत्रिय বাংলা தமிழ் 你好 世界 日本語 カタカナ ｶﾞ 々 한국어 각 ไทย ភាសា བོད 𝔘𝔫𝔦 𐍈 ﬁ Ω Å ẛ̣ ① Ⅻ ½ ² ٣٤٥ ४५६ ᾳ ŉ").split()
BLANKS = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", " \n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u000b", "\u000c", "\u001c", "\u200b", "\ufeff",
          "\u2581", "\u180e"]
JOINED = ["👩‍👩‍👧‍👦", "👍🏽", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣", "❤️", "e\u0301\u0302", "\u0301", "a\u0323\u0307", "\u0307\u0323", "क्‍ष", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0f73\u0f71",
          "\u212b", "\u2126", "\ufb1d", "\u0344", "\u0f77", "\ufdfa", "\u1f71", "\U0001d160", "\u2adc", "\ufa0e", "\u3099", "か\u3099"]


def categories():
    of = {}
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            of.setdefault(unicodedata.category(chr(c)), []).append(chr(c))
    return of


OF = categories()


def part(r, names, vocab):
    kind = r.randrange(14)
    if kind == 0:
        return r.choice(WORDS)
    if kind == 1:
        return r.choice(WORDS) + r.choice(["", " "]) + r.choice(WORDS)
    if kind == 2:
        return r.choice(BLANKS) * r.randint(1, 5)
    if kind == 3:
        return "".join(r.choice(BLANKS) for _ in range(r.randint(1, 5)))
    if kind == 4:
        return "".join(r.choice("0123456789") for _ in range(r.randint(1, 9)))
    if kind == 5:
        return "".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(r.randint(1, 6)))
    if kind == 6:
        of = OF[r.choice(sorted(OF))]
        return "".join(r.choice(of) for _ in range(r.randint(1, 3)))
    if kind == 7:
        return "".join(r.choice(OF[r.choice(sorted(OF))]) for _ in range(r.randint(1, 4)))
    if kind == 8:
        return r.choice(WORDS) + "".join(r.choice(OF["Mn"]) for _ in range(r.randint(1, 3)))
    if kind == 9:
        return "".join(r.choice(JOINED) for _ in range(r.randint(1, 3)))
    if kind == 10:
        return "".join(chr(r.randrange(0x250)) for _ in range(r.randint(1, 6)))
    if kind == 11 and names:
        name = r.choice(names)
        return name if r.random() < .7 else name[:r.randint(1, len(name))]
    if kind == 12:
        return "".join(r.choice(vocab) for _ in range(r.randint(1, 3)))
    return "".join(chr(c) for c in (r.randrange(0x3000) for _ in range(r.randint(1, 4))))


def drawn(r, n, names, vocab):
    out = []
    while len(out) < n:
        s = "".join(part(r, names, vocab) + r.choice(["", "", " "]) for _ in range(r.randint(1, 12)))
        out.append(r.choice(["", "", "", " ", "\n"]) + s)
    return out


def by_tiktoken(path):
    """tekken.json by another program: its special tokens come first and are no part of texts."""
    import tiktoken
    j = json.loads(path.read_text())
    c = j["config"]
    shift, n = c["default_num_special_tokens"], c["default_vocab_size"] - c["default_num_special_tokens"]
    ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in j["vocab"][:n]}
    t = tiktoken.Encoding("file", pat_str=c["pattern"], mergeable_ranks=ranks, special_tokens={})

    def one(s):
        ids = t.encode_ordinary(s)
        return [i + shift for i in ids], t.decode(ids)
    return one, [], [b.decode("utf-8", "ignore") or "a" for b in ranks]


def opened(path):
    """Returns the function that gives ids and texts, the names of special tokens, and the pieces."""
    if path.name == "tekken.json":
        return by_tiktoken(path)
    t = Tokenizer.from_file(str(path.with_name("tokenizer.json") if path.suffix == ".model" else path))
    t.no_truncation()
    t.no_padding()

    def one(s):
        e = t.encode(s, add_special_tokens=False).ids
        return e, t.decode(e, skip_special_tokens=False), t.encode(s).ids
    return one, [a.content for a in t.get_added_tokens_decoder().values()], list(t.get_vocab())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-o", "--out", required=True, type=pathlib.Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--strings", type=int, default=2500)
    p.add_argument("path", nargs="+", type=pathlib.Path)
    a = p.parse_args()
    for i, path in enumerate(a.path):
        name = f"{path.parent.name}-{path.name}"
        out = a.out / f"{i:02}-{name}"
        out.mkdir(parents=True)
        shutil.copy(path, out / ("tokenizer.json" if path.suffix == ".json" and path.name != "tekken.json" else path.name))
        one, names, vocab = opened(path)
        r = random.Random(f"{a.seed} {name}")
        cases = []
        for s in drawn(r, a.strings, names, sorted(vocab)):
            ids, decoded, *wrapped = one(s)
            case = {"text": s, "ids": ids, "decoded": decoded, **({"wrapped": wrapped[0]} if wrapped else {})}
            if decoded.count("\ufffd") > s.count("\ufffd"):
                del case["decoded"]
            cases.append(case)
        (out / "vectors.json").write_text(json.dumps({"name": name, "cases": cases}))
        print(name, len(cases), "strings,", sum(len(c["ids"]) for c in cases), "ids,", sum("decoded" not in c for c in cases), "not decoded", flush=True)


if __name__ == "__main__":
    main()
