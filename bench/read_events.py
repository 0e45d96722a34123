"""Reads RUN/tensorboard with TensorBoard's own reader and compares it with metrics.jsonl.

    python3 bench/read_events.py RUN        (pip install tensorboard)

Prints one line per split, and fails where a number, step or histogram differs."""
import glob
import json
import os
import sys

import numpy as np
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.util import tensor_util


def flat(prefix, value, out):
    """The numbers of a record, named as in `moefw export`, without arrays of numbers."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("step", "layer"):
                flat(prefix + "." + key if prefix else key, inner, out)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict) and "layer" in inner and prefix == "moe":
                flat("%s.%d" % (prefix, inner["layer"]), inner, out)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        out[prefix] = value
    return out


def main(run):
    records = {}
    for line in open(os.path.join(run, "metrics.jsonl")):
        record = json.loads(line)
        records.setdefault(record["split"], {})[record["step"]] = record
    compared = 0
    for split, steps in sorted(records.items()):
        folder = os.path.join(run, "tensorboard", split)
        acc = plugin_event_accumulator.EventAccumulator(folder, tensor_size_guidance={"scalars": 0, "histograms": 0})
        acc.Reload()
        seen = set()
        for tag in acc.Tags()["tensors"]:
            plugin = acc.SummaryMetadata(tag).plugin_data.plugin_name
            name = tag.replace("/", ".", 1)
            for event in acc.Tensors(tag):
                value = tensor_util.make_ndarray(event.tensor_proto)
                if plugin == "text":
                    assert b"[model]" in value.item(), tag
                    continue
                record = steps[event.step]
                if plugin == "histograms":
                    layer = next(m for m in record["moe"] if name == "moe.%d.load" % m["layer"])
                    assert np.allclose(value[:, 2], layer["load"], atol=1e-6), (tag, event.step)
                    assert np.array_equal(value[:, 0], np.arange(len(value))), tag
                else:
                    assert plugin == "scalars", (tag, plugin)
                    want = flat("", record, {})[name]
                    assert np.isclose(value, want, rtol=1e-6, atol=0), (tag, event.step, value, want)
                    seen.add((event.step, name))
                compared += 1
        want = {(s, n) for s, r in steps.items() for n in flat("", r, {})
                if n.split(".")[0] not in ("turns", "heads") and n not in
                ("rows", "params_active") and "efficiency" not in n}
        missing = sorted({n for s, n in want - seen})
        print("%s: %d files, %d steps, %d tags; not in TensorBoard: %s"
              % (split, len(glob.glob(folder + "/*")), len(steps), len(acc.Tags()["tensors"]),
                 ", ".join(missing) or "nothing"))
    print("%d values agree" % compared)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
