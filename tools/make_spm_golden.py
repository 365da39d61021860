#!/usr/bin/env python3
"""Writes tests/data/spm: small SentencePiece models and the ids that sentencepiece gives.

    pip install sentencepiece==0.2.3 protobuf && tools/make_spm_golden.py

NAME.model  trained on the sentences of tools/make_tokenizer_json_golden.py
cases.json  {NAME: [[text, ids], ...]} for random texts

CI reads the files and never runs this.
"""

import json
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2

from make_tokenizer_json_golden import CORPUS
from tokenizer_texts import random_text

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "spm"
RULES = {"ﬁ": "fi", "①": "1", "②": "2", "½": "1/2", "Å": "å", "É": "é", "\t": " ", "\u3000": " ",
         "\u00a0": " ", "\u00ad": "", "\u200b": "", "\ufeff": "", "e\u0301": "é", "\n": " ",
         "\r": " ", "ｶ": "カ", "ｶﾞ": "ガ", "…": "...", "ABC": "abc"}
MODELS = {
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "split_digits": True,
                  "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                  "vocab_size": 450},
    "bpe": {"model_type": "bpe", "vocab_size": 250, "character_coverage": 0.98,
            "normalization_rule_name": "identity"},
    "unigram": {"model_type": "unigram", "vocab_size": 200, "character_coverage": 0.98},
    "unigram_bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 450,
                      "normalization_rule_name": "identity", "add_dummy_prefix": False},
    "unigram_suffix": {"model_type": "unigram", "vocab_size": 200, "character_coverage": 0.98,
                       "treat_whitespace_as_suffix": True, "normalization_rule_name": "identity"},
}


def train(name, options, folder):
    if "normalization_rule_name" not in options:
        table = Path(folder, "rules.tsv")
        table.write_text("".join(
            f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n"
            for a, b in RULES.items()))
        options = {**options, "normalization_rule_tsv": str(table)}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 4), model_prefix=f"{folder}/{name}", num_threads=1,
        hard_vocab_limit=False, minloglevel=2, **options)
    path = Path(folder, f"{name}.model")
    model = model_pb2.ModelProto.FromString(path.read_bytes())
    model.trainer_spec.ClearField("model_prefix")  # names of this run's folder
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def main():
    OUT.mkdir(exist_ok=True)
    cases = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in MODELS.items():
            path = train(name, options, folder)
            (OUT / path.name).write_bytes(path.read_bytes())
            processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
            texts = ["", " ", "the", "  the  ", "hello world", "a\u2581b", " \n x ", *CORPUS,
                     *(random_text(500000 + i) for i in range(120))]
            cases[name] = [[text, processor.encode(text)] for text in texts]
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    rows = ",\n".join(f'"{name}":{json.dumps(c, **compact)}' for name, c in cases.items())
    (OUT / "cases.json").write_text(f"{{\n{rows}\n}}\n")


if __name__ == "__main__":
    main()
