//! The block formats of GGUF tensors: their sizes, what their bytes mean, and how to make them from floats.
//!
//! [`GgmlType`] names the types. [`dequantize`] and [`quantize`] work on bytes and floats of any type; the block
//! structs (`BlockQ4_K` and so on, alignment 1, castable from a file's bytes with `bytemuck`) are for code that
//! computes on one format. Formats: ggml's `ggml-common.h`.
//!
//! ```
//! use strata_quant::{BlockQ8_0, GgmlType, dequantize, quantize};
//!
//! let weights: Vec<f32> = (0..64).map(|i| i as f32 / 8.0 - 4.0).collect();
//! let mut bytes = vec![0; GgmlType::Q8_0.row_bytes(64).unwrap() as usize];
//! quantize(GgmlType::Q8_0, &weights, None, &mut bytes)?;
//!
//! let mut back = vec![0.0; 64];
//! dequantize(GgmlType::Q8_0, &bytes, &mut back)?;
//! assert!(weights.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.02));
//!
//! let blocks: &[BlockQ8_0] = bytemuck::cast_slice(&bytes);
//! assert_eq!(blocks[0].qs[0], -127);
//! # Ok::<(), strata_quant::QuantError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod block;
mod dequantize;
mod error;
mod fit;
pub mod fp4;
mod ggml_type;
pub mod iq;
pub mod k;
pub mod legacy;
pub mod number;
mod quantize;
pub mod ternary;

pub use block::{Block, Quantize};
pub use dequantize::dequantize;
pub use error::QuantError;
pub use fp4::{BlockMXFP4, BlockNVFP4};
pub use ggml_type::GgmlType;
pub use iq::{
    BlockIQ1_M, BlockIQ1_S, BlockIQ2_S, BlockIQ2_XS, BlockIQ2_XXS, BlockIQ3_S, BlockIQ3_XXS,
    BlockIQ4_NL, BlockIQ4_XS,
};
pub use k::{BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockQ8_K};
pub use legacy::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ8_1};
pub use number::{BF16, F16};
pub use quantize::quantize;
pub use ternary::{BlockTQ1_0, BlockTQ2_0};
