//! The published patterns, family by family, as stages.

use super::super::unicode::{L, M, N, NEWLINE, P, S, WS};
use super::alt::{Alt, Boundary, Case, Han, Lead};
use super::{Set, Stage};

const NUMBER: Set = Set::of(N);
const LETTER: Set = Set::of(L);
const MAYBE_SPACE: Lead = Lead::Maybe(Set::SPACE);
/// `[^\r\n\p{L}\p{N}]?`
const MAYBE_OTHER: Lead = Lead::Maybe(Set::not(NEWLINE | L | N));
/// `[^\s\p{L}\p{N}]`
const SYMBOL: Set = Set::not(WS | L | N);
const ASCII_DIGIT: Set = Set::ranges(&[('0', '9')]);

const CONTRACTION: Alt = Alt::Contraction(Case::Folded);
/// `[^\r\n\p{L}\p{N}]?\p{L}+`
const WORD: Alt = Alt::led(MAYBE_OTHER, LETTER);
/// ` ?[^\s\p{L}\p{N}]+[\r\n]*`
const SYMBOLS: Alt = Alt::tailed(MAYBE_SPACE, SYMBOL, Set::NEWLINE);
/// ` ?[^\s\p{L}\p{N}]+[\r\n/]*`
const SYMBOLS_SLASH: Alt = Alt::tailed(MAYBE_SPACE, SYMBOL, Set::NEWLINE.with(&[('/', '/')]));
const ONE_NUMBER: Alt = Alt::group(NUMBER, 1, 1);
const THREE_NUMBERS: Alt = Alt::group(NUMBER, 1, 3);
const CASED: Alt = Alt::CasedWord {
    contraction: true,
    han: Han::Letters,
};

const GPT2_WORDS: Stage = Stage::Match(&[
    Alt::Contraction(Case::Exact),
    Alt::led(MAYBE_SPACE, LETTER),
    Alt::led(MAYBE_SPACE, NUMBER),
    Alt::led(MAYBE_SPACE, SYMBOL),
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
]);
const EACH_NUMBER: Stage = Stage::Match(&[ONE_NUMBER]);
const NUMBERS_BY_THREE: Stage = Stage::Match(&[THREE_NUMBERS]);
const THREE_ASCII_DIGITS: Stage = Stage::Match(&[Alt::group(ASCII_DIGIT, 3, 3)]);
const LINES: Stage = Stage::Match(&[Alt::run(Set::ranges(&[('\n', '\n')]))]);
const QWEN2_WORDS: Stage = Stage::Match(&[
    CONTRACTION,
    WORD,
    ONE_NUMBER,
    SYMBOLS,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
]);

pub(super) const GPT2: &[Stage] = &[GPT2_WORDS];

/// `[\p{P}\$\+<=>\^~\|]+`, then GPT-2, then numbers apart and by three ASCII digits.
pub(super) const DEFAULT: &[Stage] = &[
    Stage::Match(&[Alt::run(Set::of(P).with(&[
        ('$', '$'),
        ('+', '+'),
        ('<', '>'),
        ('^', '^'),
        ('|', '|'),
        ('~', '~'),
    ]))]),
    GPT2_WORDS,
    Stage::Match(&[Alt::run(NUMBER)]),
    THREE_ASCII_DIGITS,
];

pub(super) const FALCON: &[Stage] = &[
    Stage::Match(&[Alt::run(Set::of(P).with(&[
        ('$', '$'),
        ('+', '+'),
        ('<', '>'),
        ('^', '^'),
        ('`', '`'),
        ('|', '|'),
        ('~', '~'),
    ]))]),
    GPT2_WORDS,
    THREE_ASCII_DIGITS,
];

/// Each number by itself, then GPT-2.
pub(super) const STARCODER: &[Stage] = &[EACH_NUMBER, GPT2_WORDS];

pub(super) const LLAMA3: &[Stage] = &[Stage::Match(&[
    CONTRACTION,
    WORD,
    THREE_NUMBERS,
    SYMBOLS,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

pub(super) const JAIS2: &[Stage] = &[Stage::Match(&[
    CONTRACTION,
    WORD,
    THREE_NUMBERS,
    SYMBOLS,
    Alt::LineEnd,
    Alt::SpaceLadder,
])];

pub(super) const MINICPM5: &[Stage] = &[
    NUMBERS_BY_THREE,
    Stage::Match(&[
        CONTRACTION,
        WORD,
        Alt::run(NUMBER),
        SYMBOLS,
        Alt::LineEnd,
        Alt::SpaceBeforeSpace,
        Alt::Spaces,
    ]),
];

/// Also bailingmoe's: its `\s*[\r\n]` ends where `\s*[\r\n]+` does, and its possessive quantifiers change nothing.
pub(super) const QWEN2: &[Stage] = &[QWEN2_WORDS];

pub(super) const LAGUNA: &[Stage] = &[LINES, QWEN2_WORDS];

/// Qwen2 without contractions.
pub(super) const UFAKZEKA: &[Stage] = &[Stage::Match(&[
    WORD,
    ONE_NUMBER,
    SYMBOLS,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

/// Qwen2 with marks counted among the letters.
pub(super) const QWEN35: &[Stage] = &[Stage::Match(&[
    CONTRACTION,
    Alt::led(MAYBE_OTHER, Set::of(L | M)),
    ONE_NUMBER,
    Alt::tailed(MAYBE_SPACE, Set::not(WS | L | M | N), Set::NEWLINE),
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

/// Qwen2 whose symbols do not take the line ends after them.
pub(super) const SEED_CODER: &[Stage] = &[Stage::Match(&[
    CONTRACTION,
    WORD,
    ONE_NUMBER,
    Alt::led(MAYBE_SPACE, SYMBOL),
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

pub(super) const EXAONE_MOE: &[Stage] = &[Stage::Match(&[
    CONTRACTION,
    Alt::Phrase,
    ONE_NUMBER,
    Alt::Run {
        lead: MAYBE_SPACE,
        set: SYMBOL,
        min: 1,
        max: u32::MAX,
        tail: Set::NEWLINE.with(&[('/', '/')]),
        tail_max: 1,
    },
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

pub(super) const O200K: &[Stage] = &[O200K_WORDS];
const O200K_WORDS: Stage = Stage::Match(&[
    CASED,
    THREE_NUMBERS,
    SYMBOLS_SLASH,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
]);

/// `\d{1,3}(?=(?:\d{3})*\b)`, then o200k.
pub(super) const TINY_AYA: &[Stage] = &[
    Stage::Match(&[Alt::DigitsFromEnd(Boundary::Word)]),
    O200K_WORDS,
];

pub(super) const TEKKEN: &[Stage] = &[Stage::Match(&[
    Alt::CasedWord {
        contraction: false,
        han: Han::Letters,
    },
    ONE_NUMBER,
    SYMBOLS_SLASH,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

pub(super) const KIMI_K2: &[Stage] = &[Stage::Match(&[
    Alt::run(Set::of(super::super::unicode::HAN)),
    Alt::CasedWord {
        contraction: true,
        han: Han::Apart,
    },
    THREE_NUMBERS,
    SYMBOLS,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
])];

/// Hangul, CJK punctuation, Bopomofo and Han with kana each apart, then o200k with single numbers.
pub(super) const YOUTU: &[Stage] = &[
    Stage::Match(&[
        Alt::run(Set::ranges(&[('ㄱ', 'ㆎ'), ('가', '힣')])),
        Alt::run(Set::ranges(&[
            ('—', '—'),
            ('‘', '’'),
            ('“', '”'),
            ('…', '…'),
            ('、', '〿'),
            ('︰', '﹏'),
            ('！', '！'),
            ('，', '，'),
            ('：', '；'),
        ])),
        Alt::run(Set::ranges(&[('ㄅ', 'ㄯ')])),
        Alt::run(CJK_KANA),
    ]),
    Stage::Match(&[
        CASED,
        ONE_NUMBER,
        SYMBOLS_SLASH,
        Alt::LineEnd,
        Alt::SpaceBeforeSpace,
        Alt::Spaces,
    ]),
];

/// `[一-龥぀-ゟ゠-ヿ]`
const CJK_KANA: Set = Set::ranges(&[('\u{3040}', '\u{30ff}'), ('一', '龥')]);
/// `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+`
const ASCII_SYMBOL_WORD: Alt = Alt::led(
    Lead::Must(Set::ranges(&[
        ('!', '/'),
        (':', '@'),
        ('[', '`'),
        ('{', '~'),
    ])),
    Set::ranges(&[('A', 'Z'), ('a', 'z')]),
);
/// `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`
const MARKED_WORD: Alt = Alt::led(Lead::Maybe(Set::not(NEWLINE | L | P | S)), Set::of(L | M));
/// ` ?[\p{P}\p{S}]+[\r\n]*`
const PUNCTUATION: Alt = Alt::tailed(MAYBE_SPACE, Set::of(P | S), Set::NEWLINE);
const DEEPSEEK_WORDS: Stage = Stage::Match(&[
    ASCII_SYMBOL_WORD,
    MARKED_WORD,
    PUNCTUATION,
    Alt::LineEnd,
    Alt::SpaceBeforeSpace,
    Alt::Spaces,
]);

pub(super) const DEEPSEEK3: &[Stage] = &[
    NUMBERS_BY_THREE,
    Stage::Match(&[Alt::run(CJK_KANA)]),
    DEEPSEEK_WORDS,
];

pub(super) const SPARK: &[Stage] = &[
    NUMBERS_BY_THREE,
    Stage::Match(&[Alt::run(CJK_KANA)]),
    Stage::Match(&[
        ASCII_SYMBOL_WORD,
        MARKED_WORD,
        Alt::led(MAYBE_SPACE, Set::of(P | S)),
        Alt::group(Set::NEWLINE, 1, 1),
        Alt::SpaceBeforeSpace,
        Alt::Spaces,
    ]),
    EACH_NUMBER,
];

/// Numbers by three from their end, the scripts written without spaces, then DeepSeek-V3's words.
pub(super) const AFMOE: &[Stage] = &[
    Stage::Match(&[Alt::DigitsFromEnd(Boundary::Any)]),
    Stage::Match(&[Alt::run(Set::ranges(&[
        ('เ', '\u{e7f}'),
        ('\u{e80}', '\u{eff}'),
        ('\u{1000}', '\u{109f}'),
        ('\u{1100}', '\u{11ff}'),
        ('\u{1780}', '\u{17ff}'),
        ('\u{2f00}', '\u{2fdf}'),
        ('\u{3040}', '\u{30ff}'),
        ('\u{3400}', '\u{4dbf}'),
        ('\u{4e00}', '\u{9fff}'),
        ('\u{a9e0}', '\u{a9ff}'),
        ('\u{aa60}', '\u{aa7f}'),
        ('\u{ac00}', '\u{d7af}'),
        ('\u{f900}', '\u{faff}'),
        ('\u{ff65}', '\u{ff9f}'),
    ]))]),
    DEEPSEEK_WORDS,
];

const EACH_NEWLINE: Stage = Stage::Match(&[Alt::group(Set::NEWLINE, 1, 1)]);
/// `[一-龥ࠀ-一가-퟿]+`
const CJK: Stage = Stage::Match(&[Alt::run(Set::ranges(&[
    ('\u{800}', '龥'),
    ('가', '\u{d7ff}'),
]))]);

pub(super) const DEEPSEEK_CODER: &[Stage] = &[
    EACH_NEWLINE,
    Stage::Match(&[Alt::led(Lead::Maybe(Set::WS), LETTER)]),
    Stage::Match(&[Alt::led(Lead::Maybe(Set::WS), Set::of(P))]),
    CJK,
    EACH_NUMBER,
];

pub(super) const DEEPSEEK_LLM: &[Stage] = &[
    EACH_NEWLINE,
    Stage::Match(&[Alt::led(Lead::Maybe(Set::WS), Set::ranges(CASED_ALPHABETS))]),
    Stage::Match(&[Alt::led(
        Lead::Maybe(Set::WS),
        Set::ranges(&[
            ('!', '/'),
            (':', '~'),
            ('‘', '‟'),
            ('\u{3000}', '。'),
            ('！', '／'),
            ('：', '～'),
        ]),
    )]),
    Stage::Match(&[Alt::SpacesAtEnd]),
    CJK,
    Stage::Match(&[Alt::run(NUMBER)]),
];

/// ` ?[^(\s|.,!?…。，、।۔،)]+`
const BLOOM_WORDS: Stage = Stage::Match(&[Alt::led(
    MAYBE_SPACE,
    Set::not(WS).without(&[
        ('!', '!'),
        ('(', ')'),
        (',', ','),
        ('.', '.'),
        ('?', '?'),
        ('|', '|'),
        ('،', '،'),
        ('۔', '۔'),
        ('।', '।'),
        ('…', '…'),
        ('、', '。'),
        ('，', '，'),
    ]),
)]);
pub(super) const BLOOM: &[Stage] = &[BLOOM_WORDS];
pub(super) const VIKING: &[Stage] = &[BLOOM_WORDS, EACH_NUMBER];

pub(super) const CHAMELEON: &[Stage] = &[
    Stage::Match(&[Alt::Tag {
        open: "<sentinel:",
        set: ASCII_DIGIT,
        max: u32::MAX,
        close: ">",
    }]),
    Stage::Match(&[Alt::Tag {
        open: "IMGIMG",
        set: Set::ranges(&[('A', 'I')]),
        max: 4,
        close: "Z",
    }]),
    Stage::Match(&[
        Alt::group(Set::ranges(&[('\t', '\n')]), 1, 1),
        Alt::Literal("    "),
        Alt::Literal("  "),
    ]),
    EACH_NUMBER,
    Stage::Match(&[Alt::group(
        Set::of(P).with(&[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
        1,
        1,
    )]),
    GPT2_WORDS,
];

pub(super) const SUPERBPE: &[Stage] = &[Stage::Match(&[Alt::run(NUMBER)]), Stage::Thousands];

/// Whole lines: merges run over everything between line feeds.
pub(super) const GEMMA4: &[Stage] = &[LINES];

pub(super) const WHITESPACE: &[Stage] = &[Stage::Keep(&[Alt::run(Set::not(WS))])];

#[rustfmt::skip]
/// The letters of the alphabets that have case, as the first DeepSeek models list them.
const CASED_ALPHABETS: &[(char, char)] = &[
    ('A', 'Z'), ('a', 'z'), ('\u{b5}', '\u{b5}'), ('\u{c0}', '\u{d6}'), ('\u{d8}', '\u{f6}'),
    ('\u{f8}', '\u{1ba}'), ('\u{1bc}', '\u{1bf}'), ('\u{1c4}', '\u{293}'), ('\u{295}', '\u{2af}'),
    ('\u{370}', '\u{373}'), ('\u{376}', '\u{376}'), ('\u{377}', '\u{377}'), ('\u{37b}', '\u{37d}'),
    ('\u{37f}', '\u{37f}'), ('\u{386}', '\u{386}'), ('\u{388}', '\u{38a}'), ('\u{38c}', '\u{38c}'),
    ('\u{38e}', '\u{3a1}'), ('\u{3a3}', '\u{3f5}'), ('\u{3f7}', '\u{481}'), ('\u{48a}', '\u{52f}'),
    ('\u{531}', '\u{556}'), ('\u{10a0}', '\u{10c5}'), ('\u{13a0}', '\u{13f5}'),
    ('\u{13f8}', '\u{13fd}'), ('\u{1c90}', '\u{1cba}'), ('\u{1cbd}', '\u{1cbf}'),
    ('\u{1d00}', '\u{1d2b}'), ('\u{1d6b}', '\u{1d77}'), ('\u{1d79}', '\u{1d9a}'),
    ('\u{1e00}', '\u{1f15}'), ('\u{1f18}', '\u{1f1d}'), ('\u{1f20}', '\u{1f45}'),
    ('\u{1f48}', '\u{1f4d}'), ('\u{1f50}', '\u{1f57}'), ('\u{1f59}', '\u{1f59}'),
    ('\u{1f5b}', '\u{1f5b}'), ('\u{1f5d}', '\u{1f5d}'), ('\u{1f5f}', '\u{1f7d}'),
    ('\u{1f80}', '\u{1fb4}'), ('\u{1fb6}', '\u{1fbc}'), ('\u{1fbe}', '\u{1fbe}'),
    ('\u{1fc2}', '\u{1fc4}'), ('\u{1fc6}', '\u{1fcc}'), ('\u{1fd0}', '\u{1fd3}'),
    ('\u{1fd6}', '\u{1fdb}'), ('\u{1fe0}', '\u{1fec}'), ('\u{1ff2}', '\u{1ff4}'),
    ('\u{1ff6}', '\u{1ffc}'), ('\u{2102}', '\u{2102}'), ('\u{2107}', '\u{2107}'),
    ('\u{210a}', '\u{2113}'), ('\u{2115}', '\u{2115}'), ('\u{2119}', '\u{211d}'),
    ('\u{2124}', '\u{2124}'), ('\u{2126}', '\u{2126}'), ('\u{2128}', '\u{2128}'),
    ('\u{212a}', '\u{212d}'), ('\u{212f}', '\u{2134}'), ('\u{2139}', '\u{2139}'),
    ('\u{213c}', '\u{213f}'), ('\u{2145}', '\u{2149}'), ('\u{214e}', '\u{214e}'),
    ('\u{2183}', '\u{2183}'), ('\u{2184}', '\u{2184}'), ('\u{2c00}', '\u{2c7b}'),
    ('\u{2c7e}', '\u{2ce4}'), ('\u{2ceb}', '\u{2cee}'), ('\u{2cf2}', '\u{2cf2}'),
    ('\u{2cf3}', '\u{2cf3}'), ('\u{a640}', '\u{a66d}'), ('\u{a680}', '\u{a69b}'),
    ('\u{a722}', '\u{a76f}'), ('\u{a771}', '\u{a787}'), ('\u{a78b}', '\u{a78e}'),
    ('\u{ab70}', '\u{abbf}'), ('\u{fb00}', '\u{fb06}'), ('\u{fb13}', '\u{fb17}'),
    ('\u{ff21}', '\u{ff3a}'), ('\u{ff41}', '\u{ff5a}'), ('\u{10400}', '\u{1044f}'),
    ('\u{104b0}', '\u{104d3}'), ('\u{104d8}', '\u{104fb}'), ('\u{10c80}', '\u{10cb2}'),
    ('\u{10cc0}', '\u{10cf2}'), ('\u{118a0}', '\u{118df}'), ('\u{1e900}', '\u{1e943}'),
];
