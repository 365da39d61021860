#!/usr/bin/env python3
"""Opening and inspecting a checkpoint of 16 GB reads its headers alone: less than a second and less
than 200 MB, as safetensors and as GGUF. The files are sparse. inspect_large_test.py OCTAVO"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import time

LAYERS, HIDDEN, INTER, HEADS, KV_HEADS, VOCAB = 32, 4096, 14336, 32, 8, 128256
KV = HIDDEN // HEADS * KV_HEADS
NAMES = {  # Hugging Face's name: (GGUF's, shape)
    "input_layernorm": ("attn_norm", [HIDDEN]),
    "self_attn.q_proj": ("attn_q", [HIDDEN, HIDDEN]),
    "self_attn.k_proj": ("attn_k", [KV, HIDDEN]),
    "self_attn.v_proj": ("attn_v", [KV, HIDDEN]),
    "self_attn.o_proj": ("attn_output", [HIDDEN, HIDDEN]),
    "post_attention_layernorm": ("ffn_norm", [HIDDEN]),
    "mlp.gate_proj": ("ffn_gate", [INTER, HIDDEN]),
    "mlp.up_proj": ("ffn_up", [INTER, HIDDEN]),
    "mlp.down_proj": ("ffn_down", [HIDDEN, INTER]),
}


def tensors():
    yield "model.embed_tokens", "token_embd", [VOCAB, HIDDEN]
    for i in range(LAYERS):
        for hf, (gguf, shape) in NAMES.items():
            yield f"model.layers.{i}.{hf}", f"blk.{i}.{gguf}", shape
    yield "model.norm", "output_norm", [HIDDEN]
    yield "lm_head", "output", [VOCAB, HIDDEN]


def count(shape):
    return shape[0] * (shape[1] if len(shape) == 2 else 1)


def write_safetensors(folder):
    os.mkdir(folder)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
              "intermediate_size": INTER, "num_hidden_layers": LAYERS, "vocab_size": VOCAB,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5,
              "rope_theta": 500000.0, "max_position_embeddings": 8192, "hidden_act": "silu",
              "tie_word_embeddings": False}
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    header, offset = {}, 0
    for name, _, shape in tensors():
        end = offset + 2 * count(shape)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    return folder


def write_gguf(path):
    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()

    u32, f32 = 4, 6
    numbers = {"block_count": LAYERS, "embedding_length": HIDDEN, "feed_forward_length": INTER,
               "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
               "context_length": 8192, "vocab_size": VOCAB}
    metadata = string("general.architecture") + struct.pack("<I", 8) + string("llama")
    for key, value in numbers.items():
        metadata += string("llama." + key) + struct.pack("<II", u32, value)
    floats = {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 500000.0}
    for key, value in floats.items():
        metadata += string("llama." + key) + struct.pack("<If", f32, value)
    infos, offset, num_tensors = b"", 0, 0
    for _, name, shape in tensors():
        kind, size = (1, 2) if len(shape) == 2 else (0, 4)  # F16, F32
        infos += string(name + ".weight") + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        infos += struct.pack("<IQ", kind, offset)
        offset += (count(shape) * size + 31) // 32 * 32
        num_tensors += 1
    head = b"GGUF" + struct.pack("<IQQ", 3, num_tensors, 1 + len(numbers) + len(floats))
    head += metadata + infos
    with open(path, "wb") as file:
        file.write(head)
        file.truncate((len(head) + 31) // 32 * 32 + offset)
    return path


def main(octavo):
    with tempfile.TemporaryDirectory() as folder:
        for path in (write_safetensors(folder + "/hf"), write_gguf(folder + "/m.gguf")):
            best_s, peak_bytes = float("inf"), 0
            for _ in range(3):
                begin = time.monotonic()
                child = subprocess.Popen([octavo, "inspect", path, "--json"],
                                         stdout=subprocess.PIPE)
                output = child.stdout.read()
                _, status, usage = os.wait4(child.pid, 0)
                best_s = min(best_s, time.monotonic() - begin)
                peak_bytes = max(peak_bytes, usage.ru_maxrss * 1024)
                assert status == 0, path
            use = json.loads(output)["use"]
            weights = use.get("memory", {}).get("weight_bytes", 0)
            print(f"{os.path.basename(path)}: {weights / 1e9:.1f} GB of weights, {best_s:.2f} s, "
                  f"peak {peak_bytes / 1e6:.0f} MB")
            assert use["runs"], use
            assert weights > 16e9, use
            assert use["memory"]["kv_bytes_per_token"] == 2 * 2 * LAYERS * KV, use
            assert best_s < 1 and peak_bytes < 200e6, (best_s, peak_bytes)


if __name__ == "__main__":
    main(sys.argv[1])
