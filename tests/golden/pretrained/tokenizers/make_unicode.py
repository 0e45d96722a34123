"""Writes lib/data/tokenizer/pretrained/versions_tables.h: what the parts of the library tokenizers take
code points for. Each part has tables of its own age: regular expressions are of Unicode 16, marks,
punctuation and normal forms of about Unicode 9. Made with tokenizers 0.23.3, from the repository's root:
python3 tests/golden/pretrained/tokenizers/make_unicode.py
"""
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

ALL = [c for c in range(0x80, 0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf Co".split()
TYPES = """#include "io/unicode.h"

typedef struct range {
    uint32_t from, to;
    int32_t value; /* not 0 */
} range;
"""
CATEGORIES_OF_C = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()  # from bit 1 on, as io/unicode.h has them


def categories():
    text, out = "\n".join(map(chr, ALL)), {}
    for name in CATEGORIES:
        lines = normalizers.Replace(Regex(rf"\p{{{name}}}"), "\1").normalize_str(text).split("\n")
        out |= {c: name for c, line in zip(ALL, lines) if line == "\1"}
    return out


def removed(normalizer):
    return {c for c in ALL if normalizer.normalize_str(f"a{chr(c)}b") == "ab"}


def bert(**what):
    keys = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**(keys | what))


def ranges(codes, key=lambda c: None):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1 and out[-1][2] == key(c):
            out[-1][1] = c
        else:
            out.append([c, c, key(c)])
    return out


def table(comment, name, found, value=None):
    row = lambda a, b, k: f"{{0x{a:x}, 0x{b:x}, {value(k) if value else 1}}}"
    print(f"/* {comment} */\nstatic const range {name}[] = {{", file=OUT)
    line = "   "
    for r in found:
        text = " " + row(*r) + ","
        if len(line) + len(text) > 94:
            print(line, file=OUT)
            line = "   "
        line += text
    print(line.rstrip(",") + "};\n", file=OUT)


def newer():
    """What changes its place or form by the tables of libutf8proc, but not here."""
    import ctypes

    lib, libc = ctypes.CDLL("libutf8proc.so.2"), ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]

    def form(name, text):
        f = getattr(lib, "utf8proc_" + name)
        f.restype = ctypes.c_void_p
        p = f(text.encode())
        out = ctypes.string_at(p).decode()
        libc.free(p)
        return out

    out = set()
    for name in ("NFC", "NFD", "NFKC", "NFKD"):
        n = getattr(normalizers, name)()
        for c in ALL:
            texts = [chr(c)] + (["a\u0315" + chr(c), f"a{chr(c)}\u0334"] if name == "NFD" else [])
            if any(n.normalize_str(t) != form(name, t) for t in texts):
                out.add(c)
    return out | {0x11930, 0x11935}  # a pair that composes since Unicode 13


def main():
    import ctypes

    lib = ctypes.CDLL("libutf8proc.so.2")
    lib.utf8proc_category.argtypes = [ctypes.c_int32]
    cats = categories()
    late = {c: cats[c] for c in ALL if c in cats and lib.utf8proc_category(c) == 0}
    print("/* versions_tables.h: written by tests/golden/pretrained/tokenizers/make_unicode.py. */", file=OUT)
    print(TYPES, file=OUT)
    table("Code points that Unicode 15.1 and 16 have added, and the bits of their categories.", "late", ranges(late, lambda c: late[c]), lambda k: f"1 << {CATEGORIES_OF_C.index(k) + 1}")
    punctuation = {c for c in ALL if len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{chr(c)}b")) == 3}
    table("Code points that are punctuation in Unicode 16, but not for BERT's pre-tokenizer.", "no_punctuation", ranges({c for c in ALL if cats.get(c, "Cn")[0] == "P"} - punctuation))
    numbers = {c for c in ALL if len(pre_tokenizers.Digits().pre_tokenize_str(f"a{chr(c)}b")) == 3}
    table("Numbers of Unicode 17, which Digits knows.", "late_number", ranges({c for c in numbers if cats.get(c, "Cn")[0] != "N"}))
    accents = removed(bert(strip_accents=True))
    table("Marks without width (Mn) that BERT keeps.", "no_accent", ranges({c for c in ALL if cats.get(c) == "Mn"} - accents))
    marks = removed(normalizers.StripAccents())
    table("Marks that StripAccents keeps.", "no_mark", ranges({c for c in ALL if cats.get(c, "Cn")[0] == "M"} - marks))
    clean = removed(bert(clean_text=True))
    table("Format characters (Cf) that BERT keeps.", "no_control", ranges({c for c in ALL if cats.get(c) in ("Cf", "Co")} - clean))
    table("Code points whose normal form or combining class is newer than that of the\n * library tokenizers.", "no_form", ranges(newer()))
    t = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    t.add_tokens([AddedToken("qq", single_word=True, normalized=False)])
    signs = {c for c in ALL if cats.get(c, "Cn")[0] == "S" and 1 not in t.encode(chr(c) + "qq").ids}
    table("Signs that belong to words, as letters in circles do.", "word_signs", ranges(signs))
    lower = {c: normalizers.Lowercase().normalize_str(chr(c)) for c in ALL}
    lower = {c: ord(s) for c, s in lower.items() if len(s) == 1 and ord(s) != c and (lib.utf8proc_tolower(c) != ord(s))}
    table("Lower case that is newer than Unicode 15.", "late_lower", ranges(lower, lambda c: lower[c] - c), str)
    print("numbers that Digits does not know:", [hex(c) for c in ALL if cats.get(c, "Cn")[0] == "N" and c not in numbers])
    print("punctuation that is none in Unicode 16:", [hex(c) for c in punctuation if cats.get(c, "Cn")[0] != "P"])
    print("accents that are no Mn:", [hex(c) for c in accents if cats.get(c) != "Mn"])
    print("marks that are no M:", [hex(c) for c in marks if cats.get(c, "Cn")[0] != "M"])


with open("lib/data/tokenizer/pretrained/versions_tables.h", "w") as OUT:
    main()
