#!/usr/bin/env python3
"""Writes tests/data/tokenizer_json: small tokenizer.json files and what `tokenizers` gives.

    pip install tokenizers==0.23.3 && tools/make_tokenizer_json_golden.py

vocab.json  {"vocab": ..., "merges": [[a, b], ...]}: a byte-level BPE of some hundred entries, which
            the cases share so that the files stay small
cases.json  for each case its name, what its tokenizer.json has beside the model, the texts and
            their ids: "plain" without and "special" with the post-processor

Seeded: the same version gives the same files. CI reads the files and never runs this.
"""

import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

OUT = Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer_json"

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's what they'll say, isn't it? We've 12345 of",
    "them and they're in the house with the other ones; nothing happened in 1984 or 2024.",
    "Grüße aus Köln, déjà vu, naïve façade, Ελληνικά, Русский язык, 日本語 漢字, हिन्दी, 한국어",
    "def function(self, value):\n    return self.value == other_value and not None\n\n\n",
    "hello world HELLO WORLD Hello World helloworld the the the THE  in  in   on    and",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED_CODER = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
              r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")
MINICPM5 = [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")]
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
PIECES = [
    "the", "The", "THE", " the", "hello", "Hello", "HELLO world", "isn't", "IT'S", "they'LL", "ſ",
    "'s", "'", "12345", "1", "42 ", "٣٤", "½", "Ⅷ", "²", " ", "  ", "   ", "\n", "\n\n", "\r\n",
    "\t", "\u00a0", "\u3000", "\u200b", "\u2028", ".", ",", "...", "!?", "-", "--", "_", "$", "+",
    "<", "`", "|", "€", "→", "…", "«", "Grüße", "e\u0301", "é", "Å", "\u212b", "ﬁ", "①", "ｶﾞ", "İ",
    "Σ", "ΟΔΟΣ", "ß", "日本語", "漢字", "ひらがな", "カタカナ", "हिन्दी", "한국어",
    "\u1112\u1161\u11ab", "Русский", "🦙", "👩‍👩‍👧", "a\u0300\u0323", "camelCase",
    "snake_case", "XMLHttp", "x=1;", "//", "f(x)",
    "<a>", "<b>", "<n>", "<mask>", "in", "word", "token", "<s>", "</s>", "[X]", "▁", "Tok", "TOK",
]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=600, min_frequency=1, show_progress=False,
                                  initial_alphabet=sorted(pre.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [list(merge) for merge in model["merges"]]


def split(pattern, behavior="isolated", invert=False):
    return pre.Split(pattern, behavior, invert)


def byte_level(prefix=False, regex=True):
    return pre.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def pre_tokenizer_cases():
    plain = byte_level(regex=False)
    yield "byte_level", byte_level()
    yield "byte_level_prefix", byte_level(prefix=True)
    yield "byte_level_prefix_no_regex", byte_level(prefix=True, regex=False)
    yield "byte_level_no_regex", plain
    for name, pattern in (("gpt2", GPT2), ("llama3", LLAMA3),
                          ("qwen2", LLAMA3.replace("{1,3}", "")), ("o200k", O200K)):
        yield f"split_{name}", pre.Sequence([split(Regex(pattern)), plain])
    yield "deepseek_v3", pre.Sequence([split(Regex(p)) for p in DEEPSEEK] + [plain])
    for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next",
                     "contiguous"):
        for invert in (False, True):
            name = behavior + ("_inverted" if invert else "")
            vowels = split(Regex(r"[aeiou ]"), behavior, invert)
            yield f"regex_{name}", pre.Sequence([vowels, plain])
        yield f"string_{behavior}", pre.Sequence([split("l", behavior), plain])
        yield f"punctuation_{behavior}", pre.Sequence([pre.Punctuation(behavior), plain])
    yield "empty_matches", pre.Sequence([split(Regex(r"(?=[A-Z])|\d*")), plain])
    words = split(Regex(r"[\w.]+"), "removed", True)
    yield "word_class", pre.Sequence([split(Regex(r"\w+")), words, plain])
    yield "line_starts", pre.Sequence([split(Regex(r"^\s*|$")), plain])
    yield "digits", pre.Sequence([pre.Digits(individual_digits=False), plain])
    yield "digits_each", pre.Sequence([pre.Digits(individual_digits=True), byte_level()])
    yield "digits_prefix", pre.Sequence([pre.Digits(individual_digits=True), byte_level(True)])
    yield "whitespace", pre.Sequence([pre.Whitespace(), byte_level(True)])
    yield "whitespace_split", pre.Sequence([pre.WhitespaceSplit(), plain])


def normalizer_cases():
    yield "nfc", normalizers.NFC()
    yield "nfd", normalizers.NFD()
    yield "nfkc", normalizers.NFKC()
    yield "nfkd", normalizers.NFKD()
    yield "lowercase", normalizers.Lowercase()
    yield "strip", normalizers.Strip()
    yield "strip_left", normalizers.Strip(left=True, right=False)
    yield "strip_right", normalizers.Strip(left=False, right=True)
    yield "strip_accents", normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    yield "prepend", normalizers.Prepend("▁x")
    yield "replace", normalizers.Replace("l", "LL")
    yield "replace_regex", normalizers.Replace(Regex(r"\s+"), " ")
    yield "sequence", normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(),
                                            normalizers.Replace("the", "a"), normalizers.Strip()])


def added_token_cases():
    flags = {"none": {}, "lstrip": {"lstrip": True}, "rstrip": {"rstrip": True},
             "both": {"lstrip": True, "rstrip": True}, "single_word": {"single_word": True},
             "single_both": {"single_word": True, "lstrip": True, "rstrip": True}}
    for name, options in flags.items():
        for normalized in (False, True):
            tokens = [AddedToken(text, normalized=normalized, **options)
                      for text in ("<a>", "<mask>", "in", "Tok", "<")]
            specials = [AddedToken(text, special=True, normalized=False, **options)
                        for text in ("<s>", "</s>", "[X]")]
            yield name + ("_normalized" if normalized else ""), tokens, specials


def texts(rng, count):
    rows = ["", " ", "the", "  the  ", "hello world"]
    while len(rows) < count:
        pieces = rng.choices(PIECES, k=rng.randrange(1, 9))
        rows.append(rng.choice(["", " "]).join(pieces))
    return rows


def case(name, tokenizer, rng, count=40):
    data = json.loads(tokenizer.to_str())
    del data["model"]["vocab"], data["model"]["merges"]
    rows = [[text, tokenizer.encode(text, add_special_tokens=False).ids,
             tokenizer.encode(text).ids] for text in texts(rng, count)]
    rows = [row[:2] if row[1] == row[2] else row for row in rows]
    return {"name": name, "tokenizer": data, "rows": rows}


def main():
    rng = random.Random(7)
    vocab, merges = train()

    def tokenizer(pre_tokenizer=None, normalizer=None, **options):
        made = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m) for m in merges], **options))
        made.pre_tokenizer = pre_tokenizer or byte_level()
        if normalizer:
            made.normalizer = normalizer
        made.decoder = decoders.ByteLevel()
        return made

    cases = [case("pre_" + n, tokenizer(p), rng) for n, p in pre_tokenizer_cases()]
    cases += [case("norm_" + n, tokenizer(normalizer=m), rng) for n, m in normalizer_cases()]
    for name, tokens, specials in added_token_cases():
        for normalizer in (None, normalizers.Lowercase()):
            made = tokenizer(normalizer=normalizer)
            made.add_tokens(tokens)
            made.add_special_tokens(specials)
            cases.append(case(f"added_{name}{'_lowercase' if normalizer else ''}", made, rng, 60))
    cases.append(case("ignore_merges", tokenizer(ignore_merges=True), rng))
    made = tokenizer()
    made.add_special_tokens(["<s>", "</s>", "[X]"])
    made.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<s> [X] $A </s>", pair="<s> $A $B",
            special_tokens=[(t, made.token_to_id(t)) for t in ("<s>", "</s>", "[X]")])])
    cases.append(case("template", made, rng))
    for name, pattern, normalizer in (("tekken", TEKKEN, None), ("qwen35", QWEN35,
                                                                 normalizers.NFC())):
        pieces = pre.Sequence([split(Regex(pattern)), byte_level(regex=False)])
        made = tokenizer(pieces, normalizer, ignore_merges=name == "tekken")
        cases.append(case(f"pre_split_{name}", made, rng))
    for name, patterns in (("seed_coder", [SEED_CODER]), ("minicpm5", MINICPM5), ("bloom", [BLOOM]),
                           ("viking", [BLOOM, r"\p{N}"])):
        pieces = pre.Sequence([split(Regex(p)) for p in patterns] + [byte_level(regex=False)])
        cases.append(case(f"pre_split_{name}", tokenizer(pieces, ignore_merges=name == "minicpm5"),
                          rng, 80))

    OUT.mkdir(exist_ok=True)
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    shared = json.dumps({"vocab": vocab, "merges": merges}, **compact)
    (OUT / "vocab.json").write_text(f"{shared}\n")
    lines = ",\n".join(json.dumps(c, **compact) for c in cases)
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
