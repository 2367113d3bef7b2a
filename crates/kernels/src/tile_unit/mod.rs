//! Matrix products on a unit that multiplies tiles: 16 tokens × 16 rows × 32 columns at once, in integers.
//!
//! One such product is one block of the contract, so the float operations between blocks stay as they are, in their order,
//! and every bit with them. The unit sits behind [`TileUnit`]: Intel's AMX, or an emulation in plain Rust, with which the
//! layout and the order are tested on every machine. Where scales belong to 16 columns, a block is two products.

#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(feature = "compact")
))]
pub(crate) mod amx;
#[cfg(not(feature = "compact"))]
#[cfg_attr(target_arch = "wasm32", allow(dead_code))]
pub(crate) mod emulated;
#[cfg(not(feature = "compact"))]
#[cfg_attr(target_arch = "wasm32", allow(dead_code))]
pub(crate) mod product;
#[cfg(not(feature = "compact"))]
mod self_test;
#[cfg(not(feature = "compact"))]
mod unit;

#[cfg(not(feature = "compact"))]
pub(crate) use unit::*;

/// What multiplies tiles.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tiles {
    /// Nothing: vectors do all the work.
    Off,
    /// Plain Rust, to test with. Slow.
    Emulated,
    /// Intel's Advanced Matrix Extensions, 8-bit integers.
    Amx,
}

impl Tiles {
    /// The spelling that `STRATA_TILES` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Tiles::Off => "off",
            Tiles::Emulated => "emulated",
            Tiles::Amx => "amx",
        }
    }

    /// The one with this spelling.
    pub fn from_name(name: &str) -> Option<Self> {
        [Tiles::Off, Tiles::Emulated, Tiles::Amx]
            .into_iter()
            .find(|tiles| tiles.name() == name)
    }
}
