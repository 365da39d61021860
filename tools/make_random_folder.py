#!/usr/bin/env python3
"""Makes a Hugging Face folder of a Llama with random quantised weights: something to measure with.

    tools/make_random_folder.py FOLDER [--shape tiny|1b|8b]
                                [--scheme channel|tensor|block|awq|none]

E4M3 with a scale for each row, matrix or 128 x 128 values and inputs rounded as they come; `awq`:
AWQ's int4 in groups of 128; or, with `none`, bfloat16 throughout. Embeddings are tied and bfloat16;
there is no tokenizer. Weights are one random piece over and over, so that rows differ and a large
file takes seconds. The same arguments make the same folder. Standard library only.
"""

import argparse
import json
import os
import random
import struct

from make_random_gguf import SHAPES

AWQ_GROUP = 128
PIECE_VALUES = 4099 * 16 + 3  # an odd number: no two rows begin alike
WEIGHTS = {"type": "float", "num_bits": 8, "symmetric": True, "dynamic": False}
INPUTS = {"type": "float", "num_bits": 8, "symmetric": True, "dynamic": True, "strategy": "token"}


def config(shape, scheme):
    hidden, layers, heads, kv_heads, head_dim, inter, vocab_size = shape
    result = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": head_dim, "intermediate_size": inter, "vocab_size": vocab_size,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "bos_token_id": 1, "eos_token_id": 2,
    }
    if scheme == "block":
        result["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic",
                                         "weight_block_size": [128, 128]}
    elif scheme == "awq":
        result["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": AWQ_GROUP,
                                         "zero_point": True, "version": "gemm"}
    elif scheme != "none":
        group = {"targets": ["Linear"], "weights": WEIGHTS | {"strategy": scheme},
                 "input_activations": INPUTS}
        result["quantization_config"] = {
            "quant_method": "compressed-tensors", "format": "float-quantized",
            "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": group}}
    return result


def linears(shape):
    """(name, rows, columns) of the matrices of a layer."""
    hidden, _, heads, kv_heads, head_dim, inter, _ = shape
    return [("self_attn.q_proj", heads * head_dim, hidden),
            ("self_attn.k_proj", kv_heads * head_dim, hidden),
            ("self_attn.v_proj", kv_heads * head_dim, hidden),
            ("self_attn.o_proj", hidden, heads * head_dim), ("mlp.gate_proj", inter, hidden),
            ("mlp.up_proj", inter, hidden), ("mlp.down_proj", hidden, inter)]


def awq_linear(name, rows, cols):
    """(name, type, shape) of what AWQ stores of a matrix."""
    groups = cols // AWQ_GROUP
    return [(f"{name}.qweight", "I32", [cols, rows // 8]),
            (f"{name}.qzeros", "I32", [groups, rows // 8]),
            (f"{name}.scales", "F16", [groups, rows])]


def scale_of(rows, cols, scheme):
    """(suffix, shape) of a matrix's scales."""
    if scheme == "block":
        return "weight_scale_inv", [-(-rows // 128), -(-cols // 128)]
    return "weight_scale", [rows, 1] if scheme == "channel" else [1]


def tensors(shape, scheme):
    """(name, type, shape) of every tensor."""
    hidden, layers, _, _, _, _, vocab_size = shape
    rows = [("model.embed_tokens.weight", "BF16", [vocab_size, hidden]),
            ("model.norm.weight", "F32", [hidden])]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        rows += [(f"{at}{norm}.weight", "F32", [hidden])
                 for norm in ("input_layernorm", "post_attention_layernorm")]
        for name, out, inner in linears(shape):
            if scheme == "awq":
                rows += awq_linear(at + name, out, inner)
                continue
            kind = "BF16" if scheme == "none" else "F8_E4M3"
            rows.append((f"{at}{name}.weight", kind, [out, inner]))
            if scheme != "none":
                suffix, scales = scale_of(out, inner, scheme)
                rows.append((f"{at}{name}.{suffix}", "F32", scales))
    return rows


def pieces():
    """By type, what a tensor is filled with. Codes are of magnitudes below 2."""
    generator = random.Random(1)
    floats = [generator.uniform(-0.03, 0.03) for _ in range(PIECE_VALUES)]
    codes = bytes(byte & 0xBF for byte in generator.randbytes(PIECE_VALUES))
    return {"BF16": b"".join(struct.pack("<f", number)[2:] for number in floats), "F8_E4M3": codes,
            "I32": generator.randbytes(4 * PIECE_VALUES), "F16": struct.pack("<e", 0.003)}


def fill_of(name, kind, known):
    if kind != "F32":
        return known[kind]
    return struct.pack("<f", 0.03 if "_scale" in name else 1.0)


def write_tensors(path, rows):
    sizes = {"F32": 4, "I32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1}
    header, offset, counts = {}, 0, []
    for name, kind, shape in rows:
        size = sizes[kind]
        for extent in shape:
            size *= extent
        counts.append(size)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    known = pieces()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for (name, kind, _), size in zip(rows, counts):
            data = fill_of(name, kind, known)
            data *= min(size, 1 << 22) // len(data) + 1
            for _ in range(size // len(data)):
                file.write(data)
            file.write(data[:size % len(data)])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--scheme", choices=["channel", "tensor", "block", "awq", "none"],
                        default="channel")
    args = parser.parse_args()
    shape = SHAPES[args.shape]
    os.makedirs(args.folder, exist_ok=True)
    with open(os.path.join(args.folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config(shape, args.scheme), file, indent=1)
    write_tensors(os.path.join(args.folder, "model.safetensors"), tensors(shape, args.scheme))


if __name__ == "__main__":
    main()
