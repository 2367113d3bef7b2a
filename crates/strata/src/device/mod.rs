//! Models on GPUs, or partly on them.

mod choice;
mod gpu;
mod opening;
mod placement;
mod plan;
mod refusal;
mod survey;

pub use choice::{Device, DeviceLost, GpuLayers};
pub use gpu::{GpuFacts, gpus};
pub(crate) use opening::open;
pub use plan::DevicePlan;
pub(crate) use plan::plan;
