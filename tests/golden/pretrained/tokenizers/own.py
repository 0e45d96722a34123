#!/usr/bin/env python3
"""own.py PROGRAM TEXT [--seed N] [--strings N]: tokenizers of moefw's own kinds against what `export hf` writes of them.

Each kind is trained on TEXT, bpe with three sizes, and a small run with it is exported. Drawn strings get ids by
PROGRAM with the kind's own file, by PROGRAM with tokenizer.json, and by the package tokenizers with tokenizer.json: the three are to be
equal. Strings are pieces of the text, words of it between drawn blanks, drawn characters, and words of 255 to 513 characters. Names of
special tokens are left out: they are tokens in tokenizer.json, and text for our own kinds.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

KINDS = [("byte", []), ("char", []), ("bpe", []), ("bpe", ["--vocab-size", "900"]), ("bpe", ["--merges", "3000"]),
         ("bpe_bytes", ["--vocab-size", "700"]), ("wordpiece", ["--vocab-size", "700"])]
CHARACTERS = list("abcdefghijklmnopqrstuvwxyzABC01239   \n\t\r\v\f.,;()#*'") + ["é", "ß", "漢", "\u00a0", "\u3000", "\u200b", "😀", "e\u0301", "\x85", "\u2028", "\x1c"]


def draw(r, text, words):
    kind = r.randrange(5)
    if kind == 0:
        at = r.randrange(len(text))
        return text[at:at + r.randrange(1, 200)]
    if kind == 1:
        return "".join(r.choice(CHARACTERS) for _ in range(r.randrange(1, 60)))
    if kind == 2:
        return "".join(r.choice(words) + r.choice([" ", "  ", "\n", "\t", " \r\n", "\v"]) for _ in range(r.randrange(1, 30)))
    if kind == 3:
        return r.choice(["", " ", "\n"]) + " ".join(r.choice(words) for _ in range(r.randrange(1, 30))) + r.choice(["", " "])
    return r.choice(CHARACTERS[:26]) * r.choice([255, 256, 257, 511, 512, 513]) + r.choice(["", " ", " x", "\n\nx "])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("text")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--strings", type=int, default=300)
    a = p.parse_args()
    program, text = pathlib.Path(a.program).resolve(), pathlib.Path(a.text).read_text(encoding="utf-8")
    words, failed = text.split(), 0

    def call(*args, **more):
        return subprocess.run([str(program), *args], check=True, capture_output=True, **more).stdout

    for number, (kind, options) in enumerate(KINDS):
        r = random.Random(a.seed * 100 + number)
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            (at / "text").write_text(text, encoding="utf-8", newline="")
            call("tokenize", "train", kind, "text", "-o", "own.json", "-q", *options, cwd=at)
            sets = [f"data.tokenizer={at}/own.json", "train.steps=1", "model.dim=16", "model.heads=2", "model.layers=1", "model.rope_half=yes"]
            call("train", "shakespeare", "--data", "text", "-q", "-o", "run", *(x for s in sets for x in ("--set", s)), cwd=at)
            call("export", "hf", "run", "-o", "out", "-q", cwd=at)
            theirs, bad, n = Tokenizer.from_file(str(at / "out" / "tokenizer.json")), 0, 0
            for _ in range(a.strings):
                s = draw(r, text, words)
                if kind == "bpe_bytes" and any(len(w.encode()) > 250 for w in s.split()):
                    continue  # moefw-pretrained(7)
                if kind == "char" and not set(s) <= set(text):
                    continue  # it refuses characters that it does not know
                if any(name in s for name in ("<pad>", "<unk>", "<eos>", "<bos>", "[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]")):
                    continue
                (at / "one").write_text(s, encoding="utf-8", newline="")
                ids = [[int(x) for x in call("tokenize", "encode", f, "one", cwd=at).split()] for f in ("own.json", "out/tokenizer.json")]
                ids.append(theirs.encode(s, add_special_tokens=False).ids)
                (at / "ids").write_text(" ".join(map(str, ids[0])))
                back = call("tokenize", "decode", "own.json", "ids", cwd=at).decode("utf-8").removesuffix("\n")
                n += 1
                if ids[0] != ids[1] or ids[0] != ids[2] or (kind == "bpe" and back != theirs.decode(ids[0])):
                    bad += 1
                    print(kind, options, repr(s)[:120], [i[:12] for i in ids], repr(back)[:60], file=sys.stderr)
            print(kind, *options, n, "strings,", bad, "differ", flush=True)
            failed += bad
    return 1 if failed else 0


sys.exit(main())
