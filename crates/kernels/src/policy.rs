//! Choices that decide how fast a matrix is multiplied, and never what comes out.
//!
//! - **How far ahead weights are asked for.** A hardware prefetcher stops at each 4 KiB, and sees no stream where several
//!   tokens keep the loads apart. Where one token is computed, the loads come as fast as memory delivers; then it depends
//!   on the processor whether asking for lines by software helps (by a third and more on Intel's servers) or takes the
//!   hardware's place.
//! - **How many tokens a pass over the weights serves,** and how many bytes of weights stay in the cache while all tokens
//!   pass over them: these depend on registers and caches.
//! - **From how many tokens on a [tile unit](Tiles) multiplies.**
//!
//! They are data, for each type of weights, to be set by whoever has measured.

use core::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use strata_quant::GgmlType;

use crate::tile_unit::Tiles;

/// The prefetch distance for several tokens, and for one until another is set.
pub(crate) const AHEAD: usize = 4608;

/// Types that have choices of their own.
const TYPES: usize = 64;

/// What is chosen for one type of weights.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// How far ahead the weights of one token are asked for, in bytes; at 0 nothing is asked for that is not there
    /// already.
    pub distance: usize,
    /// Tokens that a pass serves, at most.
    pub pass: usize,
    /// KiB of weights that stay in the cache while all tokens pass over them.
    pub resident_kib: usize,
    /// From how many tokens on a tile unit multiplies, where there is one.
    pub tiles_from: usize,
}

impl Choice {
    /// Prefetch distances that are worth trying.
    pub const DISTANCES: [usize; 4] = [0, 2304, AHEAD, 2 * AHEAD];
    /// Numbers of tokens that are worth trying; a backend with fewer registers takes what it can.
    pub const PASSES: [usize; 2] = [8, 4];
    /// Amounts of resident weights that are worth trying.
    pub const RESIDENTS_KIB: [usize; 4] = [64, 128, 256, 512];
    /// Widths that are worth trying, the last of which no batch has.
    pub const TILE_WIDTHS: [usize; 4] = [16, 32, 64, Self::NEVER];
    /// More tokens than any batch has.
    pub const NEVER: usize = u16::MAX as usize;
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            distance: AHEAD,
            pass: 8,
            resident_kib: 128,
            tiles_from: 32,
        }
    }
}

/// A [`Choice`] that may change while others use it.
#[derive(Debug)]
struct Shared {
    distance: AtomicU16,
    pass: AtomicU8,
    resident_kib: AtomicU16,
    tiles_from: AtomicU16,
}

/// The choices of one instruction set.
#[derive(Debug)]
pub struct Policy {
    types: [Shared; TYPES],
    tiles: AtomicU8,
}

impl Policy {
    pub(crate) const fn new() -> Self {
        Self {
            types: [const {
                Shared {
                    distance: AtomicU16::new(AHEAD as u16),
                    pass: AtomicU8::new(8),
                    resident_kib: AtomicU16::new(128),
                    tiles_from: AtomicU16::new(32),
                }
            }; TYPES],
            tiles: AtomicU8::new(Tiles::Off as u8),
        }
    }

    /// What is chosen for weights of type `ty`.
    pub fn get(&self, ty: GgmlType) -> Choice {
        let Some(shared) = self.types.get(ty as usize) else {
            return Choice::default();
        };
        Choice {
            distance: shared.distance.load(Ordering::Relaxed).into(),
            pass: shared.pass.load(Ordering::Relaxed).into(),
            resident_kib: shared.resident_kib.load(Ordering::Relaxed).into(),
            tiles_from: shared.tiles_from.load(Ordering::Relaxed).into(),
        }
    }

    /// Chooses for weights of type `ty`. Numbers too large to keep become the greatest that can be kept.
    pub fn set(&self, ty: GgmlType, choice: Choice) {
        let word = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let Some(shared) = self.types.get(ty as usize) else {
            return;
        };
        let pass = u8::try_from(choice.pass.max(1)).unwrap_or(u8::MAX);
        shared
            .distance
            .store(word(choice.distance), Ordering::Relaxed);
        shared.pass.store(pass, Ordering::Relaxed);
        shared
            .resident_kib
            .store(word(choice.resident_kib.max(1)), Ordering::Relaxed);
        shared
            .tiles_from
            .store(word(choice.tiles_from), Ordering::Relaxed);
    }

    /// The tile unit in use.
    pub fn tiles(&self) -> Tiles {
        match self.tiles.load(Ordering::Acquire) {
            tiles if tiles == Tiles::Amx as u8 => Tiles::Amx,
            tiles if tiles == Tiles::Emulated as u8 => Tiles::Emulated,
            _ => Tiles::Off,
        }
    }

    #[cfg(not(feature = "compact"))]
    pub(crate) fn set_tiles(&self, tiles: Tiles) {
        self.tiles.store(tiles as u8, Ordering::Release);
    }
}
