//! Intel's AMX: eight registers of 16 rows × 64 bytes. Intel SDM, volume 1, chapter 18.
//!
//! Registers 0 to 3 are the squares, 4 and 5 tokens (16 × 32 bytes), 6 and 7 weights (8 lines). The compiler never uses
//! them by itself, so what they hold lives from one piece of assembly to the next.
#![allow(unsafe_code)]

use core::arch::asm;
use core::marker::PhantomData;

use super::{COLUMNS, Square, TOKENS, TileUnit};
use crate::panel::Line;

/// Asks the system, once for the whole process, to let its threads use the unit: arch_prctl(ARCH_REQ_XCOMP_PERM,
/// XTILEDATA). Where no system is, whoever switched the registers on has said so in XCR0.
pub(crate) fn permit() -> bool {
    if cfg!(target_os = "linux") {
        let mut result: i64 = 158;
        // SAFETY: the call reads its two numbers and touches no memory of ours; the kernel clobbers rcx and r11.
        unsafe {
            asm!("syscall", inout("rax") result, in("rdi") 0x1023, in("rsi") 18, out("rcx") _, out("r11") _,
                options(nostack));
        }
        result == 0
    } else {
        cfg!(target_os = "none")
    }
}

/// The unit, set up for the thread that holds this until it is dropped.
pub(crate) struct Amx(PhantomData<*mut ()>);

impl Amx {
    /// # Safety
    /// The processor has AMX-TILE and AMX-INT8, and [`permit`] has said yes. The thread holds no other.
    pub(crate) unsafe fn new() -> Self {
        let mut config = [0u8; 64];
        // Palette 1; bytes of a row from 16 on, rows from 48 on.
        config[0] = 1;
        for i in 0..8 {
            config[16 + 2 * i] = if i / 2 == 2 { COLUMNS as u8 } else { 64 };
            config[48 + i] = if i / 2 == 3 { 8 } else { TOKENS as u8 };
        }
        // SAFETY: the instruction exists and is permitted; it reads 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, preserves_flags)) };
        Self(PhantomData)
    }
}

impl Drop for Amx {
    fn drop(&mut self) {
        // SAFETY: the instruction exists and is permitted. Without it the system would save 8 KiB whenever this thread
        // makes room for another.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
    }
}

/// Instructions on tiles in memory: `at` is the first row, the rows are `stride` bytes apart.
macro_rules! tile {
    ($line:literal, $at:expr, $stride:expr) => {
        // SAFETY: a unit is at hand, so the instruction exists and tiles have their sizes; the callers below say why the
        // rows are there.
        unsafe {
            asm!($line, at = in(reg) $at, stride = in(reg) $stride, options(nostack, preserves_flags))
        }
    };
}

impl TileUnit for Amx {
    #[inline(always)]
    fn load_x(&mut self, i: usize, x: &[u8], stride: usize) {
        // 16 rows of 32 bytes, the last of which ends here.
        assert!(
            x.len() >= (TOKENS - 1) * stride + COLUMNS,
            "a tile of tokens"
        );
        match i {
            0 => tile!("tileloadd tmm4, [{at} + {stride}]", x.as_ptr(), stride),
            _ => tile!("tileloadd tmm5, [{at} + {stride}]", x.as_ptr(), stride),
        }
    }

    #[inline(always)]
    fn load_w(&mut self, i: usize, w: &[Line; 8]) {
        // 8 rows of 64 bytes.
        match i {
            0 => tile!("tileloadd tmm6, [{at} + {stride}]", w.as_ptr(), 64usize),
            _ => tile!("tileloadd tmm7, [{at} + {stride}]", w.as_ptr(), 64usize),
        }
    }

    #[inline(always)]
    fn multiply(&mut self, q: usize) {
        macro_rules! multiply {
            ($($line:literal),+) => {
                // SAFETY: as above; no memory is touched.
                unsafe { asm!($($line),+, options(nostack, preserves_flags)) }
            };
        }
        match q {
            0 => multiply!("tilezero tmm0", "tdpbssd tmm0, tmm4, tmm6"),
            1 => multiply!("tilezero tmm1", "tdpbssd tmm1, tmm4, tmm7"),
            2 => multiply!("tilezero tmm2", "tdpbssd tmm2, tmm5, tmm6"),
            _ => multiply!("tilezero tmm3", "tdpbssd tmm3, tmm5, tmm7"),
        }
    }

    #[inline(always)]
    fn store(&mut self, q: usize, out: &mut Square) {
        // 16 rows of 64 bytes.
        let at = out.0.as_mut_ptr();
        match q {
            0 => tile!("tilestored [{at} + {stride}], tmm0", at, 64usize),
            1 => tile!("tilestored [{at} + {stride}], tmm1", at, 64usize),
            2 => tile!("tilestored [{at} + {stride}], tmm2", at, 64usize),
            _ => tile!("tilestored [{at} + {stride}], tmm3", at, 64usize),
        }
    }
}
