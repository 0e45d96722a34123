"""Runs a model that moefw exported with its own code (moefw export hf --with-code).

config.graph is the model as moefw computes it in evaluation:

    leaves   values that no node computes: {"input": NAME}, {"tensor": NAME} (a parameter or a
             table in model.safetensors), {"number": X} or {"table": [...], "shape", "type"}
    nodes    {"op": NAME, "in": [...], "i": [...], "f": [...], "at": PART OF THE MODEL}
    logits   number of the value that is the result

Values are numbered: first the leaves, then the results of the nodes. A node has as many results
as its op (ops_moefw.py) returns. An input of -1 is absent. i are whole numbers and f real numbers,
whose meaning depends on the op. A number that depends on the batch is a list [a, b, c, d], which is
a + b B + c n + d B n for B sequences of n tokens. Whole numbers are rounded down and are at least 1;
a fifth element is a factor on the result. A real number {"over": list} is 1 over that of the list.

All values are float32 or int32. There is no cache: each call computes whole sequences.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from .configuration_moefw import MoefwConfig
from .ops_moefw import OPS


def function(at, batch, n):
    return at[0] + at[1] * batch + at[2] * n + at[3] * batch * n


def count(number, batch, n):
    """A whole number of the graph, for a batch of sequences of n tokens."""
    if not isinstance(number, list):
        return number
    return max(1, math.floor(function(number, batch, n) + 1e-6)) * (number[4] if len(number) > 4 else 1)


def real(number, batch, n):
    if isinstance(number, dict):
        return 1 / function(number["over"], batch, n)
    return function(number, batch, n) if isinstance(number, list) else number


class Holder(nn.Module):
    """Holds tensors whose names contain dots."""


class MoefwForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = MoefwConfig
    _no_split_modules = []
    _supports_sdpa = False

    def __init__(self, config):
        super().__init__(config)
        for leaf in config.graph.get("leaves", []):
            if "tensor" in leaf and self.find(leaf["tensor"]) is None:
                self.declare(leaf["tensor"], leaf["shape"], leaf.get("fixed", False))
        self.post_init()

    def declare(self, name, shape, fixed):
        *path, last = name.split(".")
        at = self
        for part in path:
            if part not in at._modules:
                at.add_module(part, Holder())
            at = at._modules[part]
        tensor = torch.empty(shape)
        if fixed:
            at.register_buffer(last, tensor)
        else:
            at.register_parameter(last, nn.Parameter(tensor))

    def find(self, name):
        at = self
        for part in name.split("."):
            at = at._modules.get(part, at._parameters.get(part, at._buffers.get(part))) if isinstance(at, nn.Module) else None
        return at

    def _init_weights(self, module):
        pass

    def leaf(self, leaf, inputs, batch, n, device):
        if "input" in leaf:
            return inputs[leaf["input"]]
        if "tensor" in leaf:
            t = self.find(leaf["tensor"])
            return t.float() if t.is_floating_point() else t
        if "number" in leaf:
            return torch.tensor(leaf["number"], dtype=torch.float32, device=device)
        whole = leaf["type"] == "i32"
        values = [count(v, batch, n) if whole else v for v in leaf["table"]]
        shape = [count(v, batch, n) for v in leaf["shape"]]
        return torch.tensor(values, dtype=torch.int32 if whole else torch.float32, device=device).reshape(shape)

    def run(self, ids, position):
        """The logits [B, n, vocabulary] of token ids [B, n]."""
        batch, n = ids.shape
        sequence = torch.arange(batch, device=ids.device)[:, None].expand(batch, n)
        inputs = {
            "tokens": ids.reshape(-1).int(),
            "positions": position.reshape(-1).int(),
            "sequence_ids": sequence.reshape(-1).int(),
            "segments": torch.zeros(batch * n, dtype=torch.int32, device=ids.device),
        }
        graph = self.config.graph
        values = [self.leaf(leaf, inputs, batch, n, ids.device) for leaf in graph["leaves"]]
        for node in graph["nodes"]:
            i = [count(v, batch, n) for v in node.get("i", [])]
            f = [real(v, batch, n) for v in node.get("f", [])]
            i += [0] * (8 - len(i))
            f += [0.0] * (4 - len(f))
            args = [values[v] if v >= 0 else None for v in node.get("in", [])]
            result = OPS[node["op"]](i, f, *args)
            values += result if isinstance(result, tuple) else (result,)
        return values[graph["logits"]].reshape(batch, n, -1)

    def forward(self, input_ids, attention_mask=None, labels=None, position_ids=None, **kwargs):
        """With padding each sequence is computed by itself. Logits of padding are 0."""
        batch, n = input_ids.shape
        device = input_ids.device
        if attention_mask is None or bool(attention_mask.all()):
            logits = self.run(input_ids, torch.arange(n, device=device).expand(batch, n))
        else:
            rows = []
            for b in range(batch):
                used = attention_mask[b].bool()
                own = input_ids[b][used][None]
                row = self.run(own, torch.arange(own.shape[1], device=device)[None])[0]
                full = row.new_zeros(n, row.shape[-1])
                full[used] = row
                rows.append(full)
            logits = torch.stack(rows)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **kwargs):
        return {"input_ids": input_ids, "attention_mask": attention_mask}
