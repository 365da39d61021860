"""Random texts to compare tokenizers with: 20 scripts, emoji with modifiers, code, numbers, control
characters, whitespace of every kind. Text number i is the same everywhere, also in the C++ tests,
which read PARTS and RANGES from the golden file and draw with the same generator (base/rng.h).
"""

MASK = (1 << 64) - 1

# What texts are made of; a list is drawn first, then a part of it.
PARTS = [
    ["the", " the", "The", " and", " of", "hello", " world", "isn't", " it's", "they'LL", "I'M",
     " don't", "word", "tokenization", " un", "ing", "Straße", " façade", "naïve", "École",
     " Ωμέγα"],
    ["def f(x):\n", "    return x == 1\n", "\t\tif (a && b) {", "}\n\n", "//", "/* */", "!=", "=>",
     "->", "::", "snake_case", "camelCase", "XMLHttpRequest", "<div>", "</a>", "&amp;", "#include",
     "$x", "%d", "\\n", "\"", "'", "`", "```\n", "f\"{x}\"", "0x1F", "1e-5", "[0]", "();", "a.b"],
    ["0", "1", "42", "123", "1234567", "3.14159", "1,000", "½", "²", "Ⅷ", "٣٤", "१२३", "①",
     "𝟘", "〇"],
    [" ", "  ", "   ", "        ", "\n", "\n\n", "\r\n", "\r", "\t", "\v", "\f", "\u00a0", "\u1680",
     "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u0085", "\u200b", "\ufeff",
     " \n", "\n ", " \t "],
    ["😀", "👍🏽", "👩‍👩‍👧", "🏳️‍🌈", "🇩🇪", "❤️", "👨🏿‍🚀", "1️⃣", "©️", "🦙", "🫠", "☺︎", "✋🏻"],
    [".", ",", "...", "!?", "-", "--", "—", "_", "+", "<", "|", "~", "^", "€", "→", "…", "«", "」",
     "、", "。", "؟", "।", "¿", "(", ")", "'s", "’s", "'S", "'ſ", "▁", "Ġ", "<0x0A>", "<s>", "</s>",
     "<unk>"],
    ["e\u0301", "a\u0300\u0323", "\u212b", "ﬁ", "ｶﾞ", "İ", "ΟΔΟΣ", "ß", "ǅ", "\u1112\u1161\u11ab",
     "हिन्दी", "ภาษาไทย", "العربية", "עִבְרִית", "日本語", "漢字", "한국어", "\u0338", "क्ष", "\u00ad"],
]
# Inclusive ranges of code points, of which runs are drawn.
RANGES = [
    [0x41, 0x5A], [0x61, 0x7A], [0xC0, 0xFF], [0x100, 0x17F], [0x300, 0x345], [0x391, 0x3A1],
    [0x3B1, 0x3C9], [0x410, 0x44F], [0x531, 0x556], [0x5D0, 0x5EA], [0x621, 0x64A], [0x905, 0x939],
    [0x985, 0x98C], [0xB95, 0xB95], [0xE01, 0xE3A], [0xE94, 0xE97], [0xF40, 0xF47],
    [0x10D0, 0x10F0],
    [0x1100, 0x1112], [0x1200, 0x1248], [0x1780, 0x17B3], [0x1820, 0x1842], [0x3041, 0x3096],
    [0x30A1, 0x30FA], [0x4E00, 0x4EFF], [0xAC00, 0xACFF], [0xFF21, 0xFF3A], [0x10330, 0x10340],
    [0x1D400, 0x1D454], [0x1F300, 0x1F320], [0x2190, 0x21FF], [0x2500, 0x257F], [0xE000, 0xE010],
    [0x00, 0x1F], [0x7F, 0x9F], [0x30, 0x39], [0x20, 0x2F], [0x3A, 0x40],
]


def rotl(x, k):
    return (x << k | x >> (64 - k)) & MASK


class Rng:
    """SplitMix64 and xoshiro256**, as base/rng.h."""

    def __init__(self, seed):
        self.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = seed
            z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
            z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
            self.s.append(z ^ z >> 31)

    def below(self, n):
        s = self.s
        result = rotl(s[1] * 5 & MASK, 7) * 9 & MASK
        t = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return result % n


def random_text(i, parts=PARTS, ranges=RANGES):
    rng = Rng(i)
    text = ""
    for _ in range(rng.below(20)):
        kind = rng.below(len(parts) + 2)
        if kind < len(parts):
            text += parts[kind][rng.below(len(parts[kind]))]
            continue
        low, high = ranges[rng.below(len(ranges))]
        for _ in range(1 + rng.below(6)):
            text += chr(low + rng.below(high - low + 1))
    return text
