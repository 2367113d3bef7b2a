//! Grammars as `llguidance` reads them.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use llguidance::regex_to_lark;
use serde_json::{Value, json};
use strata_grammar::patterns::{Regexes, check_regex, without_anchors};
use strata_grammar::{
    CallCount, Calls, CompileError, Grammar, LINES, Limits, MarkerPart, ONE_LINE, Preamble,
    ToolCalls, cut_marker, schema,
};

use crate::gbnf;
use crate::lark::{self, escaped, literal};
use crate::vocabulary::Vocabulary;

/// Checks a grammar and writes it down for the library.
pub(crate) fn write(
    grammar: &Grammar,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<TopLevelGrammar, CompileError> {
    let written = match grammar {
        Grammar::JsonObject => {
            GrammarWithLexer::from_json_schema(with_style(schema::object(), LINES))
        }
        Grammar::JsonSchema(source) => {
            let schema = schema::prepare(source, limits)?;
            GrammarWithLexer::from_json_schema(with_style(schema, LINES))
        }
        Grammar::Regex(regex) => {
            let regex = without_anchors(regex);
            if regex.is_empty() {
                return Err(CompileError::Empty {
                    what: "the regular expression",
                });
            }
            check_regex(regex, "the regular expression", limits, Regexes::Whole)?;
            GrammarWithLexer::from_lark(format!("start: /{}/", regex_to_lark(regex, "")))
        }
        Grammar::Lark(source) => GrammarWithLexer::from_lark(lark::prepare(source, limits)?),
        Grammar::Gbnf(source) => GrammarWithLexer::from_lark(gbnf::to_lark(source, limits)?),
        Grammar::Choice(texts) => GrammarWithLexer::from_lark(choice(texts)?),
        Grammar::ToolCalls(calls) => {
            GrammarWithLexer::from_lark(tool_calls(calls, vocabulary, limits)?)
        }
    };
    Ok(TopLevelGrammar::from_grammar(written))
}

/// How JSON is written. No `\u` escapes: with them a property's name could be spelled in a second way that its schema
/// does not see.
pub(crate) fn with_style(mut schema: Value, space: &str) -> Value {
    if let Value::Object(map) = &mut schema {
        map.insert(
            "x-guidance".into(),
            json!({
                "whitespace_pattern": space,
                "json_allowed_escapes": "nrbtf\\\"",
            }),
        );
    }
    schema
}

fn choice(texts: &[String]) -> Result<String, CompileError> {
    if texts.is_empty() {
        return Err(CompileError::Empty {
            what: "the list of choices",
        });
    }
    if texts.iter().any(String::is_empty) {
        return Err(CompileError::Empty { what: "a choice" });
    }
    // One terminal, so that a choice may begin another.
    let texts: Vec<String> = texts.iter().map(|text| literal(text)).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}", texts.join(" | ")))
}

fn tool_calls(
    calls: &ToolCalls,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<String, CompileError> {
    if calls.tools.is_empty() {
        return Err(CompileError::Empty {
            what: "the list of tools",
        });
    }
    let text = calls.calls == Calls::Optional || calls.preamble == Preamble::Text;
    if text && calls.markers.begin.is_empty() {
        return Err(CompileError::Empty {
            what: "the marker in front of calls that text may precede",
        });
    }
    let begin = cut_marker(&calls.markers.begin, vocabulary.words());
    let mut rules = vec![opening(calls, &begin)];
    let more = match calls.count {
        CallCount::One => String::new(),
        CallCount::Many => {
            let between = join(&cut_marker(&calls.markers.between, vocabulary.words()));
            format!(" ({between} call)*")
        }
    };
    let end = join(&cut_marker(&calls.markers.end, vocabulary.words()));
    rules.push(format!("calls: call{more} {end}"));
    let names: Vec<String> = (0..calls.tools.len())
        .map(|i| format!("call_{i}"))
        .collect();
    rules.push(format!("call: {}", names.join(" | ")));
    for (name, tool) in names.iter().zip(&calls.tools) {
        let arguments = with_style(schema::prepare(&tool.parameters, limits)?, ONE_LINE);
        let open = format!(
            "{{\"name\": {}, {}: ",
            Value::from(tool.name.as_str()),
            Value::from(calls.arguments_key.as_str())
        );
        rules.push(format!(
            "{name}: {} %json {arguments} \"}}\"",
            literal(&open)
        ));
    }
    Ok(rules.join("\n"))
}

/// What comes before the calls, up to the end of the first marker.
fn opening(calls: &ToolCalls, begin: &[MarkerPart]) -> String {
    let mut rules = Vec::new();
    let mut starts = Vec::new();
    match (begin, calls.preamble) {
        // The token ends the text in front of it.
        ([MarkerPart::Token(_), ..], Preamble::Text) => {
            starts.push(format!("TEXT? {} calls", join(begin)));
            rules.push("TEXT: /(?s:.+)/".to_string());
        }
        (_, Preamble::Nothing) => starts.push(format!("{} calls", join(begin))),
        ([MarkerPart::Text(marker), rest @ ..], Preamble::Text) => {
            starts.push(format!("opening {} calls", join(rest)));
            rules.push(format!("opening[lazy]: /(?s:.*){}/", escaped(marker)));
        }
        ([], Preamble::Text) => starts.push("calls".to_string()),
    }
    if calls.calls == Calls::Optional {
        starts.push("PLAIN".to_string());
        rules.push(match (begin, calls.preamble) {
            ([MarkerPart::Text(marker), ..], Preamble::Text) => {
                let marker = escaped(marker);
                format!("PLAIN: /(?s:.+)/ & ~/(?s:.*){marker}(?s:.*)/")
            }
            ([MarkerPart::Text(marker), ..], Preamble::Nothing) => {
                format!("PLAIN: /(?s:.+)/ & ~/{}(?s:.*)/", escaped(marker))
            }
            _ => "PLAIN: /(?s:.+)/".to_string(),
        });
    }
    rules.insert(0, format!("start: {}", starts.join(" | ")));
    rules.join("\n")
}

fn join(parts: &[MarkerPart]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            MarkerPart::Text(text) => literal(text),
            MarkerPart::Token(id) => format!("<[{id}]>"),
        })
        .collect();
    if parts.is_empty() {
        "\"\"".to_string()
    } else {
        parts.join(" ")
    }
}
