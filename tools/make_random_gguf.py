#!/usr/bin/env python3
"""Makes a GGUF file of a Llama with random weights: any shape and type to measure with.

    tools/make_random_gguf.py OUT.gguf [--shape tiny|1b|8b] [--type Q4_0] [--vocab-size N]

Its vocabulary is the 256 bytes, an end token and fillers, its embeddings are tied. Weights are one
random piece of a prime number of blocks over and over, so that rows differ and a large file takes
seconds. The same arguments make the same file. Standard library only.
"""

import argparse
import random
import struct

# Embedding, layers, heads, heads of keys and values, size of a head, feed forward, vocabulary.
SHAPES = {
    "tiny": (256, 2, 4, 2, 64, 768, 512),
    "1b": (2048, 16, 32, 8, 64, 8192, 128256),
    "8b": (4096, 32, 32, 8, 128, 14336, 128256),
}
# Of each type: its number in the format, values and bytes of a block, and where which halves lie in
# it. They make values of about +-0.03.
TYPES = {
    "F32": (0, 1, 4, {}), "F16": (1, 1, 2, {}), "BF16": (30, 1, 2, {}),
    "Q4_0": (2, 32, 18, {0: 0.004}), "Q4_1": (3, 32, 20, {0: 0.004, 2: -0.03}),
    "Q5_0": (6, 32, 22, {0: 0.002}), "Q5_1": (7, 32, 24, {0: 0.002, 2: -0.031}),
    "Q8_0": (8, 32, 34, {0: 0.00025}), "IQ4_NL": (20, 32, 18, {0: 0.00025}),
    "Q2_K": (10, 256, 84, {80: 0.001, 82: 0.0015}), "Q3_K": (11, 256, 110, {108: 0.0003}),
    "Q4_K": (12, 256, 144, {0: 0.0001, 2: 0.0008}), "Q5_K": (13, 256, 176, {0: 0.00005, 2: 0.0008}),
    "Q6_K": (14, 256, 210, {208: 0.00001}), "NVFP4": (40, 64, 36, {}),
    "Q1_0": (41, 128, 18, {0: 0.03}), "Q2_0": (42, 64, 18, {0: 0.015}),
}
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
NORMAL, CONTROL, UNUSED = 1, 3, 5  # kinds of tokens
PIECE_BLOCKS = 4099
ALIGNMENT = 32


def byte_characters():
    """The characters that byte-level BPE writes bytes as: printable ones stand for themselves."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, item):
    if kind == STRING:
        return string(item)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], item)


def entry(key, kind, item):
    if isinstance(item, list):
        return (string(key) + struct.pack("<IIQ", ARRAY, kind, len(item)) +
                b"".join(value(kind, one) for one in item))
    return string(key) + struct.pack("<I", kind) + value(kind, item)


def metadata(shape, vocab_size):
    hidden, layers, heads, kv_heads, head_dim, inter, _ = shape
    tokens = byte_characters() + ["<|endoftext|>"]
    fillers = vocab_size - len(tokens)
    kinds = [NORMAL] * 256 + [CONTROL] + [UNUSED] * fillers
    tokens += [f"<|filler_{i}|>" for i in range(fillers)]
    numbers = {"block_count": layers, "embedding_length": hidden, "feed_forward_length": inter,
               "attention.head_count": heads, "attention.head_count_kv": kv_heads,
               "attention.key_length": head_dim, "attention.value_length": head_dim,
               "rope.dimension_count": head_dim, "context_length": 8192, "vocab_size": vocab_size}
    return [
        entry("general.architecture", STRING, "llama"),
        *(entry("llama." + key, UINT32, number) for key, number in numbers.items()),
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("llama.rope.freq_base", FLOAT32, 500000.0),
        entry("tokenizer.ggml.model", STRING, "gpt2"),
        entry("tokenizer.ggml.pre", STRING, "llama-bpe"),
        entry("tokenizer.ggml.tokens", STRING, tokens),
        entry("tokenizer.ggml.token_type", INT32, kinds),
        entry("tokenizer.ggml.merges", STRING, []),
        entry("tokenizer.ggml.bos_token_id", UINT32, 256),
        entry("tokenizer.ggml.eos_token_id", UINT32, 256),
    ]


def piece(kind, generator):
    """PIECE_BLOCKS random blocks of a type."""
    _, values, size, halves = TYPES[kind]
    if values == 1:
        floats = [generator.uniform(-0.03, 0.03) for _ in range(PIECE_BLOCKS)]
        if kind == "BF16":
            return b"".join(struct.pack("<f", number)[2:] for number in floats)
        return struct.pack(f"<{PIECE_BLOCKS}{'f' if kind == 'F32' else 'e'}", *floats)
    data = bytearray(generator.randbytes(size * PIECE_BLOCKS))
    if kind == "NVFP4":  # four scales of a byte, 3 * 2^-10 each
        for block in range(PIECE_BLOCKS):
            data[block * size:block * size + 4] = bytes([3] * 4)
    for at, half in halves.items():
        packed = struct.pack("<e", half)
        for block in range(PIECE_BLOCKS):
            data[block * size + at:block * size + at + 2] = packed
    return bytes(data)


def tensor_table(shape, vocab_size, kind):
    """(name, type, shape) of every tensor, dimensions as the format has them: innermost first."""
    hidden, layers, heads, kv_heads, head_dim, inter, _ = shape
    rows = [("token_embd.weight", kind, (hidden, vocab_size))]
    for layer in range(layers):
        sizes = {"attn_q": (hidden, heads * head_dim), "attn_k": (hidden, kv_heads * head_dim),
                 "attn_v": (hidden, kv_heads * head_dim), "attn_output": (heads * head_dim, hidden),
                 "ffn_gate": (hidden, inter), "ffn_up": (hidden, inter),
                 "ffn_down": (inter, hidden)}
        for norm in ("attn_norm", "ffn_norm"):
            rows.append((f"blk.{layer}.{norm}.weight", "F32", (hidden,)))
        rows += [(f"blk.{layer}.{name}.weight", kind, size) for name, size in sizes.items()]
    return rows + [("output_norm.weight", "F32", (hidden,))]


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_model(path, shape_name, kind, vocab_size=None):
    shape = SHAPES[shape_name]
    vocab_size = vocab_size or shape[-1]
    entries = metadata(shape, vocab_size)
    tensors = tensor_table(shape, vocab_size, kind)
    generator = random.Random(1)
    pieces = {"weights": piece(kind, generator), "norms": struct.pack("<f", 1.0)}
    with open(path, "wb") as file:
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries)
        offset, sizes = 0, []
        for name, of, dimensions in tensors:
            number, values, block_bytes, _ = TYPES[of]
            count = dimensions[0] * (dimensions[1] if len(dimensions) > 1 else 1)
            sizes.append(count // values * block_bytes)
            head += string(name) + struct.pack("<I", len(dimensions))
            head += struct.pack(f"<{len(dimensions)}QIQ", *dimensions, number, offset)
            offset += sizes[-1] + len(padding(sizes[-1]))
        file.write(head + padding(len(head)))
        for (_, _, dimensions), size in zip(tensors, sizes):
            data = pieces["norms" if len(dimensions) == 1 else "weights"]
            for _ in range(size // len(data)):
                file.write(data)
            file.write(data[:size % len(data)] + padding(size))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--type", choices=TYPES, default="Q4_0")
    parser.add_argument("--vocab-size", type=int, help="that of the shape where not given")
    args = parser.parse_args()
    if args.vocab_size is not None and args.vocab_size < 257:
        parser.error("--vocab-size: bytes and the end token alone are 257")
    write_model(args.out, args.shape, args.type, args.vocab_size)


if __name__ == "__main__":
    main()
