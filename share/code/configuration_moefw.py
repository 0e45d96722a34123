"""The configuration of a model that moefw exported with its own code (moefw export hf --with-code).

`graph` is the model as moefw computes it: one node for each op, in the order of computation.
modeling_moefw.py describes its form and runs it.
"""
from transformers import PretrainedConfig


class MoefwConfig(PretrainedConfig):
    model_type = "moefw"

    def __init__(self, graph=None, vocab_size=256, max_position_embeddings=512, **kwargs):
        self.graph = graph or {}
        self.vocab_size = vocab_size
        self.max_position_embeddings = max_position_embeddings
        kwargs["use_cache"] = False  # the graph computes whole sequences
        kwargs.setdefault("tie_word_embeddings", False)  # the graph names one tensor twice instead
        super().__init__(**kwargs)
