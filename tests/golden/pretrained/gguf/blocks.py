#!/usr/bin/env python3
"""blocks.py >blocks.txt: drawn blocks of types of GGUF and their values, by the package gguf (0.19).

One line for each block: the type, its bytes in hexadecimal, and the values as the hexadecimal of f32.
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

rng = np.random.default_rng(20261129)
for name in ("Q4_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4", "Q4_1", "Q5_0", "Q5_1", "Q5_K"):
    elements, size = GGML_QUANT_SIZES[Type[name]]
    for _ in range(3):
        block = rng.integers(0, 256, size, dtype=np.uint8)
        scale = np.frombuffer(rng.normal(0, 0.1, 2).astype(np.float16).tobytes(), np.uint8)
        if name in ("Q4_0", "Q5_0", "Q8_0"):
            block[:2] = scale[:2]
        elif name in ("Q4_1", "Q5_1", "Q4_K", "Q5_K"):
            block[:4] = scale
        elif name == "Q6_K":
            block[-2:] = scale[:2]
        else:
            block[0] = rng.integers(100, 140)
        values = dequantize(block.reshape(1, -1), Type[name]).reshape(-1).astype("<f4")
        print(name, block.tobytes().hex(), values.tobytes().hex())
