//! Models on a GPU.

use crate::error::{Error, ErrorKind};
use crate::load::{LoadedModel, Machine, ModelFile, Needs, TokenizerUse, WeightChoice};
use crate::open::MOST_CONTEXTS;
use crate::options::{Device, Options, Stream};
use crate::size::Size;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use strata_engine::EngineOptions;
use strata_gpu::{DeviceError, GpuOptions};
use strata_model::{Executor, PAGE};
use strata_platform::Pool;

/// A model that was opened there: its weights, who computes it, and what was loaded, in words.
type Opened = (LoadedModel, Box<dyn Executor>, String);

/// Opens a model on the GPU that the options ask for; nothing where the processors are to compute it.
pub(crate) fn open(
    file: &ModelFile,
    options: &Options,
    needs: (Needs, &EngineOptions),
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Option<Opened>, Error> {
    let gpu = match options.device {
        Device::Cpu => return Ok(None),
        Device::Auto if strata_cuda::devices().is_empty() => return Ok(None),
        Device::Auto => Gpu::Cuda(0),
        Device::Cuda(index) => Gpu::Cuda(index),
        Device::Vulkan(index) => Gpu::Vulkan(index),
    };
    let own = file
        .preset()
        .is_some_and(|preset| !preset.adapters.is_empty());
    let adapted = own || !options.adapters.is_empty();
    match (options.device, adapted) {
        (Device::Auto, true) => return Ok(None),
        (_, true) => {
            let sentence = "models with adapters run on the processors only";
            return Err(Error::new(ErrorKind::InvalidArgument, sentence)
                .with_hint("use --device cpu, or omit the adapters"));
        }
        _ => {}
    }
    match upload(file, options, (gpu, needs), machine, progress) {
        Ok(opened) => Ok(Some(opened)),
        Err(Problem::Other(error)) => Err(error),
        Err(Problem::Device(_)) if options.device == Device::Auto => Ok(None),
        Err(Problem::Device(error)) => Err(refusal(file, gpu, &error)),
    }
}

/// A GPU, by who drives it.
#[derive(Copy, Clone)]
enum Gpu {
    Cuda(usize),
    Vulkan(usize),
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Vulkan(index) => write!(f, "vulkan:{index}"),
        }
    }
}

/// Why a model is not on a GPU.
enum Problem {
    Device(DeviceError),
    Other(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

fn upload(
    file: &ModelFile,
    options: &Options,
    (gpu, (needs, engine)): (Gpu, (Needs, &EngineOptions)),
    machine: &Machine,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Opened, Problem> {
    let checked = options.check(file, TokenizerUse::Required)?;
    // The weights stay in their file: they are packed on their way to the GPU.
    let choice = WeightChoice {
        stream: Stream::Always,
        memory: options.weight_choice()?.memory,
    };
    let here = Needs {
        positions: PAGE,
        ..needs
    };
    let context = checked.context;
    let quiet = &mut |_, _| ControlFlow::Continue(());
    let (loaded, _) = checked.load_any(here, choice, machine, quiet)?;
    let start = std::time::Instant::now();
    let mut canceled = false;
    let contexts = engine.requests.clamp(1, MOST_CONTEXTS);
    let wanted = GpuOptions {
        kv: needs.kv,
        pages: needs.positions.div_ceil(PAGE),
        most_pages: context.saturating_mul(contexts).div_ceil(PAGE),
        limits: needs.limits,
        pool: Arc::clone(&machine.pool) as Arc<dyn Pool + Send>,
        progress: &mut |done, all| {
            canceled = canceled || progress(done, all).is_break();
            !canceled
        },
    };
    let model = Arc::clone(&loaded.model);
    let opened = match gpu {
        Gpu::Cuda(index) => strata_cuda::open(index, model, wanted),
        Gpu::Vulkan(index) => strata_vulkan::open(index, model, wanted),
    };
    if canceled {
        let error = Error::new(ErrorKind::Canceled, "the load was canceled");
        return Err(Problem::Other(error));
    }
    let executor = opened.map_err(Problem::Device)?;
    let memory = executor.memory();
    let description = format!(
        "weights {} on {} ({gpu}), loaded in {:.3} s; keys and values of {context} positions and more take {}",
        Size(memory.weights as u64),
        executor.device().name,
        start.elapsed().as_secs_f64(),
        Size(memory.pages as u64),
    );
    Ok((loaded, Box::new(executor), description))
}

fn refusal(file: &ModelFile, gpu: Gpu, error: &DeviceError) -> Error {
    let sentence = format!("{} cannot run on {gpu}: {error}", file.path().display());
    match error {
        DeviceError::Full { .. } | DeviceError::OutOfMemory { .. } => {
            Error::new(ErrorKind::OutOfMemory, sentence)
                .with_hint("use a smaller --ctx, --kv q8_0, a smaller model, or --device cpu")
        }
        DeviceError::Driver { .. } => Error::new(ErrorKind::Internal, sentence),
        _ => Error::new(ErrorKind::InvalidArgument, sentence).with_hint("use --device cpu"),
    }
}
