"""make.py FOLDER...: log-likelihoods of items.jsonl by transformers in f32, with the rules of
lm-evaluation-harness (encode the whole text, take off the tokens of the context, keep the last
tokens of a long text). Writes NAME.json for each folder of a model: [[nats of each choice], ...],
null where the tokenizer has no token for an empty context.

Packages: torch, transformers. FOLDER: tests/golden/pretrained/NAME/hf.
"""
import json, pathlib, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

here = pathlib.Path(__file__).parent
items = [json.loads(x) for x in open(here / "items.jsonl")]
for folder in sys.argv[1:]:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tok = AutoTokenizer.from_pretrained(folder)
    longest = model.config.max_position_embeddings
    all_scores = []
    for item in items:
        scores = []
        for choice in item["choices"]:
            context, text = item["context"], " " + choice
            spaces = len(context) - len(context.rstrip())
            if spaces:
                context, text = context[:-spaces], context[-spaces:] + text
            whole = tok(context + text, add_special_tokens=False).input_ids
            if context:
                n = len(tok(context, add_special_tokens=False).input_ids)
            else:
                prefix = tok.bos_token_id if tok.bos_token_id is not None else tok.eos_token_id
                if prefix is None:
                    scores.append(None)
                    continue
                whole, n = [prefix] + whole, 1
            cut = max(0, len(whole) - longest - 1)
            ids = torch.tensor([whole[cut:-1]])
            with torch.no_grad():
                logp = torch.log_softmax(model(ids).logits[0].double(), -1)
            scores.append(sum(logp[i - cut - 1, whole[i]].item() for i in range(n, len(whole))))
        all_scores.append(scores)
    name = pathlib.Path(folder).parent.name
    json.dump(all_scores, open(here / f"{name}.json", "w"))
    print(name, longest, all_scores)
