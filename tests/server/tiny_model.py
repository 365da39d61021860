"""Makes a tiny Llama with random weights and the vocabulary of tests/data/smollm2/vocab.gguf."""

import random
import struct

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED_FORWARD, CONTEXT = 64, 2, 4, 2, 96, 2048
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of GGUF's scalars
UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def string(self):
        return self.take(self.number("Q"))

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element == STRING:
                for _ in range(count):
                    self.string()
            else:
                self.take(SIZES[element] * count)
        else:
            self.take(SIZES[kind])


def read_metadata(path):
    """Key to the bytes of type and value."""
    with open(path, "rb") as file:
        reader = Reader(file.read())
    assert reader.take(4) == b"GGUF"
    reader.number("I")
    reader.number("Q")
    metadata = {}
    for _ in range(reader.number("Q")):
        key = reader.string().decode()
        begin = reader.at
        reader.skip_value(reader.number("I"))
        metadata[key] = reader.data[begin:reader.at]
    return metadata


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def q8_0(generator, count):
    """Blocks of 32 values of about 1/8."""
    scale = struct.pack("<e", 1 / 1024)
    raw = generator.randbytes(count)
    return b"".join(scale + raw[i:i + 32] for i in range(0, count, 32))


def write_tiny_model(path, vocab_path, idle_layers=0):
    """Further `idle_layers` add zero to what passes: the same model, but slower."""
    metadata = read_metadata(vocab_path)
    u32 = {"block_count": LAYERS + idle_layers, "embedding_length": HIDDEN,
           "feed_forward_length": FEED_FORWARD, "attention.head_count": HEADS,
           "attention.head_count_kv": KV_HEADS, "context_length": CONTEXT,
           "rope.dimension_count": HIDDEN // HEADS,
           "attention.key_length": HIDDEN // HEADS, "attention.value_length": HIDDEN // HEADS}
    for key, value in u32.items():
        metadata["llama." + key] = struct.pack("<II", UINT32, value)
    tokens = Reader(metadata["tokenizer.ggml.tokens"])
    tokens.take(8)  # the types of the array and of its elements
    vocab_size = tokens.number("Q")
    metadata["llama.vocab_size"] = struct.pack("<II", UINT32, vocab_size)

    generator = random.Random(1)
    tensors = []

    def matrix(name, rows, columns, idle=False):
        count = rows * columns
        data = bytes(count // 32 * 34) if idle else q8_0(generator, count)
        tensors.append((name, 8, (columns, rows), data))

    def norm(name):
        tensors.append((name, 0, (HIDDEN,), struct.pack("<f", 1.5) * HIDDEN))

    kv_size = HIDDEN // HEADS * KV_HEADS
    matrix("token_embd.weight", vocab_size, HIDDEN)
    for layer in range(LAYERS + idle_layers):
        idle = layer >= LAYERS
        at = f"blk.{layer}."
        norm(at + "attn_norm.weight")
        matrix(at + "attn_q.weight", HIDDEN, HIDDEN)
        matrix(at + "attn_k.weight", kv_size, HIDDEN)
        matrix(at + "attn_v.weight", kv_size, HIDDEN)
        matrix(at + "attn_output.weight", HIDDEN, HIDDEN, idle)
        norm(at + "ffn_norm.weight")
        matrix(at + "ffn_gate.weight", FEED_FORWARD, HIDDEN)
        matrix(at + "ffn_up.weight", FEED_FORWARD, HIDDEN)
        matrix(at + "ffn_down.weight", HIDDEN, FEED_FORWARD, idle)
    norm("output_norm.weight")

    with open(path, "wb") as file:
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
        head += b"".join(string(key) + value for key, value in metadata.items())
        offset = 0
        for name, kind, shape, data in tensors:
            head += string(name) + struct.pack("<I", len(shape))
            head += b"".join(struct.pack("<Q", size) for size in shape)
            head += struct.pack("<IQ", kind, offset)
            offset += -(-len(data) // 32) * 32
        file.write(head + b"\0" * (-len(head) % 32))
        for _, _, _, data in tensors:
            file.write(data + b"\0" * (-len(data) % 32))
