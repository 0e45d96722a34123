"""Writes bert.txt: a sentence, and under it its ids by the reference (pip install
tokenizers==0.23.3) with the vocabulary of bert-base-uncased.

Run by hand as make.py vocab.txt; the test suite reads the result only.
"""
import os
import sys
from tokenizers import BertWordPieceTokenizer

sentences = [
    "The quick brown fox jumps over the lazy dog.",
    "Unaffable embeddings: tokenisation isn't \"hard\", is it?",
    "Café Zürich, naïve façade; Łódź, Ångström, Œuvre, straße.",
    "e\u0301te\u0301 decomposed, a\u0308 too",
    "$3.50 + 20% = 4.20€ (approx.) #hash @at ^caret `tick` ~",
    "日本語 and 中文字 between words",
    "Привет, Ёлка и Йод! Ελλάδα Ώρα",
    "no\u00a0break\u2003space\u3000wide\ttab\r",
    "soft\u00adhyphen zero\u200bwidth \ufeffmark",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "a" * 100 + " " + "a" * 101 + " end",
    "“Quotes” — dashes–and… ellipsis «guillemets» ¿qué?",
    "İstanbul ıstanbul Ðe ÞORN Tiếng Việt",
    "smile 😀 unknown ꙮ glyph 𝒳",
    "x-ray's 1,000,000th co-op ##hashes [brackets]",
]

here = os.path.dirname(os.path.abspath(__file__))
tokenizer = BertWordPieceTokenizer(sys.argv[1], lowercase=True)
with open(os.path.join(here, "bert.txt"), "w", encoding="utf-8", newline="") as out:
    for sentence in sentences:
        ids = tokenizer.encode(sentence, add_special_tokens=False).ids
        out.write(sentence + "\n" + " ".join(map(str, ids)) + "\n")
