#!/usr/bin/env python3
"""Writes tests/data/fbgemm: matrices as FBGEMM's FP8 checkpoints have them, a linear and Llama 4's
stacks of experts, in model.safetensors; and in golden.safetensors what they mean: the decoded
matrices [out, in], inputs some of whose rows exceed the activations' limit, these as they are
rounded, and the products in float64. Needs numpy, shares no code with octavo."""

import json
import pathlib
import struct

import numpy as np

TARGET = pathlib.Path(__file__).parent.parent / "tests/data/fbgemm"
EXPERTS, HIDDEN, INTER, TOKENS = 3, 48, 20, 6
LIMIT = np.float32(1200)
LARGEST = np.float32(448)


def e4m3_numbers():
    """The number of each code without a sign; the last is NaN."""
    codes = np.arange(127)
    exponent, mantissa = codes >> 3, codes & 7
    return np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))


NUMBERS = e4m3_numbers()


def to_codes(values):
    """To nearest, ties to the even code; beyond the largest number it saturates."""
    magnitude = np.minimum(np.abs(values).astype(np.float64), 448)
    above = np.searchsorted(NUMBERS, magnitude).clip(1, 126)
    low, high = NUMBERS[above - 1], NUMBERS[above]
    middle = (low + high) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (above % 2 == 0))
    return (np.where(up, above, above - 1) | np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def to_numbers(codes):
    return (NUMBERS[codes & 127] * np.where(codes & 128, -1, 1)).astype(np.float32)


def quantize(matrix):
    """Codes and a scale for each row of the last axis but one."""
    scales = (np.abs(matrix).max(-1, keepdims=True) / LARGEST).astype(np.float32)
    return to_codes(matrix / scales), scales


def round_inputs(x):
    largest = np.abs(x).max(-1, keepdims=True)
    scales = np.where(largest == 0, np.float32(1), np.minimum(largest, LIMIT) / LARGEST)
    return to_numbers(to_codes(x / scales)) * scales


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    rng = np.random.default_rng(11)

    def matrix(*shape):
        return rng.normal(0, 0.1, shape).astype(np.float32)

    model, golden = {}, {}
    stacks = {"experts.gate_up_proj": (2 * INTER, HIDDEN), "experts.down_proj": (HIDDEN, INTER)}
    for name, (rows, cols) in stacks.items():
        codes, scales = quantize(matrix(EXPERTS, rows, cols))
        model[name] = ("F8_E4M3", codes.transpose(0, 2, 1))
        across = name.endswith("gate_up_proj")
        model[name + "_scale"] = ("F32", scales.transpose(0, 2, 1) if across else scales)
        golden[name] = ("F32", to_numbers(codes) * scales)
    codes, scales = quantize(matrix(24, HIDDEN))
    model["linear.weight"] = ("F8_E4M3", codes)
    model["linear.weight_scale"] = ("F32", scales)
    golden["linear"] = ("F32", to_numbers(codes) * scales)
    for name, cols in (("hidden", HIDDEN), ("inter", INTER)):
        x = rng.normal(0, 1, (TOKENS, cols)).astype(np.float32)
        x[1] *= 1000  # some values beyond the limit
        x[2, 3] = 1e6
        x[3] = 0
        x[4, ::2] *= 1e-6
        golden[f"{name}.input"] = ("F32", x)
        golden[f"{name}.rounded"] = ("F32", round_inputs(x))
    for name, of in (("experts.gate_up_proj", "hidden"), ("experts.down_proj", "inter"),
                     ("linear", "hidden")):
        rounded = golden[f"{of}.rounded"][1].astype(np.float64)
        product = rounded @ golden[name][1].astype(np.float64).swapaxes(-1, -2)
        golden[f"{name}.product"] = ("F32", product.astype(np.float32))
    TARGET.mkdir(exist_ok=True)
    write_safetensors(TARGET / "model.safetensors", model)
    write_safetensors(TARGET / "golden.safetensors", golden)


if __name__ == "__main__":
    main()
