#!/usr/bin/env python3
"""Compares octavo's ids with those of Hugging Face's `tokenizers` for random texts.

    pip install tokenizers==0.23.3
    tools/compare_tokenizers.py TOKENIZER_JSON... [--count N] [--first I]
    tools/compare_tokenizers.py --golden [--count N]

TOKENIZER_JSON  any tokenizer.json
--golden        the kinds of KINDS, made of the vocabularies in tests/data/tokenizer_json
--write         write tests/data/tokenizer_json/hashes.json: one hash for each 100 texts and kind

Exits with 1 and shows the first differences where there are any. Texts that are not UTF-8 are not
for the package to judge: octavo only must survive them.
"""

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

from tokenizer_texts import PARTS, RANGES, random_text

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "tokenizer_json"
BATCH = 100

# Names of cases in cases.json and spelled_cases.json.
KINDS = ["pre_byte_level", "pre_split_llama3", "pre_split_qwen2", "pre_split_o200k",
         "pre_split_tekken", "pre_split_qwen35", "pre_deepseek_v3", "norm_nfkc", "llama2_legacy",
         "llama2", "gemma", "unk_each", "some_bytes_fused", "unigram", "unigram_bytes", "t5"]


def golden_files():
    def read(name):
        return json.loads((DATA / name).read_text())

    shared, models = read("vocab.json"), read("spelled_models.json")
    found = {}
    for case in read("cases.json") + read("spelled_cases.json"):
        model = models[case["model"]] if "model" in case else shared
        case["tokenizer"]["model"].update(model)
        found[case["name"]] = case["tokenizer"]
    return {kind: found[kind] for kind in KINDS}


def pack(texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def octavo_ids(program, tokenizer_json, texts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts")
        path.write_bytes(pack(texts))
        out = subprocess.run([program, tokenizer_json, path, "ids"], check=True,
                             stdout=subprocess.PIPE).stdout
    rows, pos = [], 0
    while pos < len(out):
        count, = struct.unpack_from("<I", out, pos)
        rows.append(list(struct.unpack_from(f"<{count}i", out, pos + 4)))
        pos += 4 + 4 * count
    return rows


def compare(name, path, texts, program):
    tokenizer = Tokenizer.from_file(str(path))
    expected = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    actual = octavo_ids(program, path, [text.encode() for text in texts])
    wrong = [i for i, ids in enumerate(expected) if ids != actual[i]]
    print(f"{name}: {len(texts)} texts, {sum(map(len, expected))} ids, {len(wrong)} differences")
    for i in wrong[:5]:
        print(f"  {texts[i]!r}\n    tokenizers {expected[i]}\n    octavo     {actual[i]}")
    return expected, len(wrong)


def survive(path, count, program):
    rng = random.Random(5)
    texts = []
    for i in range(count):
        text = bytearray(random_text(i).encode())
        for _ in range(1 + len(text) // 8):
            text.insert(rng.randrange(len(text) + 1), rng.randrange(0x80, 0x100))
        texts.append(bytes(text))
    octavo_ids(program, path, texts)


def fnv(ids_of_texts):
    hash_ = 0x811C9DC5
    for ids in ids_of_texts:
        for value in ids + [0xFFFFFFFF]:
            for byte in struct.pack("<I", value):
                hash_ = (hash_ ^ byte) * 0x01000193 & 0xFFFFFFFF
    return hash_


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--program", default=str(ROOT / "build/cpu/tokenizer_bench"))
    options = parser.parse_args()
    texts = [random_text(options.first + i) for i in range(options.count)]
    total, hashes = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        files = {path: path for path in options.files}
        for kind, content in golden_files().items() if options.golden or options.write else ():
            path = Path(folder, kind + ".json")
            path.write_text(json.dumps(content))
            files[kind] = path
        for name, path in files.items():
            expected, wrong = compare(name, path, texts, options.program)
            survive(path, options.count // 10, options.program)
            total += wrong
            hashes[name] = [fnv(expected[i:i + BATCH]) for i in range(0, len(expected), BATCH)]
    if options.write:
        golden = {"parts": PARTS, "ranges": RANGES, "batch": BATCH, "hashes": hashes}
        rows = ",\n".join(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}"
                          for key, value in golden.items())
        (DATA / "hashes.json").write_text(f"{{\n{rows}\n}}\n")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
