//! What answers must look like, compiled for a model's tokens.

use alloc::boxed::Box;
use core::time::Duration;
use std::sync::{Arc, OnceLock};
use strata_chat::{AnswerConstraint, CallGrammar, Fault, FaultKind, Format};
use strata_constrain::{self as grammar, CompileError, Compiler, VocabularyError};
use strata_engine::Constraint;
use strata_tokenizer::Tokenizer;

/// Compiles grammars for a model's tokens; a model whose tokens cannot be constrained refuses them with the reason.
pub struct GrammarCompiler {
    tokenizer: Arc<Tokenizer>,
    /// Made for the first grammar: it takes a while, and most programs have none.
    compiler: OnceLock<Result<Compiler, VocabularyError>>,
}

impl GrammarCompiler {
    /// A compiler for a tokenizer's tokens.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self {
            tokenizer,
            compiler: OnceLock::new(),
        }
    }

    /// A constraint for an answer that is not free, or why there is none. May take a while.
    pub fn compile(&self, constraint: &AnswerConstraint) -> Result<Box<dyn Constraint>, Fault> {
        let compiler = self
            .compiler
            .get_or_init(|| Compiler::new(&self.tokenizer))
            .as_ref()
            .map_err(|error| Fault::new(FaultKind::Unsupported, error))?;
        let free = || Fault::bad_request("a free answer needs no grammar");
        let grammar = match constraint {
            AnswerConstraint::Free | AnswerConstraint::Format(Format::Text) => return Err(free()),
            AnswerConstraint::Format(Format::JsonObject) => grammar::Grammar::JsonObject,
            AnswerConstraint::Format(Format::JsonSchema(schema)) => {
                grammar::Grammar::JsonSchema(schema.text())
            }
            AnswerConstraint::Format(Format::Regex(regex)) => {
                grammar::Grammar::Regex(regex.clone())
            }
            AnswerConstraint::Format(Format::Gbnf(source)) => {
                grammar::Grammar::Gbnf(source.clone())
            }
            AnswerConstraint::Format(Format::Lark(source)) => {
                grammar::Grammar::Lark(source.clone())
            }
            AnswerConstraint::Format(Format::Choice(texts)) => {
                grammar::Grammar::Choice(texts.clone())
            }
            AnswerConstraint::Calls(calls) => grammar::Grammar::ToolCalls(tool_calls(calls)),
        };
        let matcher = compiler.compile(&grammar, grammar::Limits::default());
        let matcher = matcher.map_err(|error| match error {
            CompileError::TooSlow { .. } | CompileError::Busy { .. } => {
                let kind = FaultKind::Overloaded {
                    retry_after: Duration::from_secs(1),
                };
                Fault::new(kind, error)
            }
            error => Fault::bad_request(error),
        })?;
        Ok(Box::new(matcher))
    }
}

fn tool_calls(calls: &CallGrammar) -> grammar::ToolCalls {
    grammar::ToolCalls {
        tools: calls
            .tools
            .iter()
            .map(|(name, schema)| grammar::Tool {
                name: name.clone(),
                parameters: schema.text(),
            })
            .collect(),
        markers: grammar::CallMarkers {
            begin: calls.begin.into(),
            between: calls.between.into(),
            end: calls.end.into(),
        },
        arguments_key: calls.arguments_key.into(),
        calls: grammar::Calls::Required,
        count: if calls.several {
            grammar::CallCount::Many
        } else {
            grammar::CallCount::One
        },
        preamble: grammar::Preamble::Nothing,
    }
}
