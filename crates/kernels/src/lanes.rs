//! The operations that kernels are written in: sixteen rows (or sixteen floats) at a time, whatever the registers.
//!
//! A 64-byte line of a panel holds 4 bytes, or one i32, or one f32, of each of 16 rows. A backend covers it in
//! [`Lanes::PARTS`] registers: one of 512 bits, two of 256, four of 128. Kernels loop over the parts; what they
//! compute in one lane depends on that lane alone, so the width never shows in the result.
//!
//! A backend is a token that exists only where its instructions do: having one is the proof that they may be used.

/// The most registers that a line takes.
pub(crate) const MAX_PARTS: usize = 4;

/// Something to run with a backend's instructions switched on.
pub(crate) trait Op {
    /// What it returns.
    type Out;
    /// Does it. Must be `#[inline(always)]`, as must everything below it that touches lanes: only then does it land
    /// in the function that has the instructions enabled.
    fn run<L: Dot>(self, l: L) -> Self::Out;
}

/// Sixteen lanes of i32 and f32, a part at a time.
///
/// Comparisons are false for NaN. Results that are NaN may differ in sign and payload between backends, in nothing else.
pub(crate) trait Lanes: Copy {
    /// Registers that 16 lanes take.
    const PARTS: usize;
    /// Tokens that a pass over integer weights serves, at most.
    const TILE: usize;

    /// i32 lanes, or 4 bytes a lane.
    type I: Copy;
    /// f32 lanes.
    type F: Copy;

    /// A line, as it lies.
    fn load(self, line: &[u8; 64], part: usize) -> Self::I;
    /// 16 bytes, zero-extended.
    fn load_u8(self, bytes: &[u8; 16], part: usize) -> Self::I;
    /// 16 little-endian words, zero-extended.
    fn load_u16(self, words: &[u8; 32], part: usize) -> Self::I;
    /// 16 signed bytes.
    fn load_i8(self, bytes: &[u8; 16], part: usize) -> Self::I;
    /// The lower bytes of lanes that hold −128 to 127.
    fn store_i8(self, a: Self::I, out: &mut [i8; 16], part: usize);
    /// Asks for the cache line `ahead` bytes after `line`; never faults.
    fn prefetch<T>(self, line: &T, ahead: usize);

    fn splat(self, a: i32) -> Self::I;
    fn and(self, a: Self::I, b: Self::I) -> Self::I;
    fn or(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts lanes left.
    fn shl(self, a: Self::I, n: u32) -> Self::I;
    /// Shifts lanes right, zeros in.
    fn shr(self, a: Self::I, n: u32) -> Self::I;
    /// Shifts lanes right, signs in.
    fn sar(self, a: Self::I, n: u32) -> Self::I;
    /// Adds lanes, wrapping.
    fn add(self, a: Self::I, b: Self::I) -> Self::I;
    fn sub(self, a: Self::I, b: Self::I) -> Self::I;
    #[cfg_attr(target_arch = "wasm32", allow(dead_code))]
    fn mul(self, a: Self::I, b: Self::I) -> Self::I;
    /// The greater lane, signed.
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Subtracts bytes, wrapping.
    fn sub8(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bytes 0 and 2 of each lane as a pair of signed 16-bit numbers.
    fn even_i8(self, a: Self::I) -> Self::I;
    /// Multiplies both signed 16-bit numbers of each lane, wrapping.
    fn mul_pairs(self, a: Self::I, by: i16) -> Self::I;
    /// The table's entry for each byte; the bytes are below 16.
    fn lut(self, table: &[i8; 16], codes: Self::I) -> Self::I;

    fn load_f(self, values: &[f32; 16], part: usize) -> Self::F;
    fn store_f(self, a: Self::F, out: &mut [f32; 16], part: usize);
    /// 16 half floats.
    fn load_f16(self, halves: &[u8; 32], part: usize) -> Self::F;
    /// 16 half floats, rounded to the nearest, ties to even.
    fn store_f16(self, a: Self::F, out: &mut [u8; 32], part: usize);
    fn splat_f(self, a: f32) -> Self::F;
    /// One half float for all lanes.
    fn splat_f16(self, half: [u8; 2]) -> Self::F;
    /// The f32 nearest to the integer.
    fn to_f(self, a: Self::I) -> Self::F;
    /// The integer nearest to the float, ties to even; the float is within ±2^22.
    fn round(self, a: Self::F) -> Self::I;
    fn bits(self, a: Self::F) -> Self::I;
    fn of_bits(self, a: Self::I) -> Self::F;
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn div_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// a · b + c, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// c − a · b, rounded once.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a` where a > b, else `b`: so `b` where either is NaN.
    fn max_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where a < b, else `b`: so `b` where either is NaN.
    fn min_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// `yes` where a < b, else `no`.
    fn select_lt(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
    /// The sum of the 16 lanes of all parts: lane j + lane j+8, then +4, +2, +1.
    fn sum(self, lanes: &[Self::F; MAX_PARTS]) -> f32;
    /// Four such sums.
    fn sum4(self, lanes: &[[Self::F; MAX_PARTS]; 4]) -> [f32; 4];

    /// Sixteen such sums.
    #[inline(always)]
    fn sum16(self, lanes: &[[Self::F; MAX_PARTS]; 16]) -> [f32; 16] {
        let mut sums = [0.0; 16];
        for (sums, lanes) in sums.as_chunks_mut().0.iter_mut().zip(lanes.as_chunks().0) {
            *sums = self.sum4(lanes);
        }
        sums
    }

    /// 16 bfloat16.
    #[inline(always)]
    fn load_bf16(self, words: &[u8; 32], part: usize) -> Self::F {
        self.of_bits(self.shl(self.load_u16(words, part), 16))
    }

    /// Shifts lanes left, or right where n is negative, zeros in.
    #[inline(always)]
    fn shift(self, a: Self::I, n: i32) -> Self::I {
        if n < 0 {
            self.shr(a, n.unsigned_abs())
        } else {
            self.shl(a, n.unsigned_abs())
        }
    }

    /// The k-th byte of each lane.
    #[inline(always)]
    fn byte_u8(self, a: Self::I, k: usize) -> Self::I {
        self.and(self.shr(a, 8 * k as u32), self.splat(0xff))
    }

    /// The k-th byte of each lane, signed.
    #[inline(always)]
    fn byte_i8(self, a: Self::I, k: usize) -> Self::I {
        self.sar(self.shl(a, 24 - 8 * k as u32), 24)
    }

    /// Four equal bytes in each lane.
    #[inline(always)]
    fn splat_bytes(self, byte: u8) -> Self::I {
        self.splat(i32::from_ne_bytes([byte; 4]))
    }
}

/// Dot products of bytes. Each lane multiplies its 4 bytes of weights with the same 4 bytes of activations, which are
/// −127 to 127.
pub(crate) trait Dot: Lanes {
    /// Whether sums of unsigned products are kept in 16 bits: then (largest weight) × (columns) must not pass
    /// [`NARROW_LIMIT`] before they are carried or folded.
    const NARROW: bool;

    /// A running sum of products with unsigned weights.
    type Sum: Copy;
    /// Signed weights, made ready for multiplication.
    type Signed: Copy;

    /// A sum of nothing.
    fn zero(self) -> Self::Sum;
    /// The start of a sum that is not to be folded: −Σx · 2^shift, which takes 2^shift from every weight.
    fn start(self, minus_sum_x: i32, shift: u32) -> Self::Sum;
    /// Adds the products with unsigned weights, 0 to 127.
    fn dot(self, sum: Self::Sum, w: Self::I, x: i32) -> Self::Sum;
    /// Makes room in a narrow sum.
    fn carry(self, sum: Self::Sum) -> Self::Sum;
    /// The sum.
    fn finish(self, sum: Self::Sum) -> Self::I;
    /// tot + sum · scale, where the scale is −128 to 127.
    fn fold(self, tot: Self::I, sum: Self::Sum, scale: Self::I) -> Self::I;
    /// The same for a sum known to be within 16 bits.
    fn fold_small(self, tot: Self::I, sum: Self::Sum, scale: Self::I) -> Self::I;

    /// `acc` + the products of two pairs of signed 16-bit numbers.
    fn dot_pairs(self, acc: Self::I, a: Self::I, b: i32) -> Self::I;

    /// Makes signed weights ready, −128 to 127.
    fn signed(self, w: Self::I) -> Self::Signed;
    /// The table's values for the codes, made ready.
    fn signed_lut(self, table: &[i8; 16], codes: Self::I) -> Self::Signed;
    /// The start of a sum of signed products, given −Σx of all activations that go into it.
    fn start_signed(self, minus_sum_x: i32) -> Self::I;
    /// Adds the products with signed weights.
    fn dot_signed(self, acc: Self::I, w: Self::Signed, x: i32) -> Self::I;

    /// Runs `op` in a function of its own with the instructions switched on.
    fn call<O: Op>(self, op: O) -> O::Out;
}

/// See [`Dot::NARROW`]: a 16-bit half of a lane takes every other pair of columns, so half of them.
pub(crate) const NARROW_LIMIT: usize = 2 * (i16::MAX as usize / 127);
