#!/usr/bin/env python3
"""Widens a Llama in float32 (GGUF) until its rows are whole blocks of 256 values.

    tools/widen_llama.py IN.gguf OUT.gguf

What the model computes stays as it is: the hidden values and heads that come in addition are zero,
and norms, which divide by the number of hidden values, have weights that make up for them. Block
types of 256 values can then be tried on small models. Standard library only.
"""

import array
import math
import struct
import sys

BLOCK = 256
STRING, ARRAY, F32 = 8, 9, 0
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
ALIGNMENT = 32


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, code):
        value, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return bytes(self.data[self.at - size:self.at]).decode()

    def skip_value(self, kind):
        """Goes past a value; a plain number is returned."""
        if kind in FORMATS:
            return self.number(FORMATS[kind])
        if kind == STRING:
            size = self.number("Q")
            self.at += size
            return None
        of, count = self.number("I"), self.number("Q")
        for _ in range(count):
            self.skip_value(of)
        return None


def read(data):
    """({key: (bytes, where in them the value begins, kind, number)}, {name: (shape, values)})"""
    reader = Reader(data)
    if data[:4] != b"GGUF" or struct.unpack_from("<I", data, 4)[0] != 3:
        sys.exit("not a GGUF file of version 3")
    reader.at = 8
    num_tensors, num_keys = reader.number("Q"), reader.number("Q")
    entries, tensors = {}, {}
    for _ in range(num_keys):
        begin, key = reader.at, reader.text()
        kind, value_at = reader.number("I"), reader.at
        number = reader.skip_value(kind)
        entries[key] = (data[begin:reader.at], value_at - begin, kind, number)
    infos = []
    for _ in range(num_tensors):
        name = reader.text()
        shape = [reader.number("Q") for _ in range(reader.number("I"))]
        kind, offset = reader.number("I"), reader.number("Q")
        if kind != F32:
            sys.exit(f"{name}: only float32 can be widened")
        infos.append((name, shape, offset))
    start = -(-reader.at // ALIGNMENT) * ALIGNMENT
    for name, shape, offset in infos:
        begin = start + offset
        tensors[name] = (shape, memoryview(data)[begin:begin + 4 * math.prod(shape)])
    return entries, tensors


def padded(shape, values, new_shape):
    """Rows of zeros behind the rows, zeros behind the values of each."""
    cols, new_cols = shape[0], new_shape[0]
    gap = bytes(4 * (new_cols - cols))
    for row in range(shape[1]):
        yield values[4 * cols * row:4 * cols * (row + 1)]
        yield gap
    yield bytes(4 * new_cols * (new_shape[1] - shape[1]))


def widen(source, target):
    with open(source, "rb") as file:
        entries, tensors = read(file.read())
    number = {key.removeprefix("llama."): entry[3] for key, entry in entries.items()}
    hidden, heads = number["embedding_length"], number["attention.head_count"]
    kv_heads = number.get("attention.head_count_kv", heads)
    head_dim = hidden // heads
    # Whole groups of heads that share one of keys and values.
    new_kv_heads = kv_heads
    while new_kv_heads * hidden // kv_heads % BLOCK != 0:
        new_kv_heads += 1
    new_heads = heads // kv_heads * new_kv_heads
    wide = new_heads * head_dim
    new = {"embedding_length": wide, "attention.head_count": new_heads,
           "attention.head_count_kv": new_kv_heads,
           "attention.layer_norm_rms_epsilon":
               number["attention.layer_norm_rms_epsilon"] * hidden / wide}
    sizes = {"attn_q": (wide, wide), "attn_k": (wide, new_kv_heads * head_dim),
             "attn_v": (wide, new_kv_heads * head_dim), "attn_output": (wide, wide)}
    keys = []
    for key, (data, value_at, kind, _) in entries.items():
        if key.removeprefix("llama.") in new:
            data = data[:value_at] + struct.pack("<" + FORMATS[kind], new[key[len("llama."):]])
        keys.append(data)
    head, offset, shapes = b"", 0, {}
    for name, (shape, _) in tensors.items():
        part = name.split(".")[-2]
        shapes[name] = sizes.get(part, tuple(wide if size == hidden else size for size in shape))
        head += struct.pack("<Q", len(name)) + name.encode()
        head += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shapes[name], F32, offset)
        offset += -(-4 * math.prod(shapes[name]) // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + head
    with open(target, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT))
        for name, (shape, values) in tensors.items():
            if len(shape) == 1:
                scale = math.sqrt(hidden / wide)
                weights = array.array("f", (scale * x for x in values.cast("f")))
                file.write(weights.tobytes() + bytes(4 * (wide - hidden)))
            else:
                file.writelines(padded(shape, values, shapes[name]))
            file.write(bytes(-file.tell() % ALIGNMENT))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    widen(*sys.argv[1:])
