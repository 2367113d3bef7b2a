"""Makes the tokenizer crate's generated files: test vectors and the Unicode table.

    python tools/token_vectors.py unicode crates/tokenizer/src/unicode_table.rs
    python tools/token_vectors.py vectors crates/tokenizer/tests/vectors
    python tools/token_vectors.py llama VOCAB.gguf OUT.ids     # random texts with the ids that llama.cpp gives
    python tools/token_vectors.py random FAMILY OUT.ids        # random texts with the ids that `tokenizers` gives

`unicode` asks Oniguruma, the regex engine inside Hugging Face `tokenizers`, for the general category of every
code point, because its classes are what published pre-tokenizer patterns were made with.
`vectors` trains small vocabularies with `tokenizers` and `sentencepiece`, one for each pre-tokenizer family, writes
each as a vocabulary-only GGUF file and records the ids of a list of tricky texts.

`llama` and `random` write what `vectors` writes, for many more texts: to look for differences by hand.

Needs: tokenizers, sentencepiece, gguf, numpy (and llama-cpp-python for `llama`). Deterministic.
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


# The patterns as the models publish them, in the names' order of `split/name.rs`. A family is a list of stages; a
# string is a regular expression whose matches are isolated.
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
LADDER = "|".join(r"\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(upper, lower, tail):
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{upper}*{lower}+{tail}|{lead}{upper}+{lower}*{tail}|"


def o200k(numbers):
    return cased(UPPER, LOWER, CONTRACTIONS + "?") + numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES


DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|"""
) + SPACES
CJK = "[一-龥\u0800-一가-\ud7ff]+"
ASIA = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)
FAMILIES = {
    "gpt-2": [GPT2],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "starcoder": ["digits", GPT2],
    "llama-bpe": [QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")],
    "chatglm-bpe": [QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|")],
    "jais-2": [QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|").replace(r"\s+(?!\S)|\s+", LADDER)],
    "minicpm5": [r"\p{N}{1,3}", QWEN2.replace(r"\p{N}|", r"\p{N}+|")],
    "qwen2": [QWEN2],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "qwen35": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES
    ],
    "ufakzeka": [QWEN2.removeprefix(CONTRACTIONS + "|")],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
    "seed-coder": [
        CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + SPACES
    ],
    "exaone-moe": [
        CONTRACTIONS
        + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "gpt-4o": [o200k(r"\p{N}{1,3}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", o200k(r"\p{N}{1,3}")],
    "tekken": [cased(UPPER, LOWER, "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES],
    "kimi-k2": [
        r"[\p{Han}]+|"
        + cased(UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]", CONTRACTIONS + "?")
        + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        + SPACES
    ],
    "youtu": [
        "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
        o200k(r"\p{N}"),
    ],
    "deepseek-llm": [
        "[\r\n]",
        "",
        "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
        r"\s+$",
        CJK,
        r"\p{N}+",
    ],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK],
    "spark2_5": [
        r"\p{N}{1,3}",
        "[一-龥\u3040-ゟ゠-ヿ]+",
        DEEPSEEK.replace(r"+[\r\n]*|", "+|").replace(r"\s*[\r\n]+", r"[\r\n]"),
        r"\p{N}",
    ],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", ASIA, DEEPSEEK],
    "bloom": [" ?[^(\\s|.,!?…。，、।۔،)]+"],
    "viking": [" ?[^(\\s|.,!?…。，、।۔،)]+", r"\p{N}"],
    "chameleon": [
        "<sentinel:[0-9]+>",
        "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
        "([\\t\\n]|    |  )",
        r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]",
        GPT2,
    ],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
}
WHOLE_WORDS = {"llama-bpe", "tekken", "minicpm5", "youtu"}

PROSE = """
The quick brown fox jumps over the lazy dog. The dog didn't mind: it's an old dog, and they've known each other since
1998. "I'll be back," said the fox; "You'd better!" answered the dog. We're told that 3 + 4 = 7, and 12,345.67 is not 12.345,67.
Der schnelle braune Fuchs springt über den faulen Hund. Straße, Äpfel, Übermut und Öl kosten 27 €.
Le renard brun saute par-dessus le chien paresseux. L'été, c'est l'heure où l'on dort à l'ombre.
Быстрая коричневая лиса прыгает через ленивую собаку. Это было в 1812 году.
Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.
الثعلب البني السريع يقفز فوق الكلب الكسول. كان ذلك في عام ١٩٩٨.
敏捷的棕色狐狸跳过了懒狗。这是一九九八年的事，真的吗？
素早い茶色の狐がのろまな犬を飛び越える。カタカナとひらがな、そして漢字。
날렵한 갈색 여우가 게으른 개를 뛰어넘는다. 한국어 문장입니다.
तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। हिन्दी में लिखा है।
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ
def main(argv):
    for i in range(10):
        if i % 3 == 0:
            print("fizz", i)
    return {"a": [1, 2, 3], "b": None}

int main(void) {
	printf("Hello, world!\\n");
	return 0;
}
<html><body><p class="x">Hello &amp; goodbye</p></body></html>
https://example.com/path?q=1&r=2#frag user@example.com /usr/lib/x86_64-linux-gnu/libc.so.6
😀 😃 🎉🎉🎉 👩‍👩‍👧‍👦 🇩🇪 🏳️‍🌈 👍🏽
HTTPServer parseJSONResponse XMLHttpRequest camelCase snake_case SCREAMING_CASE iPhone McDonald's O'Neill
1 12 123 1234 12345 123456 1234567 12345678 ½ ² ³ Ⅷ ④ ٣٤٥
"""

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", " \n ", "\r\n", "\n \n", "  \n\n  x", "a", " a", "  a", "a ", "a  ", "a\n", "a\n\nb",
    "Hello world", " Hello World!", "HELLO WORLD", "it's IT'S it'S we'RE we'Ve I'Ll 'tis 'S 'D 'LL' 'ſ x'ſ",
    "don't won't they'll you've I'd I'm", "O'Neill's McDonald'sX", "'re're 've!", "l'été d'Été",
    "1", "12", "123", "1234", "12345", "123456", "1234567", "x1234y 1234 12345abc 1_000 1,234,567.89 0x1F 1234567٣",
    "½ ¼x ²³ Ⅷ Ⅷⅷ ④ ٣٤٥ ١٢٣٤٥", "3.14159 -2.5e10 +7 (555) 123-4567",
    "!", "!!", "...", "?!\n", "!\n\n\nx", "-- --\n", "a/b//c\n/d", "//\n//\n", "foo.bar(baz)[qux]{1}", "x=1;y=2", "<|im_start|>",
    "$100 €50 £30 ¥20 + = ~ ^ | ` < >", "a+b=c `code` **bold** __init__ #hashtag @user",
    "    indented\n\tTabbed\n        more", "x = 1\r\ny = 2\r\n\r\n", "trailing   ", "trailing \n", "\u00a0nbsp\u00a0\u00a0x\u2003y\u3000z\u0085w\u2028v",
    "CamelCaseWord parseJSONResponse XMLHttpRequest iPhone ABCdefGHI aB Ab AB", "ÉCOLE École éCOLE ÑandÚ ǅungla ǅ",
    "ÄÖÜ äöü ß ẞ ŉ ŁÓDŹ łódź", "ПРИВЕТ Привет привет МИРмир", "ΑΒΓ αβγ ΑβΓ", "ԱԲԳ աբգ", "ᏣᎳᎩ ꭰꭱ", "ʰʲ ªº xʰY XʰY",
    "e\u0301te\u0301 E\u0301COLE a\u0308\u0323b \u0301x \u0301 x\u0301\u0301", "नमस्ते दुनिया हिन्दी", "ภาษาไทยไม่มีวรรค", "বাংলা ভাষা", "မြန်မာ ខ្មែរ ລາວ",
    "你好世界", "你好，世界！", "中文English混排123数字", "日本語のテキスト、カタカナ。", "한국어 텍스트입니다", "ㄅㄆㄇ ㄱㄴㄷ 々〇〆", "汉字ABC汉字abc汉Ab", "豈﫿 㐀䶿 𠀀𪛟 ﾊﾝｶｸ ⼀",
    "مرحبا بالعالم، كيف الحال؟", "שלום עולם", "۱۲۳ ۔ ।", "(a|b) [c] {d} …。，、",
    "😀", "😀😀", " 😀 x😀y", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "👍🏽👍", "🏳️‍🌈!", "a\u200db\u200c\u200b\ufeff",
    "\u0000\u0001\u001f\u007f\u0080", "\ufffd\ue000\U000f0000", "\u0378\u0379 unassigned \U0010ffff",
    "ab" * 20, "a" * 50, " " * 40 + "x", "\n" * 20, "1" * 20, "é" * 10, "漢" * 12, "!" * 30, "\u0301" * 9, " \t" * 10 + "q",
    "<sentinel:12>IMGIMGABCDZ IMGIMGZ IMGIMGABCDEZ <sentinel:> IMGIMGAZIMGIMGHIZ",
    "The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸 быстрая лиса",
    "def f(x):\n    return x**2  # comment\n\n\nclass A(B):\n\tpass\n",
    "{\"key\": [1, 2.5, null], \"s\": \"a\\nb\"}", "<p class=\"x\">Hi &amp; bye</p>",
    "https://example.com/a/b?c=d&e=f#g", "C:\\Users\\x\\file.txt", "10:30 2024-01-02T03:04:05Z",
    "_under_score_ __dunder__ a_b a‿b 12_34 12‿", "x \n y  \n  z\n\n\n w", "one,two;three:four", "Mr. Smith's 3rd \"quote\" — dash–en…",
]


def random_texts(count, seed):
    import random

    rng = random.Random(seed)
    alphabet = (
        "aeinstrzAEINSTRZ019 ' \n\r\t.,!?-_/()<>|$+=~^`'sstdmlrv" * 2
        + "éÉßñǅʰªſµ½²Ⅷ④٣١漢字汉々〇ひらカタ한국ㄱㄅЖжΣσςاबि्ไำ\u0301\u0308\u20dd\u0903\u200d\ufeff\u00a0\u3000\u2028\u0085\u001f"
        + "😀👍🏽🇩🇪€£。，、！？…—“”’،۔।\ufffd\ue000\u0378ﬁＡａ１𐐀𐐨𞤀豈㐀𠀀"
    )
    out = []
    for _ in range(count):
        n = rng.randint(1, 40)
        text = ""
        while len(text) < n:
            text += rng.choice(alphabet) * rng.choice((1, 1, 1, 1, 2, 3, 4, 7))
        out.append(text)
    return out


def pre_tokenizer(stages):
    from tokenizers import Regex, pre_tokenizers as pre

    chain = []
    for stage in stages:
        if stage == "digits":
            chain.append(pre.Digits(individual_digits=True))
        else:
            chain.append(pre.Split(Regex(stage), "isolated"))
    return pre.Sequence(chain + [pre.ByteLevel(add_prefix_space=False, use_regex=False)])


def cased_alphabets():
    """The class of letters in the first DeepSeek models' pattern."""
    ranges = (
        "A-Z a-z µ À-Ö Ø-ö ø-\u01ba \u01bc-\u01bf \u01c4-\u0293 \u0295-\u02af \u0370-\u0373 \u0376 \u0377 \u037b-\u037d \u037f "
        "\u0386 \u0388-\u038a \u038c \u038e-\u03a1 \u03a3-\u03f5 \u03f7-\u0481 \u048a-\u052f \u0531-\u0556 \u10a0-\u10c5 "
        "\u13a0-\u13f5 \u13f8-\u13fd \u1c90-\u1cba \u1cbd-\u1cbf \u1d00-\u1d2b \u1d6b-\u1d77 \u1d79-\u1d9a \u1e00-\u1f15 "
        "\u1f18-\u1f1d \u1f20-\u1f45 \u1f48-\u1f4d \u1f50-\u1f57 \u1f59 \u1f5b \u1f5d \u1f5f-\u1f7d \u1f80-\u1fb4 \u1fb6-\u1fbc "
        "\u1fbe \u1fc2-\u1fc4 \u1fc6-\u1fcc \u1fd0-\u1fd3 \u1fd6-\u1fdb \u1fe0-\u1fec \u1ff2-\u1ff4 \u1ff6-\u1ffc \u2102 \u2107 "
        "\u210a-\u2113 \u2115 \u2119-\u211d \u2124 \u2126 \u2128 \u212a-\u212d \u212f-\u2134 \u2139 \u213c-\u213f \u2145-\u2149 "
        "\u214e \u2183 \u2184 \u2c00-\u2c7b \u2c7e-\u2ce4 \u2ceb-\u2cee \u2cf2 \u2cf3 \ua640-\ua66d \ua680-\ua69b \ua722-\ua76f "
        "\ua771-\ua787 \ua78b-\ua78e \uab70-\uabbf \ufb00-\ufb06 \ufb13-\ufb17 \uff21-\uff3a \uff41-\uff5a "
        "\U00010400-\U0001044f \U000104b0-\U000104d3 \U000104d8-\U000104fb \U00010c80-\U00010cb2 \U00010cc0-\U00010cf2 "
        "\U000118a0-\U000118df \U0001e900-\U0001e943"
    )
    return r"\s?[" + ranges.replace(" ", "") + "]+"


FAMILIES["deepseek-llm"][1] = cased_alphabets()

CONTROL, USER = ["<|im_start|>", "<|im_end|>", "<|im|>"], ["<tool>", "<tool>x", "  \n"]
SPECIAL_TEXTS = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<tool>b", "<tool>x<tool>y<tool", "x  \ny   \n", "<|im|><|im_start|",
    "<|im_start<|im|>|>", "<tool><|im_end|><tool>", "é<tool>漢", "  \n  \n", "<|im_end|>",
]


def byte_level_vocab():
    """One vocabulary for all patterns, trained without any, so that its tokens reach over every cut they could make."""
    from tokenizers import Tokenizer, models, pre_tokenizers as pre, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1400, min_frequency=1, show_progress=False, initial_alphabet=pre.ByteLevel.alphabet(), max_token_length=24
    )
    samples = [PROSE] + TEXTS * 2 + random_texts(300, 1)
    tokenizer.train_from_iterator([chunk for t in samples for chunk in t.splitlines(keepends=True)] + samples, trainer)
    import json

    model = json.loads(tokenizer.to_str())["model"]
    vocab = sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    return vocab, merges


def bpe(vocab, merges, family, whole_words=False, added=()):
    from tokenizers import AddedToken, Tokenizer, models

    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(vocab)}, merges, ignore_merges=whole_words))
    tokenizer.pre_tokenizer = pre_tokenizer(FAMILIES[family])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in added])
    return tokenizer


def write_gguf(path, model, tokens, types, **fields):
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for key, value in fields.items():
        getattr(writer, "add_" + key)(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_ids(path, cases):
    """One line for each text: the text as JSON, a tab, the ids."""
    import json

    with open(path, "w", encoding="utf-8") as out:
        for text, ids in cases:
            out.write(json.dumps(text, ensure_ascii=True) + "\t" + " ".join(map(str, ids)) + "\n")


def renumber(ids, vocab):
    """Hugging Face numbers added tokens by itself; in the file the control tokens come before the user-defined ones."""
    return [i + len(CONTROL) if i >= len(vocab) else i for i in ids]


def byte_level_vectors(folder):
    vocab, merges = byte_level_vocab()
    tokens = vocab + CONTROL + USER
    types = [1] * len(vocab) + [3] * len(CONTROL) + [4] * len(USER)
    write_gguf(
        f"{folder}/bytes.gguf", "gpt2", tokens, types, tokenizer_pre="gpt-2", token_merges=[" ".join(m) for m in merges]
    )
    texts = TEXTS + random_texts(60, 7)
    with open(f"{folder}/texts.json", "w") as out:
        import json

        json.dump(texts, out, indent=0, ensure_ascii=True)
    with open(f"{folder}/bytes.ids", "w") as out:
        for family in FAMILIES:
            tokenizer = bpe(vocab, merges, family, family in WHOLE_WORDS, USER)
            lines = [" ".join(map(str, renumber(tokenizer.encode(t).ids, vocab))) for t in texts]
            out.write("\n".join([family] + lines) + "\n")
    write_special(folder, vocab, merges)


def write_special(folder, vocab, merges):
    both = bpe(vocab, merges, "gpt-2", added=CONTROL + USER)
    write_ids(f"{folder}/special_on.ids", [(t, both.encode(t).ids) for t in SPECIAL_TEXTS])
    user = bpe(vocab, merges, "gpt-2", added=USER)
    write_ids(f"{folder}/special_off.ids", [(t, renumber(user.encode(t).ids, vocab)) for t in SPECIAL_TEXTS])


def gemma_vectors(folder):
    import json

    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers as pre, trainers, Regex

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre.Split(Regex(r"[^\n]+|\n+"), "isolated")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, min_frequency=2, show_progress=False, special_tokens=special, max_token_length=16)
    tokenizer.train_from_iterator([PROSE.replace("सुनख", "")] + TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab = sorted(model["vocab"], key=model["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    types = [3, 3, 3, 2] + [6] * 256 + [1] * (len(vocab) - 260)
    write_gguf(
        f"{folder}/gemma.gguf", "gemma4", vocab, types, token_merges=merges, bos_token_id=2, eos_token_id=1, unk_token_id=3
    )
    fresh = Tokenizer(
        models.BPE(model["vocab"], [tuple(m.split(" ")) for m in merges], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    fresh.normalizer, fresh.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    write_ids(f"{folder}/gemma.ids", [(t, fresh.encode(t).ids) for t in TEXTS + random_texts(60, 9)])


def sentencepiece_vectors(folder):
    import io

    import sentencepiece as sp
    from sentencepiece import sentencepiece_model_pb2 as pb

    rules = f"{folder}/rules.tsv"
    with open(rules, "w") as out:
        for source, target in RULES:
            out.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    common = dict(vocab_size=700, minloglevel=2, num_threads=1, hard_vocab_limit=False, character_coverage=0.98)
    # Unigram's models with a character map collapse spaces, as T5's does.
    variants = {
        "spm": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
        "spm_bare": dict(
            model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
            add_dummy_prefix=False, user_defined_symbols=["<tool>", "\n\n", "漢字"],
        ),
        "spm_unk": dict(model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False),
        "unigram": dict(model_type="unigram", normalization_rule_tsv=rules),
        "unigram_bytes": dict(model_type="unigram", normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False),
    }
    lines = [l for l in PROSE.splitlines() if l] * 3 + [t for t in TEXTS if t.strip() and "\0" not in t]
    # T5's order: padding, end, unknown.
    ids = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    for name, options in variants.items():
        blob = io.BytesIO()
        extra = ids if name.startswith("unigram") else {}
        sp.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=blob, **common, **options, **extra)
        proto = pb.ModelProto.FromString(blob.getvalue())
        spec = proto.normalizer_spec
        tokens = [p.piece for p in proto.pieces]
        types = [p.type for p in proto.pieces]
        # Converters write user-defined tokens as they appear in the text.
        tokens = [t.replace("▁", " ") if k == 4 else t for t, k in zip(tokens, types)]
        fields = dict(token_scores=[p.score for p in proto.pieces], add_space_prefix=spec.add_dummy_prefix)
        if name.startswith("unigram"):
            fields["remove_extra_whitespaces"] = spec.remove_extra_whitespaces
            if name == "unigram":
                fields["precompiled_charsmap"] = spec.precompiled_charsmap
        model = "t5" if name.startswith("unigram") else "llama"
        write_gguf(f"{folder}/{name}.gguf", model, tokens, types, **fields)
        processor = sp.SentencePieceProcessor(model_proto=blob.getvalue())
        texts = [t for t in TEXTS + SPECIAL_TEXTS + random_texts(60, 11) if "\0" not in t]
        if name.startswith("unigram"):
            # Ways that are equally good: SentencePiece adds in 32 bits, Hugging Face in 64, and they choose differently.
            texts = [t for t in texts if t not in ("ab" * 20, "a" * 50)]
        write_ids(f"{folder}/{name}.ids", [(t, processor.encode(t)) for t in texts])
    import os

    os.remove(rules)


# Character map rules of every shape: one to many, many to one, to nothing, to a space, long keys with shared beginnings.
RULES = (
    [("ﬁ", "fi"), ("…", "..."), ("\u200d", ""), ("\ufeff", ""), ("\n", " "), ("\t", " "), ("\r", " "), ("\u00a0", " "), ("\u3000", " ")]
    + [("e\u0301", "é"), ("E\u0301", "É"), ("a\u0308", "ä"), ("a\u0308\u0323", "ạ̈"), ("½", "1/2"), ("²", "2"), ("Ⅷ", "VIII")]
    + [(chr(0xFF21 + i), chr(0x41 + i)) for i in range(26)]
    + [(chr(0xFF41 + i), chr(0x61 + i)) for i in range(26)]
    + [("ﷺ", "صلى الله عليه وسلم"), ("\uf900", "\u8c48"), ("①②", "<12>"), ("①", "1")]
)


def wordpiece_vocab(normalizer, splitter):
    """The prose's characters, whole words and the ends of words. The trainer's choice among equals is not stable."""
    words = sorted({w for w, _ in splitter.pre_tokenize_str(normalizer.normalize_str(PROSE))})
    chars = sorted({c for w in words for c in w} - set("qjxy😀狐"))
    ends = sorted({w[-n:] for w in words for n in (2, 3, 5) if len(w) > n})
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + chars + ["##" + t for t in chars + ends] + [w for w in words if len(w) > 1][::2]


def wordpiece_vectors(folder):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers as pre

    for name, lower in (("wordpiece", True), ("wordpiece_cased", False)):
        normalizer, splitter = normalizers.BertNormalizer(lowercase=lower), pre.BertPreTokenizer()
        vocab = wordpiece_vocab(normalizer, splitter)
        # GGUF's spelling: a word's first piece has a phantom space, the others lose their hashes.
        tokens = vocab[:5] + [t[2:] if t.startswith("##") else "▁" + t for t in vocab[5:]]
        types = [3] * 5 + [1] * (len(vocab) - 5)
        fields = dict(unk_token_id=1, sep_token_id=3, pad_token_id=0, mask_token_id=4, bos_token_id=2)
        if not lower:
            fields["bool"] = ("tokenizer.ggml.normalizer.lowercase", False)
        write_wordpiece(f"{folder}/{name}.gguf", tokens, types, fields)
        tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocab)}, unk_token="[UNK]"))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
        texts = TEXTS + random_texts(60, 13) + ["i" * 100, "i" * 101]
        write_ids(f"{folder}/{name}.ids", [(t, tokenizer.encode(t, add_special_tokens=False).ids) for t in texts])


def write_wordpiece(path, tokens, types, fields):
    import gguf

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    key = fields.pop("bool", None)
    for name, value in fields.items():
        getattr(writer, "add_" + name)(value)
    if key:
        writer.add_bool(*key)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def rwkv_vectors(folder):
    """RWKV's own rule, the longest token from the left, over a vocabulary of all bytes and the words of the prose."""
    words = sorted({w for line in PROSE.splitlines() for w in (line.split() + [" " + w for w in line.split()])})
    raw = [bytes([b]) for b in range(256)] + [w.encode()[:12] for w in words] + [b"\n\n", b"  ", b"\xe6\xbc", b"\\x", b"'"]
    raw = list(dict.fromkeys(raw))

    def escape(data):
        try:
            text = data.decode()
            return repr(text)[1:-1].replace("'", "\\'") if text.isprintable() else "".join(f"\\x{b:02x}" for b in data)
        except UnicodeDecodeError:
            return "".join(f"\\x{b:02x}" for b in data)

    tokens = ["<s>"] + [escape(t) for t in raw]
    write_gguf(f"{folder}/rwkv.gguf", "rwkv", tokens, [3] + [1] * len(raw))
    ids = {t: i + 1 for i, t in enumerate(raw)}
    longest = max(map(len, raw))

    def encode(text):
        data, out = text.encode(), []
        while data:
            n = next(n for n in range(longest, 0, -1) if data[:n] in ids and len(data) >= n)
            out.append(ids[data[:n]])
            data = data[n:]
        return out

    write_ids(f"{folder}/rwkv.ids", [(t, encode(t)) for t in TEXTS + random_texts(40, 17)])


def vectors(folder):
    byte_level_vectors(folder)
    gemma_vectors(folder)
    sentencepiece_vectors(folder)
    wordpiece_vectors(folder)
    rwkv_vectors(folder)


def llama_ids(vocabulary, out, count=4000, seed=23):
    import llama_library
    from llama_cpp import Llama

    model = Llama(vocabulary, vocab_only=True, verbose=False)
    texts = TEXTS + random_texts(count, seed)
    encode = lambda text: model.tokenize(text.encode(), add_bos=False, special=False)
    write_ids(out, [(t, encode(t)) for t in texts if t and "\0" not in t])


def random_ids(family, out, count=4000, seed=29):
    vocab, merges = byte_level_vocab()
    tokenizer = bpe(vocab, merges, family, family in WHOLE_WORDS, USER)
    write_ids(out, [(t, renumber(tokenizer.encode(t).ids, vocab)) for t in random_texts(count, seed)])


if __name__ == "__main__":
    mode, *paths = sys.argv[1:] or ["help"]
    if mode == "unicode":
        unicode_table(*paths)
    elif mode == "vectors":
        vectors(*paths)
    elif mode == "llama":
        llama_ids(*paths)
    elif mode == "random":
        random_ids(*paths)
    else:
        sys.exit(__doc__)
