//! From grammars to matchers, for one model's tokens.

use crate::error::{CompileError, VocabularyError};
use crate::grammar::Grammar;
use crate::layout::Layout;
use crate::lexer::Lexer;
use crate::limits::Limits;
use crate::matcher::{MOST_STATES, Matcher, STEP_READINGS};
use crate::parser::Parser;
use crate::rules::Builder;
use crate::source;
use crate::vocabulary::Vocabulary;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_engine::ConstraintError;
use strata_tokenizer::Tokenizer;

/// Steps of work that compiling may take: a bound of its time, and of its memory.
const WORK: u64 = 1_000_000;
/// The bytes of compiled grammars that are kept.
const KEPT: usize = 4 << 20;

/// Compiles grammars for a model's tokens, without threads and without a clock: what compiling takes is counted in steps.
///
/// Of what [`Grammar`] has, it does not read Lark.
#[derive(Debug)]
pub struct Compiler {
    vocabulary: Arc<Vocabulary>,
    /// Grammars that were compiled lately, the last one last.
    kept: Vec<(Grammar, Limits, Matcher)>,
}

impl Compiler {
    /// A compiler for the tokens of a model; made once.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, VocabularyError> {
        Ok(Self {
            vocabulary: Arc::new(Vocabulary::new(tokenizer)?),
            kept: Vec::new(),
        })
    }

    /// Compiles a grammar, or finds it among those compiled lately.
    pub fn compile(&mut self, grammar: &Grammar, limits: Limits) -> Result<Matcher, CompileError> {
        let bytes = grammar.source_bytes();
        if bytes > limits.source {
            return Err(CompileError::TooLong {
                bytes,
                limit: limits.source,
            });
        }
        let known = self
            .kept
            .iter()
            .position(|(kept, of, _)| kept == grammar && *of == limits);
        if let Some(known) = known {
            let entry = self.kept.remove(known);
            let matcher = entry.2.clone();
            self.kept.push(entry);
            return Ok(matcher);
        }
        let matcher = self.compile_anew(grammar, &limits)?;
        self.keep(grammar, limits, &matcher);
        Ok(matcher)
    }

    /// Bytes of memory that the vocabulary and the grammars that are kept take, about.
    pub fn bytes(&self) -> usize {
        let kept = self.kept.iter();
        let kept: usize = kept.map(|(_, _, matcher)| matcher.bytes()).sum();
        self.vocabulary.memory() + kept
    }

    fn keep(&mut self, grammar: &Grammar, limits: Limits, matcher: &Matcher) {
        if matcher.bytes() > KEPT {
            return;
        }
        self.kept.push((grammar.clone(), limits, matcher.clone()));
        let mut sum: usize = self.kept.iter().map(|kept| kept.2.bytes()).sum();
        while sum > KEPT && self.kept.len() > 1 {
            sum -= self.kept.remove(0).2.bytes();
        }
    }

    fn compile_anew(&self, grammar: &Grammar, limits: &Limits) -> Result<Matcher, CompileError> {
        let kind = grammar.kind();
        let too_complex = CompileError::TooComplex { kind, limit: WORK };
        let mut builder = Builder::new();
        let words = &self.vocabulary.words;
        let start = source::write(&mut builder, grammar, words, limits, WORK)?;
        if builder.arena.work > WORK {
            return Err(too_complex);
        }
        let (rules, lexemes, arena) = builder.finish(start);
        let states = limits.states.min(MOST_STATES);
        let lexer = Lexer::new(arena, lexemes, states, WORK).ok_or(too_complex)?;
        let parser = Parser::new(Arc::new(rules), lexer, STEP_READINGS);
        let is_json = matches!(grammar, Grammar::JsonObject | Grammar::JsonSchema(_));
        let layout = is_json.then(|| Layout::new(Arc::clone(words)));
        let vocabulary = Arc::clone(&self.vocabulary);
        let matcher = Matcher::new(vocabulary, parser, layout, limits.repeats as usize);
        matcher.map_err(|error| match error {
            ConstraintError::Limit { .. } => CompileError::TooComplex { kind, limit: WORK },
            error => CompileError::Refused {
                kind,
                reason: error.to_string(),
            },
        })
    }
}
