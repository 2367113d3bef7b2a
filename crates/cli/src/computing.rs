//! The flags that every computing command takes.

use crate::failure::{Failure, Kind};
use crate::progress::LoadProgress;
use std::path::Path;
use std::str::FromStr;
use strata::load::{self, CheckedModel, LoadedModel, Machine, ModelFile, Needs, WeightChoice};
use strata::{Device, DeviceLost, GpuLayers, Listeners, Model, Options, Runtime, Size};
use strata_convert::Mix;
use strata_model::spec::ArchSpec;
use strata_model::{KvType, PageStorage, arch};

/// How the model is computed. Only `--kv` and `--quant` change the result.
#[derive(clap::Args)]
#[command(next_help_heading = "Computing")]
pub(crate) struct ComputeArguments {
    /// Number of worker threads [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Number of prompt tokens to process at once
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub(crate) batch: u16,
    /// Type of the KV cache
    #[arg(long, value_enum, value_name = "TYPE", default_value = "f16")]
    pub(crate) kv: Kv,
    /// Maximum memory to use: 512M, 6G, 6GiB [default: what is available]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,
    /// When to read weights from the file for each token instead of keeping them in memory
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) stream: Stream,
    /// Quantize a Hugging Face folder while loading it: q8_0, q4_k_m, …
    #[arg(long, value_name = "TYPE", value_parser = mix)]
    pub(crate) quant: Option<Mix>,
    /// Run a model of this architecture, which nothing was compared with: `strata inspect --architectures` lists them
    #[arg(long, value_name = "NAME", value_parser = untested)]
    pub(crate) untested: Option<&'static ArchSpec>,
}

/// What computes a model. The answers are the same.
#[derive(clap::Args)]
#[command(next_help_heading = "Computing")]
pub(crate) struct PlaceArguments {
    /// What computes: cpu, cuda:N, vulkan:N, several GPUs (cuda:0,1), or auto, an NVIDIA GPU if there is one with room
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = parsed::<Device>)]
    device: Device,
    /// Number of layers on the GPUs, the last ones; the processors compute the others. auto: as many as fit
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parsed::<GpuLayers>)]
    gpu_layers: GpuLayers,
}

impl PlaceArguments {
    /// The options with these flags.
    pub(crate) fn add_to(&self, options: Options) -> Options {
        let options = options.device(self.device.clone());
        options.gpu_layers(self.gpu_layers)
    }
}

/// The same, for those who go on computing.
#[derive(clap::Args)]
#[command(next_help_heading = "Computing")]
pub(crate) struct DeviceArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// What to do with a model whose GPU fails: stop, or go on with the cpu. Running requests end with an error
    #[arg(long, value_name = "WHAT", default_value = "stop", value_parser = parsed::<DeviceLost>)]
    device_lost: DeviceLost,
}

impl DeviceArguments {
    /// The options with these flags.
    pub(crate) fn add_to(&self, options: Options) -> Options {
        self.place.add_to(options).device_lost(self.device_lost)
    }
}

/// Something that reads itself.
fn parsed<T: FromStr<Err = String>>(text: &str) -> Result<T, String> {
    text.parse()
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
            untested: None,
        }
    }
}

/// An architecture that nothing was compared with, by its name.
fn untested(name: &str) -> Result<&'static ArchSpec, String> {
    arch::untested(name).ok_or_else(|| {
        let all: Vec<&str> = arch::UNTESTED.iter().map(|(spec, _)| spec.name).collect();
        format!("expected one of {}", all.join(", "))
    })
}

/// A mix by its name.
pub(crate) fn mix(name: &str) -> Result<Mix, String> {
    Mix::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = Mix::ALL.iter().map(|mix| mix.name()).collect();
        format!("expected one of {}", all.join(", "))
    })
}

impl ComputeArguments {
    /// How a model is opened with these flags.
    pub(crate) fn options(&self) -> Options {
        let options = Options::default()
            .stream(self.stream.into())
            .batch(self.batch.into())
            .kv(self.kv.into());
        let options = match self.untested {
            Some(spec) => options.untested(spec.name),
            None => options,
        };
        let options = match self.threads {
            Some(threads) => options.threads(threads.into()),
            None => options,
        };
        match self.memory {
            Some(Size(bytes)) => options.memory(&bytes.to_string()),
            None => options,
        }
    }

    fn choice(&self) -> WeightChoice {
        WeightChoice {
            stream: self.stream.into(),
            memory: self.memory.map(|Size(bytes)| bytes),
        }
    }

    /// Opens a model's file, with `--quant` where it is a folder.
    pub(crate) fn open(&self, path: &Path) -> Result<ModelFile, Failure> {
        let mut progress = LoadProgress::new();
        let show = &mut |done, all| progress.show(done, all);
        Ok(ModelFile::open_as(path, self.quant, show)?.allowing(self.untested))
    }

    /// Loads a model that predicts tokens.
    pub(crate) fn load(
        &self,
        checked: CheckedModel<'_>,
        needs: Needs,
        machine: &Machine,
    ) -> Result<(LoadedModel, PageStorage), Failure> {
        let mut progress = LoadProgress::new();
        Ok(checked.load(needs, self.choice(), machine, &mut progress.shown())?)
    }

    /// Opens a model, with a progress bar.
    pub(crate) fn open_model(
        &self,
        runtime: &Runtime,
        path: &Path,
        options: Options,
    ) -> Result<Model, Failure> {
        let mut progress = LoadProgress::new();
        let mut shown = progress.shown();
        let listeners = Listeners {
            progress: Some(&mut shown),
            ..Listeners::default()
        };
        Ok(Model::open_on(runtime, path, options, listeners)?)
    }

    /// Keeps the process within `--memory`.
    pub(crate) fn cap(&self) -> Result<(), Failure> {
        if let Some(Size(bytes)) = self.memory {
            let least = load::program_bytes(self.threads.map_or(1, usize::from));
            if bytes < least {
                return Err(Failure::new(
                    Kind::OutOfMemory,
                    format_args!(
                        "the program itself takes {}, and --memory allows {}",
                        Size(least),
                        Size(bytes)
                    ),
                )
                .hint("`strata plan MODEL` shows how much memory a model needs"));
            }
            strata_host::cap_process(bytes).map_err(|error| {
                Failure::new(
                    Kind::Failed,
                    format_args!("cannot limit the memory of this process: {error}"),
                )
                .hint("omit --memory")
            })?;
        }
        Ok(())
    }

    /// Starts the workers for models, in a process that can have no more than `--memory`.
    pub(crate) fn runtime(&self) -> Result<Runtime, Failure> {
        self.cap()?;
        Ok(Runtime::new(self.threads.map(usize::from))?)
    }

    /// Starts the workers, in a process that can have no more than `--memory`.
    pub(crate) fn machine(&self) -> Result<Machine, Failure> {
        self.cap()?;
        Ok(Machine::new(self.threads.map(usize::from))?)
    }
}

/// The spelling of [`KvType`] on the command line.
#[derive(Copy, Clone, clap::ValueEnum)]
pub(crate) enum Kv {
    /// 16 bits
    #[value(name = "f16")]
    F16,
    /// 8 bits, with a scale per 32 values
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

impl From<Stream> for strata::Stream {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Auto => Self::Auto,
            Stream::Never => Self::Never,
            Stream::Always => Self::Always,
        }
    }
}

/// Whether weights may stay in the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stream {
    /// When they do not fit in --memory; without --memory, a model that does not fit is an error
    Auto,
    /// Never: a model that does not fit is an error
    Never,
    /// Always
    Always,
}
