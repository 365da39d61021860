#!/usr/bin/env python3
"""Writes tests/data/blocks/blocks.bin: blocks of every quantised type of GGUF with random bytes and
extreme scales, and their values as the Python package `gguf` (pip install gguf) decodes them, or,
where it cannot, llama.cpp's libggml-base.so, whose path is the argument. Neither shares code with
octavo. For each type: its id and the number of blocks (two little-endian 32-bit words), the blocks,
the values as 32-bit floats."""

import argparse
import ctypes
import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

TARGET = pathlib.Path(__file__).parent.parent / "tests/data/blocks/blocks.bin"

# Where a block has its scales (IEEE halves).
SCALES = {
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q8_0: [0],
    Type.Q2_K: [80, 82],
    Type.Q3_K: [108],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
    Type.IQ4_NL: [0],
    Type.IQ4_XS: [0],
    Type.IQ3_S: [0],
    Type.IQ3_XXS: [0],
    Type.IQ2_S: [0],
    Type.IQ2_XS: [0],
    Type.IQ2_XXS: [0],
    Type.IQ1_S: [0],
    Type.IQ1_M: [],
    Type.TQ2_0: [64],
    Type.TQ1_0: [52],
    Type.MXFP4: [],
}
# What the library decodes: its name there, id, values and bytes of a block, where its scales are.
LIBRARY_TYPES = [
    ("nvfp4", 40, 64, 36, []),
    ("q1_0", 41, 128, 18, [0]),
    ("q2_0", 42, 64, 18, [0]),
]


def random_half(rng):
    return int(np.array(rng.normal() / 16, dtype=np.float16).view(np.uint16))


def scale_pairs(rng):
    """Scale and minimum of each block: random ones, subnormals, the largest, infinity."""
    halves = [random_half(rng) for _ in range(5)]
    return [
        (0x0000, 0x8000),
        (halves[0], 0x0000),
        (halves[1], halves[2]),
        (0x8001, halves[3]),
        (halves[4], 0x03FF),
        (0x7BFF, 0xFBFF),
        (0x7C00, 0x7C00),
    ]


def set_iq1_m_scale(block, half):
    for i in range(4):
        high = 48 + 2 * i + 1
        block[high] = block[high] & 0x0F | (half >> 4 * i & 15) << 4


def make_blocks(kind, rng):
    pairs = scale_pairs(rng)
    blocks = rng.integers(0, 256, [len(pairs), gguf.GGML_QUANT_SIZES[kind][1]], dtype=np.uint8)
    blocks[1] = 255
    for i, (block, halves) in enumerate(zip(blocks, pairs)):
        for at, half in zip(SCALES[kind], halves):
            block[at : at + 2] = list(struct.pack("<H", half))
        if kind == Type.IQ1_M:
            set_iq1_m_scale(block, halves[0])
        if kind == Type.MXFP4:
            block[0] = [0, 1, 2, 100, 127, 128, 254][i]
    return blocks


def make_library_blocks(name, block_bytes, scales, rng):
    pairs = scale_pairs(rng)
    blocks = rng.integers(0, 256, [len(pairs), block_bytes], dtype=np.uint8)
    blocks[1] = 255
    for i, (block, halves) in enumerate(zip(blocks, pairs)):
        for at, half in zip(scales, halves):
            block[at : at + 2] = list(struct.pack("<H", half))
    if name == "nvfp4":  # zeros and subnormals, the smallest normal, the largest, what is NaN
        blocks[0, :4] = [0, 1, 7, 8]
        blocks[2, :4] = [0x7E, 0x7F, 0x80, 0x38]
    return blocks


def decode_with_library(library, name, blocks, block_values):
    values = np.zeros(len(blocks) * block_values, dtype=np.float32)
    decode = getattr(library, f"dequantize_row_{name}")
    decode.restype = None
    decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    decode(blocks.ctypes.data, values.ctypes.data, values.size)
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="libggml-base.so of llama.cpp")
    library = ctypes.CDLL(parser.parse_args().library)
    rng = np.random.default_rng(7)
    out = b""
    for kind in SCALES:
        blocks = make_blocks(kind, rng)
        with np.errstate(all="ignore"):
            values = quants.dequantize(blocks, kind)
        out += struct.pack("<II", int(kind), len(blocks))
        out += blocks.tobytes() + values.astype("<f4").tobytes()
    for name, number, block_values, block_bytes, scales in LIBRARY_TYPES:
        blocks = make_library_blocks(name, block_bytes, scales, rng)
        values = decode_with_library(library, name, blocks, block_values)
        out += struct.pack("<II", number, len(blocks))
        out += blocks.tobytes() + values.astype("<f4").tobytes()
    TARGET.write_bytes(out)


if __name__ == "__main__":
    main()
