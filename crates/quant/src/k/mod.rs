//! The K formats: 256 values in groups of 16 or 32, whose integer scales share one or two floats.

mod q2_k;
mod q3_k;
mod q4_k;
mod q5_k;
mod q6_k;
mod q8_k;

pub use q2_k::BlockQ2_K;
pub use q3_k::BlockQ3_K;
pub(crate) use q4_k::pack_nibble_planes;
pub use q4_k::{BlockQ4_K, pack_scales_mins, unpack_scales_mins};
pub use q5_k::BlockQ5_K;
pub use q6_k::BlockQ6_K;
pub use q8_k::BlockQ8_K;
