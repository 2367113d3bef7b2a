//! Grammars in each of their languages: refused with an error, or followed for a few tokens.

use crate::outcome::magnitude;
use crate::{Outcome, Target, corpus};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;
use strata_constrain::{Compiler, Grammar, Limits};
use strata_engine::{Constraint, TokenMask};
use strata_tokenizer::Tokenizer;
use strata_weights::Gguf;

/// Tokens that a grammar is followed for.
const TOKENS: usize = 12;

pub(super) const GBNF: Target = Target {
    words: &[
        "root ::= ",
        "::=",
        "|",
        "*",
        "+",
        "?",
        "(",
        ")",
        "[^",
        "]",
        "\"",
        "\\x41",
        "\\u00e9",
        "{2,5}",
        "{0,}",
        "\n",
        "#",
        ".",
        "a-z",
        "-",
    ],
    ..Target::new(
        "gbnf",
        "a grammar in llama.cpp's language to the compiler; what it accepts is followed",
        |bytes| grammar(bytes, Grammar::Gbnf),
    )
};

pub(super) const JSON_SCHEMA: Target = Target {
    words: &[
        "\"type\":",
        "\"object\"",
        "\"array\"",
        "\"string\"",
        "\"integer\"",
        "\"properties\":",
        "\"required\":",
        "\"items\":",
        "\"anyOf\":",
        "\"allOf\":",
        "\"oneOf\":",
        "\"not\":",
        "\"enum\":",
        "\"const\":",
        "\"$ref\":",
        "\"#/$defs/a\"",
        "\"$defs\":",
        "\"pattern\":",
        "\"minLength\":",
        "\"maxItems\":",
        "\"additionalProperties\":",
        "\"format\":",
        "\"date-time\"",
        "\"minimum\":",
        "\"multipleOf\":",
        "{",
        "}",
        "[",
        "]",
        ",",
        "true",
        "false",
    ],
    ..Target::new(
        "json_schema",
        "a JSON schema to the compiler; what it accepts is followed",
        |bytes| grammar(bytes, Grammar::JsonSchema),
    )
};

pub(super) const REGEX: Target = Target {
    words: &[
        "(", ")", "[", "]", "{2,}", "{0,9}", "|", "*", "+?", "\\d", "\\p{L}", "\\b", "^", "$",
        "(?i)", "(?:", "(?=", ".", "\\", "[^a]", "&&",
    ],
    ..Target::new(
        "regex",
        "a regular expression to the compiler of grammars; what it accepts is followed",
        |bytes| grammar(bytes, Grammar::Regex),
    )
};

pub(super) const LARK: Target = Target {
    words: &[
        "start: ",
        ":",
        "|",
        "\n",
        "/a+/",
        "\"x\"",
        "%json",
        "%regex",
        "%ignore",
        "%import common.INT",
        "(",
        ")",
        "*",
        "~2..5",
        "[capture]",
        "[max_tokens=3]",
        "[stop=\"a\"]",
        "&",
        "->",
        "_",
        "A: ",
        "<[1-9]>",
    ],
    ..Target::new(
        "lark",
        "a grammar in Lark's language to the compiler; what it accepts is followed",
        |bytes| grammar(bytes, Grammar::Lark),
    )
};

struct Constrained {
    tokenizer: Tokenizer,
    compiler: Compiler,
    local: Mutex<strata_grammar::Compiler>,
}

static CONSTRAINED: LazyLock<Constrained> = LazyLock::new(|| {
    let path = corpus::repository().join("crates/tokenizer/tests/vectors/spm.gguf");
    let bytes = std::fs::read(path).expect("a committed file");
    let gguf = Gguf::parse(&bytes).expect("a good file");
    let tokenizer = Tokenizer::from_gguf(gguf.metadata()).expect("a good vocabulary");
    // Nothing is kept: each input is compiled.
    let compiler = Compiler::with_cache(&tokenizer, 0).expect("a vocabulary that serves");
    let local = strata_grammar::Compiler::new(&tokenizer).expect("a vocabulary that serves");
    Constrained {
        tokenizer,
        compiler,
        local: Mutex::new(local),
    }
});

fn grammar(bytes: &[u8], kind: fn(String) -> Grammar) -> Outcome {
    let Ok(source) = str::from_utf8(bytes) else {
        return Outcome::ignored();
    };
    let limits = Limits {
        time: Duration::from_millis(500),
        token_time: Duration::from_millis(100),
        ..Limits::default()
    };
    let Constrained {
        tokenizer,
        compiler,
        local,
    } = &*CONSTRAINED;
    let grammar = kind(source.into());
    let compiled = compiler.compile(&grammar, limits);
    // The matcher of bare metal, which nothing could stop.
    let ours = local
        .lock()
        .map(|mut local| local.compile(&grammar, limits));
    if let Ok(Ok(mut ours)) = ours
        && let Err(refused) = follow(&mut ours, tokenizer, bytes)
    {
        return refused;
    }
    // What ran out of time is this input's still, not the next one's.
    while compiler.running() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut matcher = match compiled {
        Ok(matcher) => matcher,
        Err(error) => return Outcome::refused_at_length(&error),
    };
    match follow(&mut matcher, tokenizer, bytes) {
        Ok(Some(step)) => Outcome::taken((step, "complete")),
        Ok(None) => Outcome::taken(magnitude(source.len())),
        Err(outcome) => outcome,
    }
}

/// Follows a grammar for some tokens. Says after how many it was complete.
fn follow(
    matcher: &mut dyn Constraint,
    tokenizer: &Tokenizer,
    bytes: &[u8],
) -> Result<Option<usize>, Outcome> {
    for step in 0..TOKENS {
        let mut mask = TokenMask::new(tokenizer.vocab_size());
        if let Err(error) = matcher.allowed(&mut mask) {
            return Err(Outcome::refused_at_length(&error));
        }
        // Another of the allowed ones each time, as the input says.
        let allowed: Vec<u32> = (0..tokenizer.vocab_size() as u32)
            .filter(|&token| mask.is_allowed(token))
            .collect();
        let choice = bytes.get(step).copied().unwrap_or_default() as usize;
        let Some(&token) = allowed.get(choice % allowed.len().max(1)) else {
            return Err(Outcome::taken((step, "nothing may follow")));
        };
        if let Err(error) = matcher.accept(token) {
            return Err(Outcome::refused_at_length(&error));
        }
        if matcher.is_complete() {
            return Ok(Some(step));
        }
    }
    Ok(None)
}
