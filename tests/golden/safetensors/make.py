"""Writes the files beside it with the reference implementation (pip install safetensors==0.5.3).

Run by hand when the format gains something; the test suite reads the results only.
"""
import os
from safetensors import serialize_file

here = os.path.dirname(os.path.abspath(__file__))
sizes = {
    "BOOL": ("bool", 1), "U8": ("uint8", 1), "I8": ("int8", 1),
    "F8_E5M2": ("float8_e5m2", 1), "F8_E4M3": ("float8_e4m3fn", 1),
    "I16": ("int16", 2), "U16": ("uint16", 2), "F16": ("float16", 2), "BF16": ("bfloat16", 2),
    "I32": ("int32", 4), "U32": ("uint32", 4), "F32": ("float32", 4),
    "F64": ("float64", 8), "I64": ("int64", 8), "U64": ("uint64", 8),
}


def tensor(dtype, shape, start):
    size = sizes[dtype][1]
    for n in shape:
        size *= n
    return {"dtype": sizes[dtype][0], "shape": shape,
            "data": bytes((start + 7 * i) % 251 for i in range(size))}


def write(name, tensors, metadata=None):
    serialize_file(tensors, os.path.join(here, name + ".safetensors"), metadata)


write("dtypes", {"t." + d.lower(): tensor(d, [2, 3], i) for i, d in enumerate(sizes)},
      {"format": "pt"})
write("ranks", {"rank%d" % r: tensor("I16", [1 + i % 2 for i in range(r)], r) for r in range(9)})
write("zero", {"none": tensor("F32", [0], 0), "b": tensor("F32", [3], 1),
               "flat": tensor("I64", [4, 0, 2], 0), "a": tensor("U8", [5], 2)})
write("empty", {}, {"only": "metadata"})
write("names", {"model.layers.0.mlp.experts.1.w1": tensor("BF16", [2, 2], 3),
                "gr\u00fc\u00df \U0001f642": tensor("F16", [1], 4),
                'quote " and \\': tensor("U8", [3], 5)}, {"k\u00e4": 'line\nend "q"'})
