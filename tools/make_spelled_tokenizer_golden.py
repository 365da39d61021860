#!/usr/bin/env python3
"""Writes the part of tests/data/tokenizer_json that is about vocabularies which spell text, not
bytes: BPE of characters, Unigram and WordPiece.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3 && tools/make_spelled_tokenizer_golden.py

spelled_models.json  models by name, so that the cases stay small
spelled_cases.json   as cases.json of tools/make_tokenizer_json_golden.py, with the model's name;
                     "decoded" has the texts of the first rows' ids

Seeded: the same versions give the same files. CI reads the files and never runs this.
"""

import base64
import json
import math
import random
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

from make_tokenizer_json_golden import CORPUS, OUT, PIECES, split

SPECIALS = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TRAINED = CORPUS[:2] + ["Grüße, Ελληνικά, 日本語"] + CORPUS[3:]  # the other letters are unknown
ODD = ["▁", " ▁ ", "▁▁", "a▁b", "<0x0A>", "<unk>", "\x00", "\x01\x7f", "\ufeff", "\u00ad", "ﬀ", "㍿",
       "e\u0301\u0323", "\U0001d400", "   x", "x   ", "\U0010ffff", "ÅÅ", "½½", "🏳️‍🌈", "①②", "Ǆ"]


def train_bpe():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=420, min_frequency=1, show_progress=False,
                                  special_tokens=SPECIALS)
    tokenizer.train_from_iterator(TRAINED * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return list(model["vocab"]), [tuple(merge) for merge in model["merges"]]


def make_unigram(tokens):
    """Scores by how often a token occurs: the package's own trainer is not reproducible."""
    text = "▁" + "▁".join(CORPUS).replace(" ", "▁")
    scores = {token: math.log((text.count(token) + 0.5) / len(text)) for token in tokens}
    return [(token, 0.0 if token in SPECIALS else round(score, 4))
            for token, score in scores.items()]


def charsmap():
    """A small "precompiled_charsmap", which SentencePiece makes of a table of rules."""
    rules = {"ﬀ": "ff", "ﬁ": "fi", "①": "1", "②": "2", "½": "1/2", "Å": "å", "É": "é", "\t": " ",
             "\u3000": " ", "\u00a0": " ", "\u00ad": "", "\u200b": "", "\ufeff": "", "㍿": "株式会社",
             "ABC": "abc", "e\u0301": "é", "\r": " ", "\n": " ", "ｶ": "カ", "ｶﾞ": "ガ", "…": "..."}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "rules.tsv")
        table.write_text("".join(
            f"{' '.join(f'{ord(c):X}' for c in a)}\t{' '.join(f'{ord(c):X}' for c in b)}\n"
            for a, b in rules.items()))
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_prefix=f"{folder}/m", vocab_size=120,
            normalization_rule_tsv=str(table), hard_vocab_limit=False, minloglevel=2)
        model = model_pb2.ModelProto()
        model.ParseFromString(Path(folder, "m.model").read_bytes())
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_WORDS = ["don't", "he'll", " say,", "what?", "the quick", "[MASK]", "[CLS]", "#", "##s",
              "nothing", "happened", "FAÇADE", "naïve", "mi\u0301o", "x" * 8, "x" * 9, "e" * 100,
              "e" * 101, "\u4e00", "\U0002b820", "\U0002b920", "\uf900", "\u0085", "\v", "\ufffd",
              "\u00ad", "\ue000", "i\u0307", "ΣΑΣ", "½", "ﬁ", "\u200d", "\u0903", "\u20dd", "Å",
              "の", "が"]


def texts(rng, count, parts=()):
    rows = ["", " ", "the", "  the  ", "hello world", "<s>the</s> the", " <s> the", "<unk>"]
    while len(rows) < count:
        pieces = rng.choices(PIECES + ODD + list(parts), k=rng.randrange(1, 9))
        rows.append(rng.choice(["", " "]).join(pieces))
    return rows


def make_word_piece(lowercase):
    """Every character, and every part of a word that the corpus has at least twice."""
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    words = [word for text in CORPUS
             for word, _ in pre.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(text))]
    counts = {}
    for word in words:
        for begin in range(len(word)):
            for end in range(begin + 1, min(len(word), begin + 6) + 1):
                piece = ("##" if begin else "") + word[begin:end]
                counts[piece] = counts.get(piece, 0) + 1
    pieces = sorted(p for p, n in counts.items() if n > 1 or len(p.removeprefix("##")) == 1)
    return {piece: i for i, piece in enumerate(BERT + pieces)}


def make_bert_cases(shared):
    """Each with what its post-processor is made of."""
    def model(name, **options):
        return name, models.WordPiece(shared[name]["vocab"], unk_token="[UNK]", **options)

    ids = {token: i for i, token in enumerate(BERT)}
    pair = ("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"])
    template = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B",
                                             special_tokens=list(pair))
    words, decoder = pre.BertPreTokenizer(), decoders.WordPiece()

    def normalizer(**options):
        return normalizers.BertNormalizer(**options)

    yield "bert_uncased", model("word_piece"), normalizer(), words, decoder, template
    yield ("bert_cased", model("word_piece_cased"), normalizer(lowercase=False), words, decoder,
           processors.BertProcessing(*pair))
    yield ("bert_accents", model("word_piece"), normalizer(strip_accents=False), words,
           decoders.WordPiece(cleanup=False), processors.RobertaProcessing(*pair))
    yield ("bert_stripped_case", model("word_piece_cased"),
           normalizer(strip_accents=True, lowercase=False), words, decoder, template)
    yield ("bert_unclean", model("word_piece"),
           normalizer(clean_text=False, handle_chinese_chars=False), words, decoder, template)
    yield ("bert_short_words", model("word_piece", max_input_chars_per_word=8), normalizer(),
           pre.Whitespace(), decoder, template)
    yield ("bert_other_prefix", model("word_piece", continuing_subword_prefix=""), None, words,
           decoders.WordPiece(prefix="", cleanup=False), template)


def make_models():
    tokens, merges = train_bpe()
    bpe = {token: i for i, token in enumerate(tokens)}
    with_bytes = {token: i for i, token in enumerate(SPECIALS + BYTES)}
    for token in tokens:
        with_bytes.setdefault(token, len(with_bytes))
    some_bytes = dict(bpe)
    for byte in BYTES[0x80:0xE0]:
        some_bytes[byte] = len(some_bytes)
    unigram = make_unigram(tokens)
    worst = min(score for _, score in unigram)
    return {
        "bpe": {"vocab": bpe, "merges": merges},
        "bpe_bytes": {"vocab": with_bytes, "merges": merges},
        "bpe_some_bytes": {"vocab": some_bytes, "merges": merges},
        "unigram": {"vocab": unigram},
        "unigram_bytes": {"vocab": unigram + [(byte, worst - 1) for byte in BYTES]},
        "unigram_some_bytes": {"vocab": unigram + [(byte, worst) for byte in BYTES[0x80:0xE0]]},
        "word_piece": {"vocab": make_word_piece(lowercase=True)},
        "word_piece_cased": {"vocab": make_word_piece(lowercase=False)},
    }


def make_cases(shared):
    space = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                               decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    escape = normalizers.Replace(" ", "▁")

    def bpe(name, unk="<unk>", **options):
        return name, models.BPE(vocab=shared[name]["vocab"], merges=shared[name]["merges"],
                                unk_token=unk, **options)

    def unigram(name, unk_id=0, **options):
        return name, models.Unigram(shared[name]["vocab"], unk_id, **options)

    legacy = normalizers.Sequence([normalizers.Prepend("▁"), escape])
    bytes_bpe = bpe("bpe_bytes", byte_fallback=True, fuse_unk=True)
    yield "llama2_legacy", bytes_bpe, legacy, None, space
    yield ("llama2", bytes_bpe, None, pre.Metaspace(prepend_scheme="first", split=False), space)
    yield ("gemma", bytes_bpe, escape, split(" ", "merged_with_previous"),
           decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                              decoders.Fuse()]))
    for scheme in ("always", "never", "first"):
        for splits in (False, True):
            meta = {"prepend_scheme": scheme, "split": splits}
            yield (f"bpe_{scheme}_{splits}", bytes_bpe, None, pre.Metaspace(**meta),
                   decoders.Metaspace(**meta))
    plain = pre.Metaspace(), decoders.Metaspace()
    yield "unk_each", bpe("bpe", fuse_unk=False), None, *plain
    yield "unk_fused", bpe("bpe", fuse_unk=True), None, *plain
    yield "unk_none", bpe("bpe", unk=None), None, *plain
    yield "some_bytes_fused", bpe("bpe_some_bytes", byte_fallback=True, fuse_unk=True), None, *plain
    yield "some_bytes_each", bpe("bpe_some_bytes", byte_fallback=True), None, *plain
    yield "whole_pieces", bpe("bpe_bytes", byte_fallback=True, ignore_merges=True), None, *plain
    yield "underscore", bpe("bpe"), None, pre.Metaspace("_"), decoders.Metaspace("_")
    words = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    digits = pre.Sequence([pre.Digits(True), pre.Metaspace(prepend_scheme="first")])
    yield "unigram", unigram("unigram"), None, *plain
    yield "unigram_words", unigram("unigram"), None, words, decoders.Metaspace()
    yield "unigram_digits", unigram("unigram"), None, digits, decoders.Metaspace()
    yield "unigram_bytes", unigram("unigram_bytes", byte_fallback=True), legacy, None, space
    yield "unigram_some_bytes", unigram("unigram_some_bytes", byte_fallback=True), None, *plain
    yield "unigram_no_fallback", unigram("unigram_bytes"), None, *plain
    mapped = normalizers.Precompiled(base64.b64decode(charsmap()))
    tidy = normalizers.Sequence([mapped, normalizers.Strip(left=False, right=True),
                                 normalizers.Replace(Regex(" {2,}"), "▁")])
    yield "charsmap", unigram("unigram"), mapped, *plain
    yield "t5", unigram("unigram"), tidy, *plain
    yield "charsmap_bpe", bpe("bpe"), mapped, words, decoders.Metaspace()


def case(name, model_name, tokenizer, rng, count=40, parts=()):
    data = json.loads(tokenizer.to_str())
    for key in ("vocab", "merges"):
        data["model"].pop(key, None)
    rows, decoded = [], []
    for text in texts(rng, count, parts):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        rows.append([text, ids, tokenizer.encode(text).ids])
        decoded.append(tokenizer.decode(ids))
    return {"name": name, "model": model_name, "tokenizer": data, "rows": rows,
            "decoded": decoded[:20]}


def main():
    rng = random.Random(11)
    shared = make_models()
    cases = []
    for name, (model_name, model), normalizer, pre_tokenizer, decoder in make_cases(shared):
        tokenizer = Tokenizer(model)
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre_tokenizer:
            tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = decoder
        tokenizer.add_special_tokens(SPECIALS)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
        cases.append(case(name, model_name, tokenizer, rng))
    for name, (model_name, model), normalizer, pre_tokenizer, decoder, post in make_bert_cases(
            shared):
        tokenizer = Tokenizer(model)
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = decoder
        tokenizer.add_special_tokens(BERT)
        tokenizer.post_processor = post
        cases.append(case(name, model_name, tokenizer, rng, 60, BERT_WORDS * 2))
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    lines = ",\n".join(f'"{name}":{json.dumps(m, **compact)}' for name, m in shared.items())
    (OUT / "spelled_models.json").write_text(f"{{\n{lines}\n}}\n")
    lines = ",\n".join(json.dumps(c, **compact) for c in cases)
    (OUT / "spelled_cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
