"""Writes library.json: small tokenizers, texts, and the ids that tokenizers 0.23.3 gives them, where
ids depend on the library's own order of things or on the Unicode tables of its parts.
python3 make_library.py
"""
import json
import pathlib

from tokenizers import Tokenizer

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def letters():
    """Letters of bytes, as byte-level vocabularies have them."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + i) for i, b in enumerate(rest)}


def bpe(vocab, merges=(), **keys):
    names = {n: i for i, n in enumerate(vocab)} if not isinstance(vocab, dict) else vocab
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": names, "merges": list(merges)} | keys


def split(pattern):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, byte_level]}


def pairs(*texts):
    """A byte-level vocabulary with one token more for each pair of letters."""
    of = letters()
    two = [(of[t.encode()[0]], of[t.encode()[1]]) for t in texts]
    return bpe([of[b] for b in range(256)] + [a + b for a, b in two], [f"{a} {b}" for a, b in two])


CHARS = [chr(c) for c in (0x6EB, 0x11839, 0x612, 0x1193D, 0x954, 0x1AC4, 0x10796, 0x1FBF7, 0xF6, 0x6F, 0x308, 0x11935, 0x11930, 0x11938, 0x105D2, 0x307, 0x1CF2, 0xEBA, 0x11A57)]
BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
WORDS = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {n: i for i, n in enumerate(["[UNK]", "a", "x", "y", "xy", "\u1c8a", "##y"])}}
OLD = [f"x{chr(c)}y" for c in (0x61D, 0x166D, 0x111C9, 0x2E43, 0x2E5D, 0xAFE, 0x1143E, 0x11A59, 0x1734, 0x1171E, 0xECE, 0x1E00C, 0x890, 0x8E2, 0x300, 0x2014, 0x5D0)] + ["\u1c89", "x\u1c89y"]
FORMS = ["\u06eb\U00011839", "\u0612\U0001193d", "\u0954\u1ac4", "\U00010796", "\U0001fbf7", "o\u0308", "\U00011935\U00011930", "\U000105d2\u0307", "o\u1ac4\u0308", "\u0954\u06eb\u1ac4\u0612"]
ONE = {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}
CASES = [
    ("the same merge twice", {"model": bpe(["a", "b", "c", "ab", "bc", "abc"], ["a b", "b c", "a b"])}, ["abc", "ab", "bcab"]),
    ("bytes of a part of the characters", {"model": bpe(["<unk>", "a", "b", "<0xC3>", "<0xA9>"], byte_fallback=True, unk_token="<unk>", fuse_unk=True)}, ["a\U0001f600\u00e9b", "\U0001f600\u00e9\U0001f600a", "\u00e9\U0001f600", "\U0001f600\U0001f600\u00e9"]),
    ("the same, not fused", {"model": bpe(["<unk>", "a", "b", "<0xC3>", "<0xA9>"], byte_fallback=True, unk_token="<unk>")}, ["a\U0001f600\u00e9b", "\U0001f600\u00e9\U0001f600a", "\u00e9\U0001f600", "\U0001f600\U0001f600\u00e9"]),
    ("a vocabulary without some bytes", {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "model": bpe(["\u0120", "a", "b", "ab"], ["a b"])}, ["ab a", " b"]),
    ("and with a token for them", {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, "model": bpe(["?", "a", "b", "ab"], ["a b"], unk_token="?")}, ["ab a", "\u00e9b"]),
    ("words of Unicode 16", {"pre_tokenizer": split(LLAMA3), "model": pairs(" \U0001ccf0", "a\u1c8a", ".\U0001fae9", "\u1c89\u1c89")}, [" \U0001ccf01", "a\u1c8a", ".\U0001fae9!", "1\U0001ccf0a", "\U0001cc00x"]),
    ("the same by case", {"pre_tokenizer": split(O200K), "model": pairs(" \U0001ccf0", "a\u1c8a", ".\U0001fae9", "a\u1c89")}, [" \U0001ccf01", "a\u1c8a", "a\u1c89a", ".\U0001fae9!", "\U00010d50\U00010d70a"]),
    ("BERT", {"normalizer": BERT, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": WORDS}, OLD),
    *[(form, {"normalizer": {"type": form}, "model": bpe(["?", *CHARS], unk_token="?")}, FORMS) for form in ("NFC", "NFD", "NFKC", "NFKD")],
    ("marks", {"normalizer": {"type": "StripAccents"}, "model": bpe(["?", *CHARS], unk_token="?")}, ["o\u0308o", "o\u1cf2o", "o\u0ebao", "o\U00011a57o", "o\u1ac4o"]),
    ("punctuation that Unicode 16 has added", {"pre_tokenizer": {"type": "Whitespace"}, "model": ONE}, ["a\u1b7fa", "a\U000113d7a", "a\u1b7ea"]),
    ("numbers of Unicode 17", {"pre_tokenizer": {"type": "Digits", "individual_digits": True}, "model": ONE}, ["a\U00011de05\U00016ff4a", "a\u0665a"]),
    ("and in runs", {"pre_tokenizer": {"type": "Digits", "individual_digits": False}, "model": ONE}, ["a\U00011de05\U00016ff4a", "5\u0665"]),
    ("a word of its own", {"added_tokens": [{"id": 2, "content": "qq", "single_word": True, "lstrip": False, "rstrip": False, "normalized": False, "special": False}], "model": bpe(["?", "q"], unk_token="?")}, ["qq", "\u24b6qq", "qq\U0001f130", "\u1c89qq", "-qq-", "qq\u2460", "\U0001ccf0qq"]),
]


def fill(parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None} | parts


out = []
for name, parts, texts in CASES:
    text = json.dumps(fill(parts))
    t = Tokenizer.from_str(text)
    out.append({"name": name, "tokenizer": text, "texts": [[x, t.encode(x).ids] for x in texts]})
pathlib.Path(__file__).with_name("library.json").write_text(json.dumps(out, indent=0) + "\n")
