#!/usr/bin/env python3
"""Writes tests/data/tokenizer: random texts and what Hugging Face's `tokenizers` makes of them.

    pip install tokenizers==0.23.3 regex && tools/make_tokenizer_golden.py

texts.json            the texts, of many scripts and kinds
ids_NAME.json         their ids with the vocabulary NAME, one array a text
splits_PRE.json       the pieces a pre-tokenizer cuts them into, as byte lengths
special_smollm2.json  texts with control tokens in them, and their ids
nfc.json              [i, text]: those of the texts that NFC changes
unicode_classes.json  [first, last, classes]: every code point that is assigned

Seeded: the same versions give the same files. CI reads the files and never runs this.
"""

import json
import random
import struct
import unicodedata
from pathlib import Path

import regex
from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers
from tokenizers.models import BPE

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
OUT = DATA / "tokenizer"

GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [LLAMA3.replace("{1,3}", "")],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2.removesuffix(r"|\s+"), r"\p{N}+",
                r"[0-9][0-9][0-9]"],
}

SCRIPTS = [  # ranges of code points
    (0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x58F),
    (0x591, 0x5F4), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FE), (0xA01, 0xA76), (0xB82, 0xBFA),
    (0xC00, 0xC7F), (0xE01, 0xE5B), (0xE81, 0xEDF), (0xF00, 0xFDA), (0x1000, 0x109F),
    (0x10A0, 0x10FF), (0x1200, 0x137C), (0x13A0, 0x13F5), (0x1780, 0x17F9), (0x1820, 0x1878),
    (0x3041, 0x30FF), (0x3105, 0x312F), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1100, 0x11FF),
    (0x10330, 0x1034A), (0x12000, 0x12399), (0x1D400, 0x1D7FF), (0x1F00, 0x1FFE), (0x2C80, 0x2CFF),
]
SPACES = ([" "] * 12 + ["\n"] * 5 + ["\t", "\r\n", "\r", "\v", "\f", "\x85", "\u00A0", "\u1680"]
          + [chr(c) for c in range(0x2000, 0x200B)] + ["\u2028", "\u2029", "\u202F", "\u205F",
                                                       "\u3000", "\u200B", "\uFEFF", "\u180E"])
NUMBERS = list("0123456789") * 3 + list("٠١٢०१२๑๒๓½²³ⅧⅣ①⑳𝟙𝟚㊿௧༣")
MARKS = [chr(c) for c in (*range(0x300, 0x345), 0x5B0, 0x64B, 0x93C, 0x94D, 0x20D0, 0x20E3,
                          0x3099)]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "👍🏽", "🇳🇱🇫🇷", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "1️⃣",
         "🫠", "♟", "✊🏿"]
SYMBOLS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + list(
    "“”‘’«»—…·¿¡§¶©®™°±×÷€£¥∑√≠→█、。「」！？；")
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'lL",
                "'D", "'ſ", "'r", "'l", "'x", "''", "’s", "'K", "'İ"]
CODE = ["for (int i = 0; i < n; ++i) {\n\t\tx[i] += a * y[i];  // axpy\n}\n",
        "def f(x):\n    return", "<div class=\"a\">&nbsp;</div>",
        "SELECT * FROM t WHERE a >= 1e-9;", "https://a.b/c?d=1&e=%20",
        "#include <vector>\r\n", "λx → x²",
        "{\"k\": [1, 2.5, null]}", "0x1F_FFu64", "C:\\dir\\file",
        "$HOME/bin && ls -la | wc -l", "\\begin{align} a &= b \\\\ \\end{align}"]
WORDS = ("the of and to in is you that it he was for on are as with his they at be this have "
         "from or one had by word but not what all were we when your can said there use an "
         "each which she do how their if will up other about out many then them these so some "
         "her would make like him into time has look two more write go see number no way could "
         "people my than first water tokenizer Supercalifragilistic O'Neill I'm you're they'll "
         "WE'VE don't naïve café").split()


def assigned(c):
    return unicodedata.category(c) not in ("Cn", "Cs", "Co")


def segment(rng):
    kind = rng.randrange(12)
    if kind <= 2:
        return rng.choice(WORDS)
    if kind == 3:
        first, last = rng.choice(SCRIPTS)
        run = (chr(rng.randint(first, last)) for _ in range(rng.randint(1, 9)))
        return "".join(c for c in run if assigned(c))
    if kind == 4:
        return "".join(rng.choice(NUMBERS) for _ in range(rng.randint(1, 8)))
    if kind == 5:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
    if kind == 6:
        return rng.choice(SPACES) * rng.randint(1, 9)
    if kind == 7:
        return "".join(rng.choice(SYMBOLS) for _ in range(rng.randint(1, 5)))
    if kind == 8:
        return rng.choice(WORDS) + rng.choice(CONTRACTIONS)
    if kind == 9:
        return rng.choice("aeonAEOIkcдиאがハ한") + "".join(rng.choice(MARKS)
                                                      for _ in range(rng.randint(1, 4)))
    if kind == 10:
        return rng.choice(EMOJI + CODE)
    if rng.random() < 0.3:
        return chr(rng.choice([*range(0x20), 0x7F, *range(0x80, 0xA0)]))
    c = chr(rng.randrange(0x20, 0x30000))
    return c if assigned(c) else ""


def make_texts(rng, count):
    texts = {"", " ", "\n", "'", "''", "\n \n", " \n ", "  a", "a  ", "\t\ta", " 1", "  1",
             "a\u0301"}
    while len(texts) < count:
        joint = rng.choice(["", " ", " ", "\n"])
        texts.add(joint.join(segment(rng) for _ in range(rng.randint(1, 10))))
    return sorted(texts)


def read_vocabulary(path):
    """The arrays of strings and of integers of a GGUF file's metadata."""
    data = path.read_bytes()
    position = 24

    def take(form):
        nonlocal position
        (value,) = struct.unpack_from("<" + form, data, position)
        position += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal position
        size = take("Q")
        position += size
        return data[position - size:position].decode()

    forms = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd"))

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            element, count = take("I"), take("Q")
            return [value(element) for _ in range(count)]
        return take(forms[kind])

    metadata = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        key = text()
        metadata[key] = value(take("I"))
    return metadata


def make_tokenizer(path, pre_tokenizer):
    metadata = read_vocabulary(path)
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ", 1)) for m in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    control = [t for t, kind in zip(tokens, metadata["tokenizer.ggml.token_type"]) if kind == 3]
    return tokenizer, control


def write(name, value):
    lines = ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in value)
    (OUT / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8", newline="\n")


def unicode_classes():
    is_space = regex.compile(r"\p{White_Space}").match
    ranges = []
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000 and unicodedata.category(chr(code)) != "Cn":
            c = chr(code)
            classes = {"L": 1, "N": 2, "P": 8}.get(unicodedata.category(c)[0], 0)
            classes |= 4 if is_space(c) else 0
            if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == classes:
                ranges[-1][1] = code
            else:
                ranges.append([code, code, classes])
    return ranges


def main():
    OUT.mkdir(exist_ok=True)
    rng = random.Random(2026)
    texts = make_texts(rng, 3200)
    write("texts.json", texts)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    gpt2, _ = make_tokenizer(DATA / "vocabs" / "ggml-vocab-gpt-2.gguf", byte_level)
    write("ids_gpt-2.json", [gpt2.encode(t).ids for t in texts])
    smollm2, control = make_tokenizer(DATA / "smollm2" / "vocab.gguf",
                                      pre_tokenizers.Sequence([digits, byte_level]))
    write("ids_smollm2.json", [smollm2.encode(t).ids for t in texts])

    smollm2.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    parts = control + ["<|im_", "end|>", "<", "|", ">", "<|", "<|im_end", " "]
    special = ["".join(rng.choice(parts) if rng.random() < 0.5 else segment(rng) for _ in range(9))
               for _ in range(300)]
    write("special_smollm2.json", [[t, smollm2.encode(t).ids] for t in special])

    for name, patterns in SPLITS.items():
        splitter = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(p), behavior="isolated") for p in patterns])
        pieces = [splitter.pre_tokenize_str(t) for t in texts]
        write(f"splits_{name}.json", [[len(p.encode()) for p, _ in row] for row in pieces])

    # Python's: `tokenizers` normalises by an older Unicode (U+0EBA has no combining class there).
    changed = [[i, unicodedata.normalize("NFC", t)] for i, t in enumerate(texts)]
    write("nfc.json", [[i, t] for i, t in changed if t != texts[i]])
    write("unicode_classes.json", unicode_classes())


if __name__ == "__main__":
    main()
