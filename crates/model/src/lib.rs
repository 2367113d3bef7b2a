//! Architectures as data, one decoder, one encoder, KV pages, `forward(batch)`.
//!
//! A [`Blueprint`] is a weight file checked against the [`spec::ArchSpec`] of its architecture; it knows what the
//! model will take, and builds the [`Model`]: in memory, or partly left in the file.
//! [`Model::forward`] then computes batches: any mix of prompt chunks and single tokens of several
//! [`Sequence`]s, whose keys and values are in [`KvPages`]. It allocates nothing, and a token's result
//! has the same bits whatever else is in the batch, on any number of workers and any instruction set.
//! [`Model::encode`] does the same for the whole sequences of an encoder, which need no pages, and [`Pooled`] makes one
//! vector of a sequence's states.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod adaptation;
mod adapter;
mod altup;
pub mod arch;
mod audio_tower;
mod batch;
mod blocks;
mod blueprint;
mod compute;
mod config;
mod cpu_executor;
mod ctc;
mod decoder;
mod deepstack;
mod dense_beside;
mod device;
mod embedded;
mod encoder;
mod error;
mod executor;
mod experts;
mod ffn;
mod kv_pages;
mod layer;
mod matrix;
mod mixer;
mod model;
mod nextn;
mod observer;
mod packed;
mod pages;
mod per_layer;
mod pooling;
mod residual;
mod rope;
mod row_formats;
mod spare;
pub mod spec;
mod stretch;
mod tensors;
mod tower;
mod tuning;
mod whisper;
mod workspace;

pub use adapter::{Adapted, Adapter, AdapterError, AdapterTensor, DeviceDelta};
pub use audio_tower::{
    AudioMerge, AudioStep, AudioTower, AudioTowerConfig, AudioTowerError, AudioTowerSpec, Heed,
};
pub use batch::{BatchLimits, Output, Outputs, Span};
pub use blueprint::{Blueprint, LoadOptions, NextnUse, Placement};
pub use compute::Compute;
pub use config::{
    AttentionConfig, BucketConfig, Config, DeltaNetConfig, ExpertConfig, KimiDeltaConfig,
    LatentConfig, LayerConfig, LightningConfig, MambaConfig, MambaVersion, MixerConfig,
    RecurrentConfig, RgLruConfig, RopeConfig, RopeScaling, Rwkv4Config, RwkvConfig, RwkvVersion,
    ShortConvConfig, SourceConfig, StreamConfig,
};
pub use cpu_executor::CpuExecutor;
pub use ctc::{Ctc, CtcConfig, CtcConvolution, CtcNorm, TooShort};
pub use device::{
    DeviceAttention, DeviceDense, DeviceExpertMatrices, DeviceExperts, DeviceFeedForward,
    DeviceLayer, DeviceLinear, DeviceMatrix, DeviceModel, DeviceNorm, NotOnDevice,
};
pub use embedded::{EmbeddedRun, Grid};
pub use encoder::EncoderInput;
pub use error::{BatchError, LoadError};
pub use executor::{Executor, ExecutorMemory};
pub use kv_pages::KvPages;
pub use model::Model;
pub use observer::{AttentionShares, MatrixTensor, Observer};
pub use pages::{
    LayerBlocks, OutOfPages, PAGE, PageCopy, PageId, PageLayout, PageStorage, PageTable, Reach,
    Sequence, StateId,
};
pub use pooling::{Pooled, Pooling, normalize};
pub use row_formats::{ROW_FORMATS, RowFormat};
pub use strata_kernels::KvType;
pub use strata_quant::GgmlType;
pub use stretch::{CpuStretch, Stretch};
pub use tower::{
    ClassPlace, Colors, HeadNorm, Merge, Mutual, PlaceTable, ProjectorStep, Tiling, Tower,
    TowerConfig, TowerError, TowerImage, TowerPatches, TowerRope, TowerRows, TowerSpec,
};
pub use tuning::TypeTuning;
pub use whisper::{Alignment, Heard, Whisper, WhisperConfig, WhisperError, WhisperState};
pub use workspace::Workspace;
