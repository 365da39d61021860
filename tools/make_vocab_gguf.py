#!/usr/bin/env python3
"""Makes a vocabulary-only GGUF file: all metadata of a model file, none of its tensors.

    tools/make_vocab_gguf.py MODEL.gguf VOCAB.gguf

Nothing is interpreted: the keys and values are copied byte for byte, and the header says that there
are no tensors. Standard library only.
"""

import struct
import sys

HEADER = struct.Struct("<4sIQQ")  # magic, version, tensors, keys
SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


def read_exactly(file, size):
    data = file.read(size)
    if len(data) != size:
        raise SystemExit("the file ends within its metadata")
    return data


def copy_string(file):
    length = read_exactly(file, 8)
    return length + read_exactly(file, int.from_bytes(length, "little"))


def copy_value(file, kind):
    if kind == STRING:
        return copy_string(file)
    if kind == ARRAY:
        head = read_exactly(file, 12)
        element, count = struct.unpack("<IQ", head)
        if element == STRING:
            return head + b"".join(copy_string(file) for _ in range(count))
        return head + read_exactly(file, count * SCALAR_BYTES[element])
    return read_exactly(file, SCALAR_BYTES[kind])


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], "rb") as model:
        magic, version, _, keys = HEADER.unpack(read_exactly(model, HEADER.size))
        if magic != b"GGUF" or version not in (2, 3):
            raise SystemExit(f"{sys.argv[1]} is no GGUF file of version 2 or 3")
        parts = [HEADER.pack(magic, version, 0, keys)]
        for _ in range(keys):
            parts.append(copy_string(model))
            kind = read_exactly(model, 4)
            parts += [kind, copy_value(model, int.from_bytes(kind, "little"))]
    with open(sys.argv[2], "wb") as vocabulary:
        vocabulary.write(b"".join(parts))


if __name__ == "__main__":
    main()
