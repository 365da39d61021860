#!/usr/bin/env python3
"""Writes all_types.gguf, a file with a metadata value and a tensor of every type, and
all_types.json, what it holds. Both come from the Python package `gguf` (of llama.cpp, with Q2_0), which
shares no code with octavo; the JSON is what that package's reader sees in the file."""

import json
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as TensorType
from gguf import GGUFValueType as ValueType

HERE = pathlib.Path(__file__).parent

SCALARS = [
    ("u8", ValueType.UINT8, 255),
    ("i8", ValueType.INT8, -128),
    ("u16", ValueType.UINT16, 65535),
    ("i16", ValueType.INT16, -32768),
    ("u32", ValueType.UINT32, 4294967295),
    ("i32", ValueType.INT32, -2147483648),
    ("f32", ValueType.FLOAT32, 0.1),
    ("bool", ValueType.BOOL, True),
    ("string", ValueType.STRING, "häßlich 😀"),
    ("u64", ValueType.UINT64, 18446744073709551615),
    ("i64", ValueType.INT64, -9223372036854775808),
    ("f64", ValueType.FLOAT64, 0.1),
]
ARRAYS = [
    ("u8", ValueType.UINT8, [0, 255]),
    ("i8", ValueType.INT8, [-128, 127]),
    ("u16", ValueType.UINT16, [0, 65535]),
    ("i16", ValueType.INT16, [-32768, 32767]),
    ("u32", ValueType.UINT32, [0, 4294967295]),
    ("i32", ValueType.INT32, [-2147483648, 2147483647]),
    ("f32", ValueType.FLOAT32, [0.25, -1e30, 1e-40]),
    ("bool", ValueType.BOOL, [True, False, True]),
    ("string", ValueType.STRING, ["", "a", "a string of more than one word"]),
    ("u64", ValueType.UINT64, [0, 18446744073709551615]),
    ("i64", ValueType.INT64, [-1, 9223372036854775807]),
    ("f64", ValueType.FLOAT64, [1e300, -5e-324]),
]
# Name, type, shape with the outermost dimension first.
TENSORS = [
    ("f32", TensorType.F32, [3]),
    ("f16", TensorType.F16, [2, 3]),
    ("bf16", TensorType.BF16, [2, 5]),
    ("f64", TensorType.F64, [1, 2, 3]),
    ("i8", TensorType.I8, [2, 1, 3, 5]),
    ("i16", TensorType.I16, [7]),
    ("i32", TensorType.I32, [7]),
    ("i64", TensorType.I64, [7]),
    ("q4_0", TensorType.Q4_0, [3, 64]),
    ("q4_1", TensorType.Q4_1, [2, 32]),
    ("q5_0", TensorType.Q5_0, [2, 2, 32]),
    ("q5_1", TensorType.Q5_1, [32]),
    ("q8_0", TensorType.Q8_0, [5, 32]),
    ("q2_k", TensorType.Q2_K, [1, 256]),
    ("q3_k", TensorType.Q3_K, [2, 256]),
    ("q4_k", TensorType.Q4_K, [512]),
    ("q5_k", TensorType.Q5_K, [1, 256]),
    ("q6_k", TensorType.Q6_K, [1, 256]),
    ("iq4_nl", TensorType.IQ4_NL, [3, 32]),
    ("iq4_xs", TensorType.IQ4_XS, [1, 256]),
    ("iq3_s", TensorType.IQ3_S, [1, 256]),
    ("iq3_xxs", TensorType.IQ3_XXS, [1, 256]),
    ("iq2_s", TensorType.IQ2_S, [1, 256]),
    ("iq2_xs", TensorType.IQ2_XS, [1, 256]),
    ("iq2_xxs", TensorType.IQ2_XXS, [1, 256]),
    ("iq1_m", TensorType.IQ1_M, [1, 256]),
    ("iq1_s", TensorType.IQ1_S, [1, 256]),
    ("tq2_0", TensorType.TQ2_0, [1, 256]),
    ("tq1_0", TensorType.TQ1_0, [1, 256]),
    ("mxfp4", TensorType.MXFP4, [2, 64]),
    ("nvfp4", TensorType.NVFP4, [2, 64]),
    ("q1_0", TensorType.Q1_0, [1, 128]),
    ("q2_0", TensorType.Q2_0, [3, 64]),
]


def write(path):
    writer = gguf.GGUFWriter(path, "golden")
    writer.add_custom_alignment(64)
    for name, kind, value in SCALARS:
        writer.add_key_value(f"scalar.{name}", value, kind)
    for name, kind, value in ARRAYS:
        writer.add_key_value(f"array.{name}", value, ValueType.ARRAY, sub_type=kind)
    rng = np.random.default_rng(1)
    for name, kind, shape in TENSORS:
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        row_bytes = shape[-1] // block * block_bytes
        data = rng.integers(0, 256, shape[:-1] + [row_bytes], dtype=np.uint8)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def type_name(types):
    names = [t.name.lower().replace("uint", "u").replace("float", "f") for t in types]
    names = [n.replace("int", "i") if n.startswith("int") else n for n in names]
    return names[0] if len(names) == 1 else f"{names[0]}[{names[1]}]"


def describe(path):
    reader = gguf.GGUFReader(path)
    metadata = {
        key: {"type": type_name(field.types), "value": field.contents()}
        for key, field in reader.fields.items()
        if not key.startswith("GGUF.")
    }
    tensors = [
        {
            "name": t.name,
            "type": t.tensor_type.name,
            "shape": [int(n) for n in reversed(t.shape)],
            "offset": int(t.data_offset),
            "bytes": int(t.n_bytes),
            "sum": int(np.frombuffer(t.data.tobytes(), dtype=np.uint8).sum(dtype=np.uint64)),
        }
        for t in reader.tensors
    ]
    return {"metadata": metadata, "tensors": tensors}


if __name__ == "__main__":
    write(HERE / "all_types.gguf")
    golden = describe(HERE / "all_types.gguf")
    (HERE / "all_types.json").write_text(json.dumps(golden, indent=1) + "\n")
