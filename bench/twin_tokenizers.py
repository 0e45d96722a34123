#!/usr/bin/env python3
"""twin_tokenizers.py FOLDER|tokenizer.json... TEXT: ids of a text, here and with the package tokenizers.

For each tokenizer: CPU seconds for 1 MB of the text, here and there, alternately, the median of 5 pairs, and
whether the ids are equal. Here the time of `moefw tokenize encode` on an empty text is subtracted, so that
opening the tokenizer does not count; there `encode` alone is timed. The text should have some megabytes.
Needs `pip install tokenizers`; MOEFW names the program (build/moefw).
"""
import array
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer

moefw = os.environ.get("MOEFW", "build/moefw")
*names, source = sys.argv[1:]
text = open(source, encoding="utf-8").read()
megabytes = len(text.encode()) / 1e6


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def here(name, file):
    """CPU seconds, and the ids."""
    begin = children()
    subprocess.run([moefw, "tokenize", "encode", name, file, "--bin", file + ".bin", "--bits", "32"], check=True,
                   stdout=subprocess.DEVNULL)
    used, ids = children() - begin, array.array("i")
    ids.frombytes(open(file + ".bin", "rb").read())
    return used, ids


with tempfile.TemporaryDirectory() as folder:
    empty, full = os.path.join(folder, "empty"), os.path.join(folder, "full")
    for file, what in ((empty, ""), (full, text)):
        with open(file, "w", encoding="utf-8", newline="") as f:
            f.write(what)
    print(f"{'tokenizer':40} here s/MB  there s/MB  there/here  ids")
    for name in names:
        t = Tokenizer.from_file(name if os.path.isfile(name) else os.path.join(name, "tokenizer.json"))
        pairs = []
        for _ in range(5):
            used, ids = here(name, full)
            begin = time.process_time()
            theirs = t.encode(text, add_special_tokens=False).ids
            there = time.process_time() - begin
            pairs.append(((used - here(name, empty)[0]) / megabytes, there / megabytes))
        a, b = (statistics.median(p[i] for p in pairs) for i in range(2))
        print(f"{name[-40:]:40} {a:9.3f} {b:11.3f} {statistics.median(y / x for x, y in pairs):11.1f}  "
              f"{'equal' if list(ids) == theirs else 'DIFFER'}")
