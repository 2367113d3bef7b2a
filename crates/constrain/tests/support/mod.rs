//! Tokenizers to constrain, and a reader of masks that chooses at random.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use strata_constrain::{CompileError, Compiler, Grammar, Limits, Matcher};
use strata_engine::{Constraint, ConstraintError, Engine, EngineOptions, TokenMask};
use strata_kernels::Kernels;
use strata_model::{CpuExecutor, KvType, LoadOptions, Model, PageLayout, PageStorage};
use strata_platform::{Inline, SystemMemory};
use strata_tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};

/// A tokenizer with its compiler.
pub(crate) struct Vocabulary {
    pub(crate) name: &'static str,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) compiler: Compiler,
}

fn load(name: &'static str, path: &str) -> Vocabulary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    let bytes = std::fs::read(path).expect("a committed file");
    let gguf = Gguf::parse(&bytes).expect("a good file");
    let tokenizer = Tokenizer::from_gguf(gguf.metadata()).expect("a good vocabulary");
    let tokenizer = Arc::new(tokenizer);
    let compiler = Compiler::new(&tokenizer).expect("a vocabulary that can be constrained");
    Vocabulary {
        name,
        tokenizer,
        compiler,
    }
}

/// The built-in model's: bytes are spelled as letters.
pub(crate) static BYTE_LEVEL: LazyLock<Vocabulary> =
    LazyLock::new(|| load("byte level", "models/tale/tale-q4_k_m.gguf"));

/// SentencePiece's: letters, and tokens for bytes.
pub(crate) static BYTE_FALLBACK: LazyLock<Vocabulary> =
    LazyLock::new(|| load("byte fallback", "crates/tokenizer/tests/vectors/spm.gguf"));

impl Vocabulary {
    /// An engine over a model's file, with pages of a type for so many positions.
    pub(crate) fn engine(
        &self,
        file: &[u8],
        (kind, positions): (KvType, usize),
        options: EngineOptions,
    ) -> Engine {
        let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
        let load = LoadOptions::default();
        let model = Model::load(&set, load, &SystemMemory, &Inline, &mut |_, _| {}).unwrap();
        let layout = PageLayout::new(model.config(), kind);
        let storage = PageStorage::new(layout, positions, options.states(), &SystemMemory);
        let executor = CpuExecutor::new(
            Arc::new(model),
            Kernels::detect(),
            Arc::new(Inline),
            storage.unwrap(),
            options.limits(),
        );
        Engine::new(Box::new(executor), Arc::clone(&self.tokenizer), options)
    }

    pub(crate) fn compile(&self, grammar: &Grammar) -> Result<Matcher, CompileError> {
        // Tests share two processors with many others; the limit of time has a test of its own.
        let limits = Limits {
            time: std::time::Duration::from_secs(20),
            ..Limits::default()
        };
        self.compiler.compile(grammar, limits)
    }

    pub(crate) fn mask(&self, matcher: &mut Matcher) -> Result<TokenMask, ConstraintError> {
        let mut mask = TokenMask::new(self.tokenizer.vocab_size());
        matcher.allowed(&mut mask)?;
        Ok(mask)
    }

    /// Whether a text can be generated, spelled in the shortest tokens that are allowed.
    pub(crate) fn accepts(&self, grammar: &Grammar, text: &str) -> bool {
        let mut matcher = self.compile(grammar).expect("a good grammar");
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let Ok(mask) = self.mask(&mut matcher) else {
                return false;
            };
            let fits = |id: &u32| {
                let bytes = self.tokenizer.token_bytes(*id).unwrap_or_default();
                mask.is_allowed(*id)
                    && !self.tokenizer.is_end_of_generation(*id)
                    && !bytes.is_empty()
                    && rest.starts_with(&bytes)
            };
            let next = (0..self.tokenizer.vocab_size() as u32)
                .filter(fits)
                .min_by_key(|id| self.tokenizer.token_bytes(*id).map(|bytes| bytes.len()));
            let Some(next) = next else {
                return false;
            };
            matcher.accept(next).expect("an allowed token");
            rest = &rest[self.tokenizer.token_bytes(next).unwrap().len()..];
        }
        let ends = self.tokenizer.end_of_generation()[0];
        matcher.is_complete()
            || self
                .mask(&mut matcher)
                .is_ok_and(|mask| mask.is_allowed(ends))
    }

    /// An answer of a model that knows nothing.
    pub(crate) fn random_answer(&self, matcher: &mut Matcher, random: &mut Random) -> Answer {
        const STEPS: usize = 3000;
        let mut answer = Answer::default();
        for step in 0..STEPS {
            if matcher.is_complete() {
                answer.ended = true;
                break;
            }
            let mask = self.mask(matcher).expect("a mask");
            let allowed: Vec<u32> = (0..mask.vocabulary() as u32)
                .filter(|id| mask.is_allowed(*id))
                .collect();
            assert!(!allowed.is_empty(), "nothing is allowed");
            let token = self.choose(&allowed, random, step > 60);
            matcher.accept(token).expect("an allowed token");
            if self.tokenizer.is_end_of_generation(token) {
                answer.ended = true;
                break;
            }
            answer.tokens.push(token);
            answer
                .bytes
                .extend_from_slice(&self.tokenizer.token_bytes(token).unwrap());
        }
        answer
    }

    /// Any token at first; later rather one that brings the end nearer.
    pub(crate) fn choose(&self, allowed: &[u32], random: &mut Random, closing: bool) -> u32 {
        let chance = random.below(10);
        let end = allowed
            .iter()
            .find(|id| self.tokenizer.is_end_of_generation(**id));
        if let Some(end) = end.filter(|_| closing || chance < 4) {
            return *end;
        }
        let closes = |id: &&u32| {
            let bytes = self.tokenizer.token_bytes(**id).unwrap_or_default();
            matches!(&*bytes, b"\"" | b"}" | b"]" | b":" | b"," | b"0" | b"l")
        };
        let closers: Vec<u32> = allowed.iter().filter(closes).copied().collect();
        let hard: Vec<u32> = closers
            .iter()
            .copied()
            .filter(|id| &*self.tokenizer.token_bytes(*id).unwrap() != b",")
            .collect();
        if closing && !hard.is_empty() && chance < 9 {
            hard[random.below(hard.len())]
        } else if !closing && !closers.is_empty() && chance < 7 {
            closers[random.below(closers.len())]
        } else {
            allowed[random.below(allowed.len())]
        }
    }
}

/// What came out.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ended: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("whole characters")
    }
}

/// A seeded generator: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// A schema as a validator that we did not write reads it.
pub(crate) struct Validator {
    schemas: boon::Schemas,
    index: boon::SchemaIndex,
}

impl Validator {
    pub(crate) fn new(schema: &serde_json::Value) -> Self {
        const PLACE: &str = "schema.json";
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.enable_format_assertions();
        compiler
            .add_resource(PLACE, schema.clone())
            .expect("a new place");
        let index = compiler
            .compile(PLACE, &mut schemas)
            .expect("a good schema");
        Self { schemas, index }
    }

    /// Why a value does not match.
    pub(crate) fn validate(&self, value: &serde_json::Value) -> Result<(), String> {
        self.schemas
            .validate(value, self.index)
            .map_err(|error| error.to_string())
    }
}
