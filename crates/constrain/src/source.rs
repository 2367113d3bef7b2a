//! Grammars as `llguidance` reads them.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use llguidance::regex_to_lark;
use strata_tokenizer::TokenKind;

use crate::error::CompileError;
use crate::grammar::{CallCount, Calls, Grammar, Preamble, ToolCalls};
use crate::lark::{self, Regexes, escaped, literal};
use crate::limits::Limits;
use crate::vocabulary::Vocabulary;
use crate::{gbnf, layout, schema};

/// Checks a grammar and writes it down for the library.
pub(crate) fn write(
    grammar: &Grammar,
    vocabulary: &Vocabulary,
    limits: &Limits,
) -> Result<TopLevelGrammar, CompileError> {
    let written = match grammar {
        Grammar::JsonObject => GrammarWithLexer::from_json_schema(schema::object()),
        Grammar::JsonSchema(source) => {
            GrammarWithLexer::from_json_schema(schema::prepare(source, layout::LINES, limits)?)
        }
        Grammar::Regex(regex) => {
            let regex = lark::without_anchors(regex);
            if regex.is_empty() {
                return Err(CompileError::Empty {
                    what: "the regular expression",
                });
            }
            lark::check_regex(regex, "the regular expression", limits, Regexes::Whole)?;
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
    let begin = marker(&calls.markers.begin, vocabulary);
    let mut rules = vec![opening(calls, &begin)];
    let more = match calls.count {
        CallCount::One => String::new(),
        CallCount::Many => {
            let between = join(&marker(&calls.markers.between, vocabulary));
            format!(" ({between} call)*")
        }
    };
    let end = join(&marker(&calls.markers.end, vocabulary));
    rules.push(format!("calls: call{more} {end}"));
    let names: Vec<String> = (0..calls.tools.len())
        .map(|i| format!("call_{i}"))
        .collect();
    rules.push(format!("call: {}", names.join(" | ")));
    for (name, tool) in names.iter().zip(&calls.tools) {
        let arguments = schema::prepare(&tool.parameters, layout::ONE_LINE, limits)?;
        let open = format!(
            "{{\"name\": {}, {}: ",
            serde_json::Value::from(tool.name.as_str()),
            serde_json::Value::from(calls.arguments_key.as_str())
        );
        rules.push(format!(
            "{name}: {} %json {arguments} \"}}\"",
            literal(&open)
        ));
    }
    Ok(rules.join("\n"))
}

/// What comes before the calls, up to the end of the first marker.
fn opening(calls: &ToolCalls, begin: &[Part]) -> String {
    let mut rules = Vec::new();
    let mut starts = Vec::new();
    match (begin, calls.preamble) {
        // The token ends the text in front of it.
        ([Part::Token(_), ..], Preamble::Text) => {
            starts.push(format!("TEXT? {} calls", join(begin)));
            rules.push("TEXT: /(?s:.+)/".to_string());
        }
        (_, Preamble::Nothing) => starts.push(format!("{} calls", join(begin))),
        ([Part::Text(marker), rest @ ..], Preamble::Text) => {
            starts.push(format!("opening {} calls", join(rest)));
            rules.push(format!("opening[lazy]: /(?s:.*){}/", escaped(marker)));
        }
        ([], Preamble::Text) => starts.push("calls".to_string()),
    }
    if calls.calls == Calls::Optional {
        starts.push("PLAIN".to_string());
        rules.push(match (begin, calls.preamble) {
            ([Part::Text(marker), ..], Preamble::Text) => {
                let marker = escaped(marker);
                format!("PLAIN: /(?s:.+)/ & ~/(?s:.*){marker}(?s:.*)/")
            }
            ([Part::Text(marker), ..], Preamble::Nothing) => {
                format!("PLAIN: /(?s:.+)/ & ~/{}(?s:.*)/", escaped(marker))
            }
            _ => "PLAIN: /(?s:.+)/".to_string(),
        });
    }
    rules.insert(0, format!("start: {}", starts.join(" | ")));
    rules.join("\n")
}

/// A part of a marker.
enum Part {
    Text(String),
    Token(u32),
}

/// A marker cut at its control tokens.
fn marker(text: &str, vocabulary: &Vocabulary) -> Vec<Part> {
    let tokenizer = vocabulary.tokenizer();
    let mut parts = Vec::new();
    let mut rest = text;
    for id in vocabulary.encode_markers(text) {
        if tokenizer.kind(id) != Some(TokenKind::Control) {
            continue;
        }
        let name = tokenizer.token_text(id).unwrap_or_default();
        let Some((before, after)) = rest.split_once(name).filter(|_| !name.is_empty()) else {
            continue;
        };
        if !before.is_empty() {
            parts.push(Part::Text(before.to_string()));
        }
        parts.push(Part::Token(id));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_string()));
    }
    parts
}

fn join(parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => literal(text),
            Part::Token(id) => format!("<[{id}]>"),
        })
        .collect();
    if parts.is_empty() {
        "\"\"".to_string()
    } else {
        parts.join(" ")
    }
}
