#!/usr/bin/env python3
"""Writes more.json, and the folders spm_unigram, spm_bpe, tiktoken and tekken: further kinds of tokenizers, trained small, with the ids
and texts that tokenizers 0.23.3 gives. python3 make_more.py

more.json: [{"name", "tokenizer": tokenizer.json, "cases": [{"text", "ids", "wrapped", "decoded"}]}]. Single pre-tokenizers have the
model WordLevel, whose vocabulary is their words, so that each id is a word. Folders have a file of another program and vectors.json.
In tekken, special tokens come first, as mistral-common numbers them.
"""
import base64
import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
NOTE, TAIL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"|\s*[\r\n]+|\s+(?!\S)|\s+"
FRONT = r"[^\r\n\p{L}\p{N}]?"
QWEN35 = NOTE + "|" + FRONT + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL
TEKKEN = rf"{FRONT}[{UPPER}]*[{LOWER}]+|{FRONT}[{UPPER}]+[{LOWER}]*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL
HAN = r"&&[^\p{Han}]"
KIMI = (r"[\p{Han}]+" + rf"|{FRONT}[{UPPER}{HAN}]*[{LOWER}{HAN}]+{NOTE}?|{FRONT}[{UPPER}{HAN}]+[{LOWER}{HAN}]*{NOTE}?"
        + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL)
TEXTS = ["", " ", "a", "  two  blanks ", "Hello world", "don't WE'LL I'ſ", "x1y22z333w4444", "٣٤٥ Ⅻ ½ ²",
         "CamelCaseAndACRONYMS Here", "a.b,c//d\n\n e", "naïve cafe\u0301", "\ufb01 \u2126 \uff21", "Привет, мир!", "中文English混合123",
         "日本語 カタカナ々", "👩‍👧 \u200b", "\u00a0n\u3000i\u0085x", "<s></s> <unk>[INST]x", "▁▁ a ▁b", "ab" * 20 + " ab", "!!!...??", "\r\n1a 2b\t", "ΣΊΣΥΦΟΣ İ"]


def lines():
    r = random.Random(3)
    words = ["".join(r.choice("etaoinshrdlu") for _ in range(r.randint(1, 6))) for _ in range(120)]
    return [" ".join(r.choice(words) for _ in range(10)).capitalize() + ".\n" for _ in range(120)] + TEXTS * 4


LINES = lines()
SOME = ["".join(c for c in x if ord(c) < 0x250 or c == "▁") for x in LINES]


def special(*names):
    return [AddedToken(n, special=True, normalized=False) for n in names]


def before(t, b):
    t.post_processor = processors.TemplateProcessing(single=f"{b} $A", pair=f"{b} $A {b}:1 $B:1", special_tokens=[(b, t.token_to_id(b))])


def byte_level(pre, specials=(), whole=False, vocab=330):
    t = Tokenizer(models.BPE(ignore_merges=whole))
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(special(*specials))
    return t


def patterned(p):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def spm(kind, **more):
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d)
        (d / "t").write_text("\n".join(x.replace("\n", " ") for x in LINES if x.strip()))
        (d / "rules").write_text("FB01\t66 69\n2126\t3A9\n65 301\tE9\n3000\t20\nA0\t20\n200B\t\nFF21\t41\n85\t20\n9\t20\nA\t20\nD\t20\n")
        if more.pop("rules", False):
            more["normalization_rule_tsv"] = str(d / "rules")
        sentencepiece.SentencePieceTrainer.train(input=str(d / "t"), model_prefix=str(d / "m"), model_type=kind, minloglevel=2,
                                                 num_threads=1, hard_vocab_limit=False, **more)
        p = pb.ModelProto()
        p.ParseFromString((d / "m.model").read_bytes())
    p.trainer_spec.ClearField("input")
    p.trainer_spec.ClearField("model_prefix")
    p.normalizer_spec.ClearField("normalization_rule_tsv")
    return p


def t5(p):
    t = Tokenizer(models.Unigram([(x.piece, x.score) for x in p.pieces], unk_id=2, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(p.normalizer_spec.precompiled_charsmap), normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "▁")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.add_special_tokens(special("<pad>", "</s>", "<unk>"))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def fallback(t):
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(special("<unk>", "<s>", "</s>"))
    before(t, "<s>")
    return t


def unigram_bytes():
    p = spm("unigram", vocab_size=330, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98)
    t = Tokenizer(models.Unigram([(x.piece, x.score) for x in p.pieces], unk_id=0, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return fallback(t)


def spm_bpe(p):
    vocab = {x.piece: i for i, x in enumerate(p.pieces)}
    merges = []
    for x in sorted((x for x in p.pieces if x.type == 1), key=lambda x: -x.score):
        merges += sorted(((x.piece[:i], x.piece[i:]) for i in range(1, len(x.piece)) if x.piece[:i] in vocab and x.piece[i:] in vocab),
                         key=lambda y: (vocab[y[0]], vocab[y[1]]))
    t = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return fallback(t)


def unigram_plain():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Punctuation()])
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(LINES, trainers.UnigramTrainer(vocab_size=200, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False))
    return t


def suffix():
    t = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")])
    t.decoder = decoders.BPEDecoder("</w>")
    t.train_from_iterator(SOME + ["\0nul"], trainers.BpeTrainer(vocab_size=200, special_tokens=["[UNK]"], end_of_word_suffix="</w>", show_progress=False))
    return t


def prefix():
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    t.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    t.train_from_iterator(SOME, trainers.BpeTrainer(vocab_size=200, special_tokens=["[UNK]"], continuing_subword_prefix="##", show_progress=False))
    return t


def gemma():
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer, t.pre_tokenizer = normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous")
    t.train_from_iterator(SOME, trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<unk>", "<bos>"] + [f"<0x{b:02X}>" for b in range(256)]))
    j = json.loads(t.to_str())
    j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(j))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    before(t, "<bos>")
    return t


def words(pre):
    """One id for each word that the pre-tokenizer makes of the texts."""
    found = dict.fromkeys(w for s in TEXTS for w, _ in pre.pre_tokenize_str(s))
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["[UNK]", *found])}, unk_token="[UNK]"))
    t.pre_tokenizer = pre
    return t


def cases(t):
    out = []
    for s in TEXTS:
        ids = t.encode(s, add_special_tokens=False).ids
        out.append({"text": s, "ids": ids, "wrapped": t.encode(s).ids, "decoded": t.decode(ids, skip_special_tokens=False)})
    return out


def dump(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace('},{"text', '},\n{"text').replace('},{"name', '},\n{"name') + "\n")


def main():
    pre, S, R = pre_tokenizers, pre_tokenizers.Split, Regex
    falcon = pre.Sequence([pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False, use_regex=True), pre.Digits(False), S(R("[0-9][0-9][0-9]"), "isolated")])
    unigram, bpe = spm("unigram", vocab_size=150, rules=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1), spm(
        "bpe", vocab_size=380, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98)
    kimi = byte_level(patterned(KIMI), ["[BOS]", "<|im_end|>"], whole=True)
    tekken = byte_level(patterned(TEKKEN), ["<unk>", "<s>", "</s>", "[INST]"], whole=True)
    all_ = {"Qwen3.5": byte_level(patterned(QWEN35)), "Falcon": byte_level(falcon), "StarCoder": byte_level(pre.Sequence([pre.Digits(True), pre.ByteLevel(add_prefix_space=False)])),
            "a blank behind a splitter": byte_level(pre.Sequence([S("b", "isolated"), pre.ByteLevel(add_prefix_space=True)])),
            "T5": t5(unigram), "Unigram with bytes": unigram_bytes(), "Unigram, three pre-tokenizers": unigram_plain(), "a suffix": suffix(), "a prefix": prefix(), "Gemma": gemma(),
            "Whitespace": words(pre.Whitespace()), "lookahead": words(S(R(r"\d{1,3}(?=(?:\d{3})*(?!\d))|\b\w+\b"), "isolated"))}
    for b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        all_[f"string, {b}"] = words(S("a", b))
        all_[f"expression, {b}"] = words(S(R(r"\d{2}|[,.]|x*"), b))
        all_[f"inverted, {b}"] = words(S(R(r"\w+"), b, invert=True))
        all_[f"Punctuation, {b}"] = words(pre.Punctuation(b))
    dump(HERE / "more.json", [{"name": n, "tokenizer": t.to_str(), "cases": cases(t)} for n, t in all_.items()])
    for name, p, t in (("spm_unigram", unigram, t5(unigram)), ("spm_bpe", bpe, spm_bpe(bpe))):
        dump(HERE / name / "vectors.json", {"cases": cases(t)})
        (HERE / name / "tokenizer.model").write_bytes(p.SerializeToString(deterministic=True))
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letter = {chr(b): b for b in keep} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in keep)}
    ranked = lambda t: [bytes(letter[c] for c in k) for k, _ in sorted(json.loads(t.to_str())["model"]["vocab"].items(), key=lambda x: x[1])]
    dump(HERE / "tiktoken" / "vectors.json", {"cases": cases(kimi)})
    dump(HERE / "tiktoken" / "tokenizer_config.json", {"added_tokens_decoder": {str(kimi.token_to_id(n)): {"content": n, "special": True} for n in ("[BOS]", "<|im_end|>")}})
    (HERE / "tiktoken" / "tiktoken.model").write_text("".join(f"{base64.b64encode(b).decode()} {i}\n" for i, b in enumerate(ranked(kimi))))
    vocab, names = ranked(tekken), ["<unk>", "<s>", "</s>", "[INST]"]
    shift = lambda ids: [i + 4 if i < len(vocab) else i - len(vocab) for i in ids]
    dump(HERE / "tekken" / "vectors.json", {"cases": [c | {"ids": shift(c["ids"]), "wrapped": [1] + shift(c["ids"])} for c in cases(tekken)]})
    dump(HERE / "tekken" / "tekken.json", {
        "config": {"pattern": TEKKEN, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + 4, "default_num_special_tokens": 4, "version": "v3"},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(b).decode(), "token_str": None} for i, b in enumerate(vocab)],
        "special_tokens": [{"rank": i, "token_str": n, "is_control": True} for i, n in enumerate(names)]})


if __name__ == "__main__":
    main()
