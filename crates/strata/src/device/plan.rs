//! What a model would take of GPUs, before it is there.

use super::choice::Device;
use super::gpu::Gpu;
use super::refusal::Problem;
use super::survey::{Survey, own_needs, own_stretch};
use crate::error::{Error, ErrorKind};
use crate::load::{Machine, ModelFile, Needs};
use crate::options::Options;
use std::ops::Range;
use strata_gpu::{DeviceError, DeviceShare};
use strata_model::Stretch;

/// What a GPU would take, in bytes, against what it has.
#[derive(Clone, Debug)]
pub struct DevicePlan {
    /// What the command line calls it: `cuda:0`.
    pub id: String,
    /// What its maker calls it.
    pub name: String,
    /// Its memory.
    pub memory: u64,
    /// What of that is free.
    pub free: u64,
    /// Its layers; none where they do not fit.
    pub layers: Range<usize>,
    /// The weights.
    pub weights: u64,
    /// Keys and values.
    pub kv: u64,
    /// Activations and batches.
    pub activations: u64,
}

impl DevicePlan {
    /// Everything together, in bytes.
    pub fn total(&self) -> u64 {
        let rest = self.weights.saturating_add(self.activations);
        rest.saturating_add(self.kv)
    }
}

/// GPUs, and what is left to the processors.
pub(crate) struct Planned {
    pub(crate) devices: Vec<DevicePlan>,
    /// The layers of the processors.
    pub(crate) own: Stretch,
    pub(crate) needs: Needs,
    /// Why the layers do not fit, and what would.
    pub(crate) misfit: Option<Error>,
}

/// Nothing where the processors are to compute all of it.
pub(crate) fn plan(
    file: &ModelFile,
    options: &Options,
    needs: Needs,
) -> Result<Option<Planned>, Error> {
    let gpus = Gpu::asked(options)?;
    if gpus.is_empty() {
        return Ok(None);
    }
    match planned(file, options, (&gpus, needs)) {
        Ok(planned) => Ok(Some(planned)),
        Err(Problem::Other(error)) => Err(error),
        Err(_) if options.device == Device::Auto => Ok(None),
        Err(problem) => Err(problem.refusal(file.path(), &gpus)),
    }
}

fn planned(
    file: &ModelFile,
    options: &Options,
    (gpus, needs): (&[Gpu], Needs),
) -> Result<Planned, Problem> {
    // Nothing is computed.
    let machine = Machine::new(Some(1))?;
    let survey = Survey::new(file, options, needs, &machine)?;
    let found = gpus.iter().map(|&gpu| {
        let backend = gpu.open()?;
        backend.enter()?;
        let free = backend.free_memory()?;
        Ok((gpu, backend.facts().clone(), free))
    });
    let found = found.collect::<Result<Vec<_>, DeviceError>>()?;
    let free: Vec<u64> = found.iter().map(|(_, _, free)| *free).collect();
    let (placed, misfit) = match survey.place(&free) {
        Ok(placed) => (placed, None),
        Err(problem) => match problem.refusal(file.path(), gpus) {
            error if error.kind() == ErrorKind::OutOfMemory && options.device != Device::Auto => {
                (vec![0..0; gpus.len()], Some(error))
            }
            error => return Err(Problem::Other(error)),
        },
    };
    let shares = match misfit {
        None => survey.shares(&placed)?,
        Some(_) => vec![DeviceShare::default(); gpus.len()],
    };
    let first = match misfit {
        None => placed[0].start,
        Some(_) => survey.first(),
    };
    let all = found.into_iter().zip(placed).zip(shares);
    let devices = all.map(|(((gpu, facts, free), layers), share)| DevicePlan {
        id: gpu.to_string(),
        name: facts.name,
        memory: facts.memory,
        free,
        layers,
        weights: share.weights,
        kv: share.pages,
        activations: share.buffers,
    });
    Ok(Planned {
        devices: devices.collect(),
        own: own_stretch(first),
        needs: own_needs(needs, first),
        misfit,
    })
}
