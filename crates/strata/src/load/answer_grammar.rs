//! What answers must look like, as grammars; and their compiler where there is no operating system.

use alloc::boxed::Box;
use alloc::sync::Arc;
use strata_chat::{AnswerConstraint, CallGrammar, Fault, FaultKind, Format};
use strata_engine::Constraint;
use strata_grammar::{
    CallCount, CallMarkers, Calls, Compiler, Grammar, Limits, Preamble, Tool, ToolCalls,
    VocabularyError,
};
use strata_tokenizer::Tokenizer;

/// The grammar of an answer that is not free.
pub(super) fn grammar_of(constraint: &AnswerConstraint) -> Result<Grammar, Fault> {
    Ok(match constraint {
        AnswerConstraint::Free | AnswerConstraint::Format(Format::Text) => {
            return Err(Fault::bad_request("a free answer needs no grammar"));
        }
        AnswerConstraint::Format(Format::JsonObject) => Grammar::JsonObject,
        AnswerConstraint::Format(Format::JsonSchema(schema)) => Grammar::JsonSchema(schema.text()),
        AnswerConstraint::Format(Format::Regex(regex)) => Grammar::Regex(regex.clone()),
        AnswerConstraint::Format(Format::Gbnf(source)) => Grammar::Gbnf(source.clone()),
        AnswerConstraint::Format(Format::Lark(source)) => Grammar::Lark(source.clone()),
        AnswerConstraint::Format(Format::Choice(texts)) => Grammar::Choice(texts.clone()),
        AnswerConstraint::Calls(calls) => Grammar::ToolCalls(tool_calls(calls)),
    })
}

fn tool_calls(calls: &CallGrammar) -> ToolCalls {
    ToolCalls {
        tools: calls
            .tools
            .iter()
            .map(|(name, schema)| Tool {
                name: name.clone(),
                parameters: schema.text(),
            })
            .collect(),
        markers: CallMarkers {
            begin: calls.begin.into(),
            between: calls.between.into(),
            end: calls.end.into(),
        },
        arguments_key: calls.arguments_key.into(),
        calls: Calls::Required,
        count: if calls.several {
            CallCount::Many
        } else {
            CallCount::One
        },
        preamble: Preamble::Nothing,
    }
}

/// Compiles grammars for a model's tokens without threads and without a clock. It allows the same tokens as
/// `GrammarCompiler`; Lark, which only that one reads, is refused.
pub struct LocalGrammars {
    tokenizer: Arc<Tokenizer>,
    /// Made for the first grammar: it takes a while, and memory.
    compiler: Option<Result<Compiler, VocabularyError>>,
}

impl LocalGrammars {
    /// A compiler for a tokenizer's tokens.
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self {
            tokenizer,
            compiler: None,
        }
    }

    /// A constraint for an answer that is not free, or why there is none.
    pub fn compile(&mut self, constraint: &AnswerConstraint) -> Result<Box<dyn Constraint>, Fault> {
        let grammar = grammar_of(constraint)?;
        let tokenizer = &self.tokenizer;
        let compiler = self
            .compiler
            .get_or_insert_with(|| Compiler::new(tokenizer))
            .as_mut()
            .map_err(|error| Fault::new(FaultKind::Unsupported, error))?;
        let matcher = compiler.compile(&grammar, Limits::default());
        Ok(Box::new(matcher.map_err(Fault::bad_request)?))
    }
}
