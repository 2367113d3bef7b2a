//! Regular expressions, choices, Lark, GBNF and calls of tools: what is generated matches, and what matches can be
//! generated.

use crate::support::{BYTE_FALLBACK, BYTE_LEVEL, Random, Vocabulary};
use strata_constrain::{
    CallCount, CallMarkers, Calls, CompileError, Grammar, Preamble, Tool, ToolCalls,
};
use strata_engine::Constraint;
use strata_tokenizer::{EncodeOptions, TokenKind};

fn answers(vocabulary: &Vocabulary, grammar: &Grammar, count: u64) -> Vec<String> {
    (0..count)
        .map(|seed| {
            let mut matcher = vocabulary.compile(grammar).unwrap();
            let answer = vocabulary.random_answer(&mut matcher, &mut Random(seed + 5));
            assert!(answer.ended, "no end: {:?}", answer.text());
            answer.text().to_string()
        })
        .collect()
}

#[test]
fn answers_match_the_regular_expression_as_a_whole() {
    for pattern in [
        r"[a-z]{2,5}(-[0-9]+)?",
        r"(?i)yes|no",
        r"\d{4}/\d\d",
        r"ä+ß?\s\w",
        r#""[^"\n]{0,8}""#,
        "^anchored$",
        r"(a+)+b",
        r"price: \$[1-9][0-9]{0,2}",
    ] {
        let regex = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        for vocabulary in [&*BYTE_LEVEL, &*BYTE_FALLBACK] {
            for text in answers(vocabulary, &Grammar::Regex(pattern.into()), 12) {
                assert!(regex.is_match(&text), "{pattern}: {text:?}");
            }
        }
    }
}

#[test]
fn answers_are_one_of_the_choices_and_each_can_be_chosen() {
    let choices = [
        "yes",
        "yes, but",
        "no",
        "\"quoted\"\n",
        "naïve 日本",
        "\u{7f}",
    ];
    let grammar = Grammar::Choice(choices.map(String::from).to_vec());
    for vocabulary in [&*BYTE_LEVEL, &*BYTE_FALLBACK] {
        for text in answers(vocabulary, &grammar, 30) {
            assert!(choices.contains(&text.as_str()), "{text:?}");
        }
        for choice in choices {
            assert!(vocabulary.accepts(&grammar, choice), "{choice:?}");
        }
        assert!(!vocabulary.accepts(&grammar, "yes,"));
    }
}

const JSON: &str = r#"
# A value and the white space after it.
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= ([ \t\n] ws)?
"#;

const SUM: &str = r#"
root ::= (expr "=" ws num "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*
"#;

#[test]
fn gbnf_accepts_what_its_rules_say_and_nothing_else() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            JSON,
            &[
                "{}",
                r#"{"a": [1, -2.5e3, true], "b\n": {"c": null}}"#,
                "{ \"x\" :1}",
            ],
            &["[]", "{", r#"{"a" 1}"#, "{'a': 1}", r#"{"a": 01}"#],
        ),
        (
            SUM,
            &["a+b=3\n", "(x1 *2) -y = 17 \n1=1\n", "((a))=0\n"],
            &["a+=3\n", "a * 2=1\n", "(a=3\n", "a=b\n", ""],
        ),
        // The longest terminal is not always the right one.
        (
            "root ::= \"<\" x \">\"\nx ::= \"ab\" \"cd\" | \"abc\" \"e\" | \"(\" x \")\"",
            &["<abcd>", "<abce>", "<((abcd))>"],
            &["<abc>", "<abcde>", "<(abcd>"],
        ),
        (
            "root ::= item\nitem ::= name \" \" | name item2 | \"(\" item \")\"\nname ::= [a-z]+\nitem2 ::= [a-f0-9]+ \"!\"",
            &["abc ", "abcf!", "zz9!", "(abcf!)"],
            &["abc", "!", "z!"],
        ),
        (
            "root ::= \"a\" root \"b\" | \"\"",
            &["", "ab", "aaabbb"],
            &["aab", "abb", "ba"],
        ),
        ("root ::= root \"x\" | \"y\"", &["y", "yxxx"], &["x", "yxy"]),
        (
            "root ::= [^a-z\\n]{2,3} . \"\\u00e4\\x41\\U0001F600\"",
            &["AB\näA😀", "日本語zäA😀"],
            &["abcäA😀", "AäA😀"],
        ),
        (
            "root  ::= line+\nline ::=\n  \"- \" [^\\n]+ \"\\n\" |\n  \"* \" other \"\\n\"\nother ::= \"x\"\n        | \"y\" # or this\n",
            &["- a\n* x\n", "* y\n"],
            &["- \n", "* z\n"],
        ),
    ];
    for (source, good, bad) in cases {
        let grammar = Grammar::Gbnf((*source).into());
        for vocabulary in [&*BYTE_LEVEL, &*BYTE_FALLBACK] {
            for text in *good {
                assert!(vocabulary.accepts(&grammar, text), "{text:?} of {source}");
            }
            for text in *bad {
                assert!(
                    !vocabulary.accepts(&grammar, text),
                    "not {text:?} of {source}"
                );
            }
        }
    }
}

#[test]
fn answers_of_a_json_grammar_are_json() {
    for text in answers(&BYTE_LEVEL, &Grammar::Gbnf(JSON.into()), 25) {
        let value: Result<serde_json::Value, _> = serde_json::from_str(&text);
        assert!(value.is_ok_and(|value| value.is_object()), "{text:?}");
    }
}

#[test]
fn faults_of_gbnf_say_where() {
    let cases = [
        ("root ::= \"a", 1, 12),
        ("root ::= [a", 1, 12),
        ("root ::= (\"a\"", 1, 14),
        ("root ::= *", 1, 10),
        ("root = \"a\"", 1, 6),
        ("root ::= \"a\"\nx ::= \"\\q\"", 2, 8),
        ("root ::= \"a\"{3,2}", 1, 18),
        ("root ::= \"\\ud800\"", 1, 11),
        ("root ::= [b-a]", 1, 14),
        ("root ::= <think>", 1, 10),
        ("root ::= \"a\" )", 1, 14),
    ];
    for (source, line, column) in cases {
        match BYTE_LEVEL.compile(&Grammar::Gbnf(source.into())) {
            Err(CompileError::Syntax {
                line: l, column: c, ..
            }) => assert_eq!((l, c), (line, column), "{source}"),
            other => panic!("{source}: {other:?}"),
        }
    }
    for source in ["", "x ::= \"a\"", "root ::= missing"] {
        let error = BYTE_LEVEL.compile(&Grammar::Gbnf(source.into()));
        assert!(
            matches!(error, Err(CompileError::UnknownRule { .. })),
            "{source}: {error:?}"
        );
    }
    let twice = BYTE_LEVEL.compile(&Grammar::Gbnf("root ::= \"a\"\nroot ::= \"b\"".into()));
    assert!(matches!(twice, Err(CompileError::DuplicateRule { .. })));
    let endless = BYTE_LEVEL.compile(&Grammar::Gbnf("root ::= \"a\" root".into()));
    assert!(
        matches!(endless, Err(CompileError::Endless { .. })),
        "{endless:?}"
    );
}

#[test]
fn rules_that_multiply_are_refused_before_an_engine_sees_them() {
    let doubling = |is: &str| -> String {
        let rule = |i| format!("r{i}{is} r{} r{}\n", i + 1, i + 1);
        (0..60).map(rule).collect::<String>() + "r60" + is + " \"a\"\n"
    };
    // At once, behind choices, and where nobody has to go.
    for root in ["r0", "[ab] [cd] r0", "\"a\" | r0"] {
        let source = format!("root ::= {root}\n{}", doubling(" ::="));
        let refused = BYTE_LEVEL.compile(&Grammar::Gbnf(source));
        assert!(
            matches!(refused, Err(CompileError::LongText { .. })),
            "{refused:?}"
        );
    }
    let words: Vec<String> = (0..4000).map(|i| format!("\"w{i}\"")).collect();
    for grammar in [
        Grammar::Lark(format!("start: r0\n{}", doubling(":"))),
        Grammar::Gbnf(format!("root ::= {}", words.join(" | "))),
    ] {
        let refused = BYTE_LEVEL.compile(&grammar);
        let CompileError::Refused { reason, .. } = refused.unwrap_err() else {
            panic!("{grammar:?}");
        };
        assert!(reason.contains("exceeded its limit"), "{reason}");
    }
}

#[test]
fn lark_is_held_to_and_cannot_ask_for_what_is_not_text() {
    let grammar = Grammar::Lark(
        "start: greeting \"!\" | %json {\"type\": \"integer\", \"minimum\": 3, \"maximum\": 5}\n\
         greeting: \"hello\" | /h[ae]llo{1,3}/ # comment < \n"
            .into(),
    );
    assert!(BYTE_LEVEL.accepts(&grammar, "hallooo!"));
    assert!(BYTE_LEVEL.accepts(&grammar, "4"));
    assert!(!BYTE_LEVEL.accepts(&grammar, "6"));
    for source in [
        "start: <|endoftext|>",
        "start: <[5]>",
        "start: @other",
        "start[temperature=0.5]: \"a\"",
        "start[stop=\"a\"]: /.*/",
        "%llguidance {\"allow_invalid_utf8\": true}\nstart: \"a\"",
        "%declare X\nstart: X",
        "start: \"a",
        "start: %json {",
    ] {
        let error = BYTE_LEVEL.compile(&Grammar::Lark(source.into()));
        assert!(
            matches!(error, Err(CompileError::Syntax { .. })),
            "{source}: {error:?}"
        );
    }
    let schema = BYTE_LEVEL.compile(&Grammar::Lark("start: %json {\"not\": {}}".into()));
    assert!(matches!(schema, Err(CompileError::Unsupported { .. })));
    let unknown = BYTE_LEVEL.compile(&Grammar::Lark("start: other".into()));
    assert!(matches!(unknown, Err(CompileError::Refused { .. })));
}

fn weather(calls: Calls, count: CallCount, preamble: Preamble) -> Grammar {
    let tool = |name: &str, parameters: &str| Tool {
        name: name.into(),
        parameters: parameters.into(),
    };
    Grammar::ToolCalls(ToolCalls {
        tools: vec![
            tool(
                "weather",
                r##"{"type": "object", "properties": {"at": {"$ref": "#/$defs/city"}}, "required": ["at"],
                    "additionalProperties": false, "$defs": {"city": {"enum": ["Oslo", "Rome"]}}}"##,
            ),
            tool(
                "time",
                r#"{"type": "object", "properties": {}, "additionalProperties": false}"#,
            ),
        ],
        markers: CallMarkers::tagged("<call>", "</call>"),
        arguments_key: "arguments".into(),
        calls,
        count,
        preamble,
    })
}

const ROME: &str = "<call>\n{\"name\": \"weather\", \"arguments\": {\"at\": \"Rome\"}}\n</call>";
const TIME: &str = "<call>\n{\"name\": \"time\", \"arguments\": {}}\n</call>";

#[test]
fn calls_are_made_as_often_and_where_they_may_be() {
    let both = format!("{ROME}\n{TIME}");
    let after_text = format!("Let me see <call me>.\n{ROME}");
    let wrong = ROME.replace("Rome", "Paris");
    let cases = [
        (
            weather(Calls::Optional, CallCount::Many, Preamble::Text),
            [true, true, true, true],
        ),
        (
            weather(Calls::Optional, CallCount::One, Preamble::Text),
            [true, false, true, true],
        ),
        (
            weather(Calls::Required, CallCount::Many, Preamble::Text),
            [true, true, true, false],
        ),
        (
            weather(Calls::Required, CallCount::Many, Preamble::Nothing),
            [true, true, false, false],
        ),
        (
            weather(Calls::Required, CallCount::One, Preamble::Nothing),
            [true, false, false, false],
        ),
    ];
    for (grammar, expected) in cases {
        for vocabulary in [&*BYTE_LEVEL, &*BYTE_FALLBACK] {
            let texts = [ROME, &both, &after_text, "It is sunny."];
            let accepted = texts.map(|text| vocabulary.accepts(&grammar, text));
            assert_eq!(accepted, expected, "{} {grammar:?}", vocabulary.name);
            assert!(!vocabulary.accepts(&grammar, &wrong), "{grammar:?}");
            assert!(!vocabulary.accepts(&grammar, &format!("{ROME} and more")));
        }
    }
}

#[test]
fn a_control_token_in_a_marker_is_the_token() {
    let tokenizer = &BYTE_LEVEL.tokenizer;
    let control = (0..tokenizer.vocab_size() as u32)
        .find(|id| {
            tokenizer.kind(*id) == Some(TokenKind::Control) && !tokenizer.is_end_of_generation(*id)
        })
        .expect("a control token");
    let mut grammar = weather(Calls::Optional, CallCount::One, Preamble::Text);
    if let Grammar::ToolCalls(calls) = &mut grammar {
        calls.markers.begin = tokenizer.token_text(control).unwrap().into();
        calls.markers.end = String::new();
    }
    let mut matcher = BYTE_LEVEL.compile(&grammar).unwrap();
    for token in tokenizer.encode("Well.", EncodeOptions::default()) {
        matcher.accept(token).unwrap();
    }
    assert!(BYTE_LEVEL.mask(&mut matcher).unwrap().is_allowed(control));
    matcher.accept(control).unwrap();
    let mut forced = Vec::new();
    matcher.forced(&mut forced).unwrap();
    let text = tokenizer.decode(&forced, Default::default());
    assert!(text.starts_with("{\"name\": \""), "{text:?}");
}

#[test]
fn special_tokens_are_no_text() {
    for vocabulary in [&*BYTE_LEVEL, &*BYTE_FALLBACK] {
        let mut matcher = vocabulary
            .compile(&Grammar::Regex("(?s)x.*".into()))
            .unwrap();
        matcher.accept(first(vocabulary, "x")).unwrap();
        let mask = vocabulary.mask(&mut matcher).unwrap();
        for id in 0..mask.vocabulary() as u32 {
            let text = matches!(
                vocabulary.tokenizer.kind(id),
                Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte)
            );
            if mask.is_allowed(id) && !vocabulary.tokenizer.is_end_of_generation(id) {
                assert!(text, "{id} is allowed");
            }
        }
        let mut string = vocabulary
            .compile(&Grammar::JsonSchema("{\"type\": \"string\"}".into()))
            .unwrap();
        string.accept(first(vocabulary, "\"")).unwrap();
        let mask = vocabulary.mask(&mut string).unwrap();
        for end in vocabulary.tokenizer.end_of_generation() {
            assert!(!mask.is_allowed(*end), "inside a string");
        }
    }
}

/// The token that spells a character by itself.
fn first(vocabulary: &Vocabulary, text: &str) -> u32 {
    (0..vocabulary.tokenizer.vocab_size() as u32)
        .find(|id| {
            vocabulary.tokenizer.kind(*id) != Some(TokenKind::Byte)
                && vocabulary.tokenizer.token_bytes(*id).as_deref() == Some(text.as_bytes())
        })
        .expect("a token")
}

#[test]
fn forced_tokens_spell_the_text_as_the_tokenizer_does() {
    let text = "once upon a time there was a king";
    for vocabulary in [&*BYTE_LEVEL, &*BYTE_FALLBACK] {
        let grammar = Grammar::Choice(vec![text.into()]);
        let mut matcher = vocabulary.compile(&grammar).unwrap();
        let mut forced = Vec::new();
        matcher.forced(&mut forced).unwrap();
        let mut again = Vec::new();
        matcher.forced(&mut again).unwrap();
        assert_eq!(forced, again, "asking takes nothing");
        let words = vocabulary
            .tokenizer
            .encode(&format!("\n{text}"), EncodeOptions::default());
        assert!(words.ends_with(&forced[1..]), "{words:?} {forced:?}");
        for (i, token) in forced.iter().enumerate() {
            let mask = vocabulary.mask(&mut matcher).unwrap();
            assert_eq!(
                (mask.count(), mask.is_allowed(*token)),
                (1, true),
                "token {i}"
            );
            assert!(matcher.accept(token ^ 1).is_err(), "another token");
            matcher.accept(*token).unwrap();
        }
        assert!(matcher.is_complete());
        let end = vocabulary.tokenizer.end_of_generation();
        let mask = vocabulary.mask(&mut matcher).unwrap();
        assert_eq!(mask.count(), end.len());
        matcher.accept(end[0]).unwrap();
    }
}

#[test]
fn a_fork_goes_its_own_way_and_the_original_is_as_it_was() {
    let grammar = Grammar::JsonObject;
    let mut original = BYTE_LEVEL.compile(&grammar).unwrap();
    let mut random = Random(3);
    for _ in 0..8 {
        let mask = BYTE_LEVEL.mask(&mut original).unwrap();
        let allowed: Vec<u32> = (0..mask.vocabulary() as u32)
            .filter(|id| mask.is_allowed(*id) && !BYTE_LEVEL.tokenizer.is_end_of_generation(*id))
            .collect();
        let mut fork = original.clone();
        assert_eq!(BYTE_LEVEL.mask(&mut fork).unwrap(), mask);
        let token = allowed[random.below(allowed.len())];
        fork.accept(allowed[random.below(allowed.len())]).unwrap();
        assert_eq!(BYTE_LEVEL.mask(&mut original).unwrap(), mask);
        original.accept(token).unwrap();
        if original.is_complete() {
            break;
        }
    }
}
