"""Makes the tokenizer crate's generated files: test vectors and the Unicode table.

    python tools/token_vectors.py unicode crates/token/src/tokenizer/unicode_table.rs
    python tools/token_vectors.py vectors crates/token/tests/vectors
    python tools/token_vectors.py fuzz VOCAB.gguf TEXTS.json   # ids by llama.cpp, to compare with

`unicode` asks Oniguruma, the regex engine inside Hugging Face `tokenizers`, for the general category of every
code point, because its classes are what published pre-tokenizer patterns were made with.
`vectors` trains small vocabularies with `tokenizers` and `sentencepiece`, one for each pre-tokenizer family, writes
each as a vocabulary-only GGUF file and records the ids of a list of tricky texts.

Needs: tokenizers, sentencepiece, gguf, numpy. Deterministic.
"""

import sys

CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "P", "S", "Z", "Cc", "Cf", "Co", "Cn"]
HAN, WHITE_SPACE, NEWLINE = 1 << 5, 1 << 6, 1 << 7


def oniguruma_class(pattern):
    """All code points that one pattern matches."""
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for base in range(0, 0x110000, 4096):
        points = [c for c in range(base, base + 4096) if not 0xD800 <= c < 0xE000]
        kept = set()
        for _, (start, end) in split.pre_tokenize_str("".join(map(chr, points))):
            kept.update(range(start, end))
        found.update(p for i, p in enumerate(points) if i not in kept)
    return found


def unicode_table(path):
    code = bytearray([CATEGORIES.index("Cn")]) * 0x110000
    for index, name in enumerate(CATEGORIES[:-1]):
        for point in oniguruma_class(r"\p{%s}" % name):
            code[point] = index
    for pattern, bit in ((r"\p{Han}", HAN), (r"\s", WHITE_SPACE), (r"[\r\n]", NEWLINE)):
        for point in oniguruma_class(pattern):
            code[point] |= bit
    ranges = []
    for point in range(0x110000):
        if not 0xD800 <= point < 0xE000 and (not ranges or ranges[-1] & 0xFF != code[point]):
            ranges.append(point << 8 | code[point])
    with open(path, "w") as out:
        out.write(
            "//! General categories of Unicode 16.0 as Oniguruma 6.9.10 has them. Made by `tools/token_vectors.py unicode`.\n"
            "//!\n//! An entry is `first code point << 8 | newline << 7 | white space << 6 | Han << 5 | category`; it holds up to the\n"
            "//! next entry. Categories are numbered in the order Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No P S Z Cc Cf Co Cn.\n\n"
            "#[rustfmt::skip]\n"
            f"pub(super) static RANGES: [u32; {len(ranges)}] = [\n"
        )
        for i in range(0, len(ranges), 10):
            out.write("    " + " ".join(f"{r:#x}," for r in ranges[i : i + 10]) + "\n")
        out.write("];\n")


if __name__ == "__main__":
    mode, *paths = sys.argv[1:] or ["help"]
    if mode == "unicode":
        unicode_table(*paths)
    else:
        sys.exit(__doc__)
