//! A model in memory, ready to run, with the flags that every computing command takes.

use crate::failure::{Failure, Kind};
use crate::machine::{self, Machine};
use crate::model_file::{ModelFile, bad_model};
use crate::progress::LoadProgress;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strata_model::spec::Position;
use strata_model::{KvPages, KvType, LoadError, LoadOptions, Model, PAGE, arch};
use strata_platform::SystemMemory;
use strata_token::tokenizer::Tokenizer;
use strata_weights::{GgufSet, Metadata};

/// The context where none is asked for and the model has more.
const DEFAULT_CONTEXT: usize = 4096;

/// How often the file's pages are given back while it is packed.
const RELEASE_BYTES: usize = 64 << 20;

/// How the model is computed. None of these changes what comes out, but for `--kv`.
#[derive(clap::Args)]
#[command(next_help_heading = "Computing")]
pub(crate) struct ComputeArguments {
    /// Worker threads [default: one for each processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Tokens computed together
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub(crate) batch: u16,
    /// How keys and values are stored
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f16")]
    pub(crate) kv: Kv,
}

impl ComputeArguments {
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        Machine::new(self.threads.map(usize::from))
    }
}

/// The spelling of [`KvType`] on the command line.
#[derive(Copy, Clone, clap::ValueEnum)]
pub(crate) enum Kv {
    /// 16 bits
    #[value(name = "f16")]
    F16,
    /// 8 bits with a scale for each 32
    #[value(name = "q8_0")]
    Q8_0,
    /// 32 bits
    #[value(name = "f32")]
    F32,
}

impl From<Kv> for KvType {
    fn from(kv: Kv) -> Self {
        match kv {
            Kv::F16 => KvType::F16,
            Kv::Q8_0 => KvType::Q8_0,
            Kv::F32 => KvType::F32,
        }
    }
}

/// Whether a model without a usable tokenizer serves.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    Required,
    IfAny,
}

/// A model, its words, and how long a text it is loaded for.
pub(crate) struct LoadedModel {
    path: PathBuf,
    pub(crate) model: Model<'static>,
    tokenizer: Result<Tokenizer, Failure>,
    /// The source of its chat template.
    pub(crate) template: Option<String>,
    pub(crate) context: usize,
    pub(crate) load_time: Duration,
}

impl LoadedModel {
    /// Loads `path` for sequences of `context` positions, or of as many as the model has, up to 4096.
    pub(crate) fn load(
        path: &Path,
        context: Option<usize>,
        words: Words,
        machine: &Machine,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let file = ModelFile::open(path)?;
        let parsed = file.parse()?;
        let metadata = parsed.metadata();
        let context = context.or_else(|| default_context(metadata));
        let mut tokenizer = Tokenizer::from_gguf(metadata).map_err(|error| bad_model(path, error));
        if words == Words::Required {
            tokenizer = Ok(tokenizer?);
        }
        check_weights_fit(&parsed, path)?;

        let mut progress = LoadProgress::new();
        let mut released = 0;
        let model = Model::load(
            &parsed,
            LoadOptions { context },
            &SystemMemory,
            &machine.pool,
            &mut |done, total| {
                progress.show(done, total);
                if done - released >= RELEASE_BYTES {
                    file.release();
                    released = done;
                }
            },
        )
        .map_err(|error| load_failure(path, error))?;
        drop(progress);
        let context = context.unwrap_or(model.config().context);
        check_positions(&model, context)?;
        let scored = model.config().vocabulary;
        if let Some(tokens) = tokenizer.as_ref().ok().map(Tokenizer::vocab_size)
            && tokens > scored
        {
            return Err(bad_model(
                path,
                format_args!("the tokenizer has {tokens} tokens and the model scores {scored}"),
            ));
        }
        let template = metadata
            .str("tokenizer.chat_template")
            .map_err(|error| bad_model(path, error))?
            .map(str::to_owned);
        Ok(Self {
            path: path.to_path_buf(),
            model,
            tokenizer,
            template,
            context,
            load_time: start.elapsed(),
        })
    }

    /// The tokenizer, or why there is none.
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.tokenizer.as_ref().map_err(Failure::clone)
    }

    /// Memory for the keys and values of `positions` positions.
    pub(crate) fn kv_pages(&self, kind: KvType, positions: usize) -> Result<KvPages, Failure> {
        let config = self.model.config();
        if kind == KvType::Q8_0 && !config.head_size.is_multiple_of(32) {
            return Err(Failure::new(
                Kind::Usage,
                format_args!(
                    "{}: heads of {} values cannot be stored in blocks of 32",
                    self.path.display(),
                    config.head_size
                ),
            )
            .hint("leave --kv q8_0 out"));
        }
        let row = 2 * config.layers * config.kv_heads * kind.row_bytes(config.head_size);
        let bytes = positions
            .checked_next_multiple_of(PAGE)
            .and_then(|positions| positions.checked_mul(row))
            .map_or(u64::MAX, |bytes| bytes as u64);
        check_fit(
            bytes,
            format_args!("the keys and values of {positions} positions take"),
            "choose a smaller --ctx, or --kv q8_0",
        )?;
        KvPages::new(config, kind, positions, &SystemMemory)
            .map_err(|error| Failure::new(Kind::OutOfMemory, error).hint("choose a smaller --ctx"))
    }
}

fn default_context(metadata: &Metadata<'_>) -> Option<usize> {
    let name = metadata.str("general.architecture").ok()??;
    let own = metadata.u32(&format!("{name}.context_length")).ok()??;
    Some((own as usize).min(DEFAULT_CONTEXT))
}

/// A model with a table of positions has no more than that; others can be asked for more than they were trained for.
fn check_positions(model: &Model<'_>, context: usize) -> Result<(), Failure> {
    let config = model.config();
    if config.spec.position != Position::Learned || context <= config.context {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Usage,
        format_args!("the model has {} positions, not {context}", config.context),
    )
    .hint("ask for fewer"))
}

fn check_weights_fit(file: &GgufSet<'_>, path: &Path) -> Result<(), Failure> {
    let bytes = file.tensors().iter().map(|t| t.data.len() as u64).sum();
    check_fit(
        bytes,
        format_args!("the weights of {} take", path.display()),
        "choose a smaller model or one with fewer bits a weight, or close other programs",
    )
}

/// Fails if `bytes` are more than the machine has left.
fn check_fit(bytes: u64, what: std::fmt::Arguments<'_>, hint: &str) -> Result<(), Failure> {
    match machine::available_memory().filter(|&left| bytes > left) {
        None => Ok(()),
        Some(left) => Err(Failure::new(
            Kind::OutOfMemory,
            format_args!(
                "{what} {:.1} MB and {:.1} MB of memory are left",
                bytes as f64 / 1e6,
                left as f64 / 1e6
            ),
        )
        .hint(hint)),
    }
}

fn load_failure(path: &Path, error: LoadError) -> Failure {
    match &error {
        LoadError::OutOfMemory(_) => {
            Failure::new(Kind::OutOfMemory, format_args!("{}: {error}", path.display()))
                .hint("choose a smaller model or close other programs")
        }
        LoadError::Architecture { .. } => {
            let known: Vec<&str> = arch::ALL.iter().map(|spec| spec.name).collect();
            bad_model(path, &error).hint(format_args!("those that run are {}", known.join(", ")))
        }
        LoadError::SurplusTensor { .. } => bad_model(path, &error).hint(
            "the model may be a variant of its architecture that is not supported; ignoring a tensor would make its answers wrong",
        ),
        _ => bad_model(path, &error),
    }
}
