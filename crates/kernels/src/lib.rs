//! The numerics contract: every operation of a forward pass, with the same bits on every instruction set.
//!
//! # What is computed
//! The backend in plain Rust defines the results; the others are right only if they are equal bit for bit (results
//! that are NaN may differ in sign and payload). Kernels are written once over 16 lanes (`lanes.rs`) and built for each
//! instruction set, so an operation and its order cannot differ by accident.
//!
//! - **Weights** are packed in panels of 16 rows ([`pack_panel`]), no larger than the GGUF blocks they come from. A
//!   row is a lane; its sum runs over its blocks in order.
//! - **Activations** of integer weights are quantized to 8 bits ([`ActFormat`]). Inside a block the sum of products is
//!   exact in i32: for the 32-column types `acc = fma(d·dx, Σqx, acc)`, and with minima `acc = fma(m, dx·Σx, acc)`; for
//!   each 32 columns of the 256-column types `acc = fma((d·scale)·dx, Σqx, acc)` and `acc = fma(−(dmin·min), dx·Σx, acc)`,
//!   or, where scales belong to 16 columns, `acc = fma(d·dx, Σ scale·Σqx, acc)` and
//!   `acc = fma(−(dmin·dx), Σ min·Σx, acc)`. One scale for 32 activations, where llama.cpp has one for 256, costs a
//!   tenth of the speed of prefill and brings results three times closer to exact arithmetic.
//! - **Float weights** have four sums a row by column modulo 4, joined as (s0 + s1) + (s2 + s3).
//! - **Sums over a vector** run in 16 lanes, element i in lane i modulo 16, joined as a tree: +8, +4, +2, +1.
//! - **Attention over whole sequences** has one sum for each score, over the columns in order, and one for each weighted
//!   value, over the keys in order; the softmax runs over blocks of [`WHOLE_KEYS`] keys.
//! - **Short convolutions** sum each channel over its taps in order, the oldest position first: `acc = fma(tap, x, acc)`.
//! - **Linear recurrences** ([`StateStep`]) take tokens one by one in f32: what is left of a state is `decay · state`; sums
//!   over keys run in order, `acc = fma(key, state, acc)`. So a chunk's length never shows.
//! - `exp`, `tanh` and `erf` are polynomials of our own; `sin`, `cos` and `pow` come from pure Rust in f64.
//!
//! # How to use it
//! [`Kernels::detect`] gives the operations for this processor. Callers bring all buffers; nothing allocates.
#![no_std]
// Loops over tokens and parts index several arrays side by side.
#![allow(clippy::needless_range_loop)]

mod act;
mod arch;
mod attention;
mod gated;
mod isa;
mod job;
mod kernels;
mod lanes;
mod math;
mod panel;
mod peak;
mod policy;
mod rope;
mod short_conv;
mod state;
mod tile;
mod tile_unit;
mod vector;

pub use act::{ActFormat, ActRows, ActRowsMut, act_format};
pub use attention::{KvRows, KvType, Partial, WHOLE_KEYS, WHOLE_ROWS, WholeScores, WholeSums};
pub use gated::Gated;
pub use isa::{CpuFeatures, Isa};
pub use job::{Job, PanelRun, PanelWork, Product, Rows, Weights};
pub use kernels::Kernels;
pub use panel::PANEL_ROWS;
pub use panel::layout::{is_packed, pack_panel, packed_bytes, panel_bytes, unpack_row};
pub use panel::matmul::Panels;
pub use policy::{Choice, Policy};
pub use rope::{RopeKind, ln, pow, sin_cos};
pub use state::{Decay, StateRule, StateStep};
pub use tile::TileMut;
pub use tile_unit::Tiles;
pub use vector::Activation;
