//! From grammars to matchers, for one model's tokens.

use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(not(target_family = "wasm"))]
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use llguidance::Instant;
use llguidance::api::GrammarInit;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Logger, ParserFactory};
use strata_grammar::{CompileError, Grammar, Layout, Limits, VocabularyError};
#[cfg(not(target_family = "wasm"))]
use strata_host::{Priority, lower_priority, release_free_memory};
use strata_tokenizer::Tokenizer;

use crate::cache::Cache;
use crate::error::first_line;
use crate::limits::parser_limits;
use crate::matcher::Matcher;
use crate::queue::Queue;
use crate::source;
use crate::vocabulary::{Vocabulary, panic_text};
use crate::watchdog::Watchdog;

/// The bytes of compiled grammars that are kept, unless said otherwise.
const CACHE: usize = 32 << 20;
/// Grammars that may be in the works at once, at least and at most: one for two processors. Those that ran out of time count
/// until they are done.
const WORKERS: (usize, usize) = (2, 4);
/// How long a grammar waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// What takes longer may leave much memory behind, which is given back.
#[cfg(not(target_family = "wasm"))]
const LONG: Duration = Duration::from_millis(50);
/// The compiler calls itself for each level of nesting.
#[cfg(not(target_family = "wasm"))]
const STACK: usize = 16 << 20;
/// What a compiled grammar takes beside what the library counts and what its source is a measure of.
const BASE: usize = 64 << 10;
const PER_SOURCE_BYTE: usize = 160;
/// Rules that multiply take memory that neither their source nor the library's count tells of. Time does, beyond what
/// ordinary ones take.
const PER_MILLISECOND: usize = 512 << 10;
const ORDINARY: Duration = Duration::from_millis(50);

/// Compiles grammars for a model's tokens.
///
/// Compiling takes a millisecond for most schemas and [`Limits::time`] at most. It belongs on the threads that serve
/// requests, not on those that compute tokens.
pub struct Compiler {
    shared: Arc<Shared>,
    cache: Mutex<Cache>,
}

struct Shared {
    vocabulary: Arc<Vocabulary>,
    factory: ParserFactory,
    queue: Queue,
    watchdog: Arc<Watchdog>,
}

impl Compiler {
    /// A compiler for the tokens of a model; made once.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, VocabularyError> {
        Self::with_cache(tokenizer, CACHE)
    }

    /// A compiler that keeps so many bytes of compiled grammars.
    pub fn with_cache(tokenizer: &Tokenizer, bytes: usize) -> Result<Self, VocabularyError> {
        let vocabulary = Arc::new(Vocabulary::new(tokenizer)?);
        let env: TokEnv = vocabulary.clone();
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let factory = catch_unwind(AssertUnwindSafe(|| {
            ParserFactory::new(&env, capabilities(), &slices)
        }));
        let factory = match factory {
            Ok(Ok(factory)) => factory,
            Ok(Err(error)) => {
                return Err(VocabularyError::Tree {
                    reason: first_line(&error.to_string()),
                });
            }
            Err(panic) => {
                return Err(VocabularyError::Tree {
                    reason: panic_text(&*panic),
                });
            }
        };
        Ok(Compiler {
            shared: Arc::new(Shared {
                vocabulary,
                factory,
                queue: Queue::default(),
                watchdog: Arc::default(),
            }),
            cache: Mutex::new(Cache::new(bytes)),
        })
    }

    /// Compiles a grammar, or finds it among those compiled before.
    pub fn compile(&self, grammar: &Grammar, limits: Limits) -> Result<Matcher, CompileError> {
        let bytes = grammar.source_bytes();
        if bytes > limits.source {
            return Err(CompileError::TooLong {
                bytes,
                limit: limits.source,
            });
        }
        if let Some(matcher) = self.cache().get(grammar, &limits) {
            return Ok(matcher);
        }
        let place = CompilerSlot::take(&self.shared)?;
        // Somebody may have asked for the same one meanwhile.
        if let Some(matcher) = self.cache().get(grammar, &limits) {
            return Ok(matcher);
        }
        let (matcher, bytes) = Self::compile_apart(place, grammar, limits)?;
        self.cache().keep(grammar, &limits, &matcher, bytes);
        Ok(matcher)
    }

    /// How many compiled grammars are kept, and their bytes as far as they are known.
    pub fn cached(&self) -> (usize, usize) {
        let cache = self.cache();
        (cache.len(), cache.bytes())
    }

    /// How many grammars are being compiled, those that nobody waits for any more among them.
    pub fn running(&self) -> usize {
        self.shared.queue.running()
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles here: WebAssembly has one thread, and its stack was made for this.
    #[cfg(target_family = "wasm")]
    fn compile_apart(
        place: CompilerSlot,
        grammar: &Grammar,
        limits: Limits,
    ) -> Result<(Matcher, usize), CompileError> {
        place.0.compile_here(grammar, &limits)
    }

    /// Compiles on a thread of its own, which has the stack for it and can be left behind.
    #[cfg(not(target_family = "wasm"))]
    fn compile_apart(
        place: CompilerSlot,
        grammar: &Grammar,
        limits: Limits,
    ) -> Result<(Matcher, usize), CompileError> {
        let (send, receive) = sync_channel(1);
        let kind = grammar.kind();
        let grammar = grammar.clone();
        let worker = thread::Builder::new()
            .name("grammar".into())
            .stack_size(STACK)
            .spawn(move || {
                lower_priority(Priority::Low);
                let begun = Instant::now();
                let compiled =
                    catch_unwind(AssertUnwindSafe(|| place.0.compile_here(&grammar, &limits)));
                drop(place);
                // Nobody waits any more if it took too long.
                send.send(compiled).ok();
                if begun.elapsed() > LONG {
                    release_free_memory();
                }
            });
        if let Err(error) = worker {
            return Err(CompileError::Refused {
                kind,
                reason: format!("no thread to compile on: {error}"),
            });
        }
        match receive.recv_timeout(limits.time) {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(panic)) => Err(CompileError::Panicked {
                kind,
                reason: panic_text(&*panic),
            }),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(CompileError::TooSlow { limit: limits.time })
            }
        }
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiler").finish_non_exhaustive()
    }
}

impl Shared {
    fn compile_here(
        &self,
        grammar: &Grammar,
        limits: &Limits,
    ) -> Result<(Matcher, usize), CompileError> {
        let kind = grammar.kind();
        let begun = Instant::now();
        let written = source::write(grammar, &self.vocabulary, limits)?;
        let refused = |reason: &dyn std::fmt::Display| {
            let reason = first_line(&reason.to_string());
            match reason.strip_prefix("panic: ") {
                Some(reason) => CompileError::Panicked {
                    kind,
                    reason: reason.to_string(),
                },
                None => CompileError::Refused { kind, reason },
            }
        };
        let parser = self
            .factory
            .create_parser_from_init_ext(
                GrammarInit::Serialized(written),
                Logger::new(0, 0),
                capabilities(),
                parser_limits(limits),
            )
            .map_err(|error| refused(&format!("{error:#}")))?;
        let lexer = parser.parser.lexer_stats().num_bytes;
        let end = self.vocabulary.tokenizer().end_of_generation();
        let inner = llguidance::Matcher::new(Ok(parser)).into_cancellable();
        let watchdog = Arc::clone(&self.watchdog);
        let is_json = matches!(grammar, Grammar::JsonObject | Grammar::JsonSchema(_));
        let layout = is_json.then(|| Layout::new(Arc::clone(self.vocabulary.words())));
        let matcher =
            Matcher::new(inner, end, layout, *limits, watchdog).map_err(|error| refused(&error))?;
        let bytes = BASE
            .saturating_add(lexer)
            .saturating_add(grammar.source_bytes().saturating_mul(PER_SOURCE_BYTE))
            .saturating_add(
                begun.elapsed().saturating_sub(ORDINARY).as_millis() as usize * PER_MILLISECOND,
            );
        Ok((matcher, bytes))
    }
}

fn capabilities() -> InferenceCapabilities {
    InferenceCapabilities {
        ff_tokens: true,
        ..InferenceCapabilities::default()
    }
}

/// One of the places for compiling, given back when it is dropped.
struct CompilerSlot(Arc<Shared>);

impl CompilerSlot {
    fn take(shared: &Arc<Shared>) -> Result<Self, CompileError> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let (least, most) = WORKERS;
        let workers = (processors / 2).clamp(least, most);
        match shared.queue.enter(workers, TURN) {
            Ok(()) => Ok(CompilerSlot(Arc::clone(shared))),
            Err(running) => Err(CompileError::Busy { running }),
        }
    }
}

impl Drop for CompilerSlot {
    fn drop(&mut self) {
        self.0.queue.leave();
    }
}
