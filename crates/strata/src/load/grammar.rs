//! What answers must look like, compiled for a model's tokens.

use super::answer_grammar::grammar_of;
use alloc::boxed::Box;
use core::time::Duration;
use std::sync::{Arc, OnceLock};
use strata_chat::{AnswerConstraint, Fault, FaultKind};
use strata_constrain::{CompileError, Compiler, Limits, VocabularyError};
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
        let grammar = grammar_of(constraint)?;
        let matcher = compiler.compile(&grammar, Limits::default());
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
