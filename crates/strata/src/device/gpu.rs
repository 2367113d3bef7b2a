//! The GPUs of this machine.

use super::choice::{Device, DeviceLost, GpuLayers};
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use std::fmt;
use strata_gpu::{Backend, DeviceError, DeviceFacts};

/// A GPU, by who drives it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Gpu {
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

impl Gpu {
    /// Those that are asked for; none where the processors are to compute. What is said of GPUs beside must be of some.
    pub(super) fn asked(options: &Options) -> Result<Vec<Self>, Error> {
        let sentence = match (&options.device, options.gpu_layers, options.device_lost) {
            (Device::Cpu, GpuLayers::Last(_), _) => "layers on a GPU need a GPU to be on",
            (Device::Cpu, _, DeviceLost::Cpu) => "only what runs on a GPU can lose it",
            (device, ..) => return Ok(Self::of(device)),
        };
        Err(Error::new(ErrorKind::InvalidArgument, sentence)
            .with_hint("add --device cuda:0 or --device vulkan:0"))
    }

    fn of(device: &Device) -> Vec<Self> {
        match device {
            Device::Cpu => Vec::new(),
            Device::Auto if strata_cuda::devices().is_empty() => Vec::new(),
            Device::Auto => vec![Self::Cuda(0)],
            Device::Cuda(numbers) => numbers.iter().copied().map(Self::Cuda).collect(),
            Device::Vulkan(numbers) => numbers.iter().copied().map(Self::Vulkan).collect(),
        }
    }

    pub(super) fn open(self) -> Result<Box<dyn Backend>, DeviceError> {
        match self {
            Self::Cuda(index) => strata_cuda::backend(index),
            Self::Vulkan(index) => strata_vulkan::backend(index),
        }
    }
}

/// A GPU of this machine, for those who only want to know.
#[derive(Clone, Debug)]
pub struct GpuFacts {
    /// What the command line calls it: `cuda:0`.
    pub id: String,
    /// What it can do, and its memory.
    pub facts: DeviceFacts,
    /// Bytes of its memory that are free, where its driver tells.
    pub free: Option<u64>,
}

/// NVIDIA's GPUs, and everybody's that have drivers for Vulkan.
pub fn gpus() -> Vec<GpuFacts> {
    let cuda = strata_cuda::devices().into_iter().enumerate();
    let cuda = cuda.map(|(index, facts)| {
        let opened = strata_cuda::backend(index);
        let free = opened.and_then(|gpu| gpu.free_memory()).ok();
        (Gpu::Cuda(index), facts, free)
    });
    let vulkan = strata_vulkan::devices().into_iter().enumerate();
    let vulkan =
        vulkan.map(|(index, facts)| (Gpu::Vulkan(index), facts, strata_vulkan::free_memory(index)));
    let all = cuda.chain(vulkan).map(|(gpu, facts, free)| GpuFacts {
        id: gpu.to_string(),
        facts,
        free,
    });
    all.collect()
}
