"""The PyTorch side of ddp.py: steps of a twin of several micro-batches, in one process or in several.

    twin_ddp.py MODEL --ids FILE [--dtype f32|bf16] [--threads N] [--steps N] [--accumulate N]

Prints one line of JSON with the time of each step. Where RANK and WORLD_SIZE are set, as torchrun
sets them, the micro-batches of a step are divided among the processes (DistributedDataParallel, gloo),
and rank 0 prints.
"""
import argparse
import json
import os
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F

import twin
import twin_models


def options():
    a = argparse.ArgumentParser()
    a.add_argument("name", choices=sorted(twin_models.MODELS))
    a.add_argument("--ids", required=True, help="training tokens, uint16")
    a.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    a.add_argument("--threads", type=int, default=1)
    a.add_argument("--steps", type=int, default=8)
    a.add_argument("--accumulate", type=int, default=2, help="micro-batches of a step")
    return a.parse_args()


def main():
    o = options()
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    if ranks > 1:
        dist.init_process_group("gloo")
    model = twin_models.MODELS[o.name]()
    B, T, V = model.batch, model.seq, model.vocab
    # Gradients stay where they travel: the fastest setting, and no second copy.
    run = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True) if ranks > 1 else model
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    data = torch.frombuffer(bytearray(open(o.ids, "rb").read()), dtype=torch.int16).long() & 0xFFFF
    own = o.accumulate // ranks
    draw = torch.Generator().manual_seed(rank)

    def micro():
        at = torch.randint(len(data) - T - 1, (B,), generator=draw).tolist()
        rows = torch.stack([data[i : i + T + 1] for i in at])
        with twin.cast(o):
            logits = run(rows[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, V).float(), rows[:, 1:].reshape(-1)) + model.extra_loss()
        (loss / own).backward()
        return loss.item()

    def step():
        adam.zero_grad(set_to_none=ranks == 1)
        for i in range(own):
            with run.no_sync() if ranks > 1 and i < own - 1 else nullcontext():
                loss = micro()
        adam.step()
        return loss

    times, losses = [], []
    for _ in range(o.steps):
        began = time.perf_counter()
        losses.append(step())
        times.append(1e3 * (time.perf_counter() - began))
    if ranks > 1: # all ranks have the same weights
        mine = torch.stack([p.detach().double().sum() for p in model.parameters()]).sum()
        all_of = [torch.zeros_like(mine) for _ in range(ranks)]
        dist.all_gather(all_of, mine)
        assert all(x == mine for x in all_of), "ranks differ"
        dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"ms": times, "tokens": B * T * o.accumulate, "params": twin_models.parameters(model),
                          "loss": losses, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
