#!/usr/bin/env python3
"""Writes lib/data/tokenizer/regex/scripts.h: the code points of scripts, asked of the package tokenizers.

    make_scripts.py > ../../../../lib/data/tokenizer/regex/scripts.h

Each script is the expression \\p{NAME}+, applied to the text of all code points in order: its words are the ranges.
"""
from tokenizers import Regex, __version__, pre_tokenizers

NAMES = ("arabic armenian bengali bopomofo braille cherokee common coptic cyrillic devanagari ethiopic georgian greek gujarati gurmukhi "
         "han hangul hebrew hiragana inherited kannada katakana khmer lao latin malayalam mongolian myanmar oriya sinhala syriac tamil "
         "telugu thaana thai tibetan").split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, ALL))


def main():
    found = []
    for i, name in enumerate(NAMES):
        split = pre_tokenizers.Split(Regex(r"\P{%s}+" % name), "removed")
        found += [(ALL[a], ALL[b - 1], i) for _, (a, b) in split.pre_tokenize_str(TEXT)]
    found.sort()
    joined = found[:1]
    for a, b, i in found[1:]:
        assert a > joined[-1][1]
        joined.append((a, b, i))
    print("/* scripts.h: written by tests/golden/pretrained/tokenizers/make_scripts.py, which asked the")
    print(f" * package tokenizers {__version__}. */")
    print("#include <stddef.h>\n#include <stdint.h>\n")
    print("const char *const mf_rx_script_names[] = {")
    print(",\n".join("    " + ", ".join(f'"{n}"' for n in NAMES[k:k + 6]) for k in range(0, len(NAMES), 6)) + ", NULL};\n")
    print("static const struct {\n    uint32_t from, to;\n    int script; /* index of its name */\n} scripts[] = {")
    items = [f"{{{a:#x}, {b:#x}, {i}}}" for a, b, i in joined]
    print(",\n".join("    " + ", ".join(items[k:k + 4]) for k in range(0, len(items), 4)) + "};")


if __name__ == "__main__":
    main()
