#!/usr/bin/env python3
"""Makes a tokenizer.json of Llama 3's or 4's tokenizer.model, a vocabulary in tiktoken's format.

    pip download --no-deps llama-models==0.3.0      # a zip with llama_models/llama3/tokenizer.model
    tools/tiktoken_to_json.py tokenizer.model tokenizer.json

What comes out is for comparing tokenizers, and is not to be committed: the vocabulary stands under
the model's licence. Control tokens are named <|reserved_special_token_N|>, but for the first two.
"""

import base64
import json
import sys
from pathlib import Path

from make_tokenizer_json_golden import LLAMA3, O200K


def byte_alphabet():
    """GPT-2's: a printable character for each byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept}, **{b: chr(256 + i) for i, b in enumerate(moved)}}


def last_merge(token, ranks):
    """The two tokens that merge into `token`, by merging with the lower ranks."""
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        pairs = [(ranks.get(a + b, len(ranks)), i)
                 for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        rank, i = min(pairs)
        if rank >= ranks[token]:
            return None
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def main():
    source, target = map(Path, sys.argv[1:])
    rows = [line.split() for line in source.read_bytes().splitlines() if line]
    ranks = {base64.b64decode(text): int(rank) for text, rank in rows}
    alphabet = byte_alphabet()

    def spell(token):
        return "".join(alphabet[b] for b in token)

    merges = [last_merge(token, ranks) for token in sorted(ranks, key=ranks.get) if len(token) > 1]
    llama3 = len(ranks) < 150000
    special = ["<|begin_of_text|>", "<|end_of_text|>"]
    special += [f"<|reserved_special_token_{i}|>" for i in range((256 if llama3 else 2048) - 2)]
    tokens = [{"id": len(ranks) + i, "content": text, "special": True, "normalized": False,
               "lstrip": False, "rstrip": False, "single_word": False}
              for i, text in enumerate(special)]
    split = {"type": "Split", "pattern": {"Regex": LLAMA3 if llama3 else O200K},
             "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": False}
    bos = {"id": "<|begin_of_text|>", "ids": [len(ranks)], "tokens": ["<|begin_of_text|>"]}
    target.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": bos["id"], "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos["id"]: bos}},
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": {spell(token): rank for token, rank in ranks.items()},
                  "merges": [list(map(spell, pair)) for pair in merges if pair]},
    }, ensure_ascii=False))


if __name__ == "__main__":
    main()
