//! The flags that every computing command takes.

use crate::failure::{Failure, Kind};
use crate::machine::Machine;
use crate::memory_plan;
use crate::size::Size;
use strata_convert::Mix;
use strata_model::KvType;

/// How the model is computed. None of these changes what comes out, but for `--kv` and `--quant`.
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
    /// The most memory to use: 512M, 6G, 6GiB [default: what the machine has left]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,
    /// Whether weights may stay in the file and be read for each token
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) stream: Stream,
    /// Quantize a Hugging Face folder's weights while they are loaded: q8_0, q4_k_m, …
    #[arg(long, value_name = "TYPE", value_parser = mix)]
    pub(crate) quant: Option<Mix>,
}

/// As the flags are where none is given.
impl Default for ComputeArguments {
    fn default() -> Self {
        Self {
            threads: None,
            batch: 512,
            kv: Kv::F16,
            memory: None,
            stream: Stream::Auto,
            quant: None,
        }
    }
}

/// A mix by its name.
pub(crate) fn mix(name: &str) -> Result<Mix, String> {
    Mix::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = Mix::ALL.iter().map(|mix| mix.name()).collect();
        format!("the types are {}", all.join(", "))
    })
}

impl ComputeArguments {
    /// Starts the workers, in a process that can have no more than `--memory`.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        if let Some(Size(bytes)) = self.memory {
            let least = memory_plan::program(self.threads.map_or(1, usize::from));
            if bytes < least {
                return Err(Failure::new(
                    Kind::OutOfMemory,
                    format_args!(
                        "the program takes {} and --memory allows {}",
                        Size(least),
                        Size(bytes)
                    ),
                )
                .hint("strata plan MODEL shows what a model takes"));
            }
            strata_host::cap_process(bytes).map_err(|error| {
                Failure::new(
                    Kind::Failed,
                    format_args!("the process's memory cannot be limited: {error}"),
                )
                .hint("leave --memory out")
            })?;
        }
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

/// Whether weights may stay in the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stream {
    /// Those that do not fit in --memory; without --memory a model that does not fit is refused
    Auto,
    /// None: a model that does not fit is refused
    Never,
    /// All of them
    Always,
}
