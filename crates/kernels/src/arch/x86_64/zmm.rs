//! 512-bit registers: a line in one.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::ymm::{sum8, sum8x4};
use super::{Maddubs, Vnni};
use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};

/// The token of a 512-bit backend; `D` is how it multiplies bytes.
#[derive(Copy, Clone)]
pub(crate) struct Zmm<D>(PhantomData<D>);

impl<D> Zmm<D> {
    /// # Safety
    /// The processor has the instructions that [`Dot::call`] switches on for this `D`, and the system saves their
    /// registers.
    pub(crate) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// Calls an intrinsic.
macro_rules! op {
    ($op:expr) => {
        // SAFETY: a token is at hand, so the instruction exists; where it reads or writes memory, it is inside an array
        // whose length fits the register and the part.
        unsafe { $op }
    };
}

/// Registers in a line.
const PARTS: usize = 1;

/// The place of a part in an array for 16 lanes. The check is for the compiler to remove: every part is a constant.
#[inline(always)]
fn place<T>(array: &[T], part: usize) -> *const T {
    assert!(part < PARTS);
    array.as_ptr().wrapping_add(part * (array.len() / PARTS))
}

/// The same, to write.
#[inline(always)]
fn place_mut<T>(array: &mut [T], part: usize) -> *mut T {
    assert!(part < PARTS);
    array
        .as_mut_ptr()
        .wrapping_add(part * (array.len() / PARTS))
}

impl<D: Copy> Lanes for Zmm<D> {
    const PARTS: usize = PARTS;
    const TILE: usize = 8;
    type I = __m512i;
    type F = __m512;

    #[inline(always)]
    fn load(self, line: &[u8; 64], part: usize) -> __m512i {
        op!(_mm512_loadu_si512(place(line, part).cast()))
    }
    #[inline(always)]
    fn load_u8(self, bytes: &[u8; 16], part: usize) -> __m512i {
        op!(_mm512_cvtepu8_epi32(_mm_loadu_si128(
            place(bytes, part).cast()
        )))
    }
    #[inline(always)]
    fn load_u16(self, words: &[u8; 32], part: usize) -> __m512i {
        op!(_mm512_cvtepu16_epi32(_mm256_loadu_si256(
            place(words, part).cast()
        )))
    }
    #[inline(always)]
    fn load_i8(self, bytes: &[u8; 16], part: usize) -> __m512i {
        op!(_mm512_cvtepi8_epi32(_mm_loadu_si128(
            place(bytes, part).cast()
        )))
    }
    #[inline(always)]
    fn store_i8(self, a: __m512i, out: &mut [i8; 16], part: usize) {
        op!(_mm_storeu_si128(
            place_mut(out, part).cast(),
            _mm512_cvtepi32_epi8(a)
        ));
    }
    #[inline(always)]
    fn prefetch<T>(self, line: &T, ahead: usize) {
        op!(_mm_prefetch::<_MM_HINT_T0>(
            core::ptr::from_ref(line).cast::<i8>().wrapping_add(ahead)
        ));
    }

    #[inline(always)]
    fn splat(self, a: i32) -> __m512i {
        op!(_mm512_set1_epi32(a))
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shl(self, a: __m512i, n: u32) -> __m512i {
        op!(_mm512_sll_epi32(a, _mm_cvtsi32_si128(n as i32)))
    }
    #[inline(always)]
    fn shr(self, a: __m512i, n: u32) -> __m512i {
        op!(_mm512_srl_epi32(a, _mm_cvtsi32_si128(n as i32)))
    }
    #[inline(always)]
    fn sar(self, a: __m512i, n: u32) -> __m512i {
        op!(_mm512_sra_epi32(a, _mm_cvtsi32_si128(n as i32)))
    }
    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epi32(a, b))
    }
    #[inline(always)]
    fn sub8(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_sub_epi8(a, b))
    }
    #[inline(always)]
    fn even_i8(self, a: __m512i) -> __m512i {
        op!(_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(a)))
    }
    #[inline(always)]
    fn mul_pairs(self, a: __m512i, by: i16) -> __m512i {
        op!(_mm512_mullo_epi16(a, _mm512_set1_epi16(by)))
    }
    #[inline(always)]
    fn lut(self, table: &[i8; 16], codes: __m512i) -> __m512i {
        op!(_mm512_shuffle_epi8(
            _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())),
            codes
        ))
    }

    #[inline(always)]
    fn load_f(self, values: &[f32; 16], part: usize) -> __m512 {
        op!(_mm512_loadu_ps(place(values, part)))
    }
    #[inline(always)]
    fn store_f(self, a: __m512, out: &mut [f32; 16], part: usize) {
        op!(_mm512_storeu_ps(place_mut(out, part), a));
    }
    #[inline(always)]
    fn load_f16(self, halves: &[u8; 32], part: usize) -> __m512 {
        op!(_mm512_cvtph_ps(_mm256_loadu_si256(
            place(halves, part).cast()
        )))
    }
    #[inline(always)]
    fn store_f16(self, a: __m512, out: &mut [u8; 32], part: usize) {
        op!(_mm256_storeu_si256(
            place_mut(out, part).cast(),
            _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
        ));
    }
    #[inline(always)]
    fn splat_f(self, a: f32) -> __m512 {
        op!(_mm512_set1_ps(a))
    }
    #[inline(always)]
    fn splat_f16(self, half: [u8; 2]) -> __m512 {
        op!(_mm512_cvtph_ps(_mm256_set1_epi16(i16::from_le_bytes(half))))
    }
    #[inline(always)]
    fn to_f(self, a: __m512i) -> __m512 {
        op!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512i {
        op!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    fn bits(self, a: __m512) -> __m512i {
        op!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn of_bits(self, a: __m512i) -> __m512 {
        op!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn add_f(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub_f(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul_f(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div_f(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        op!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn fnma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        op!(_mm512_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max_f(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min_f(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn select_lt(self, a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
        op!(_mm512_mask_blend_ps(
            _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b),
            no,
            yes
        ))
    }
    #[inline(always)]
    fn sum(self, lanes: &[__m512; MAX_PARTS]) -> f32 {
        op!(sum8(fold(lanes[0])))
    }
    #[inline(always)]
    fn sum4(self, [a, b, c, d]: &[[__m512; MAX_PARTS]; 4]) -> [f32; 4] {
        op!(sum8x4(fold(a[0]), fold(b[0]), fold(c[0]), fold(d[0])))
    }
    #[inline(always)]
    fn sum16(self, lanes: &[[__m512; MAX_PARTS]; 16]) -> [f32; 16] {
        let mut a = [lanes[0][0]; 16];
        for i in 0..16 {
            a[(i & 0b0101) << 1 | (i & 0b1010) >> 1] = lanes[i][0];
        }
        let mut sums = [0.0; 16];
        self.store_f(op!(sum16(a)), &mut sums, 0);
        sums
    }
}

/// The first step of the tree of [`Lanes::sum`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn fold(a: __m512) -> __m256 {
    _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a))
}

/// Sixteen trees of [`Lanes::sum`] at once: each step halves the lanes of two registers and puts them into one. Lane i
/// is the sum of the register whose number is i with neighbouring bits exchanged.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum16(a: [__m512; 16]) -> __m512 {
    let eights: [__m512; 8] = core::array::from_fn(|i| {
        _mm512_add_ps(
            _mm512_shuffle_f32x4::<0x44>(a[i], a[i + 8]),
            _mm512_shuffle_f32x4::<0xee>(a[i], a[i + 8]),
        )
    });
    let fours: [__m512; 4] = core::array::from_fn(|i| {
        _mm512_add_ps(
            _mm512_shuffle_f32x4::<0x88>(eights[i], eights[i + 4]),
            _mm512_shuffle_f32x4::<0xdd>(eights[i], eights[i + 4]),
        )
    });
    let twos: [__m512; 2] = core::array::from_fn(|i| {
        let (a, b) = (_mm512_castps_pd(fours[i]), _mm512_castps_pd(fours[i + 2]));
        _mm512_add_ps(
            _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)),
        )
    });
    _mm512_add_ps(
        _mm512_shuffle_ps::<0x88>(twos[0], twos[1]),
        _mm512_shuffle_ps::<0xdd>(twos[0], twos[1]),
    )
}

/// Sums of 16-bit pairs, and what was carried out of them.
#[derive(Copy, Clone)]
pub(crate) struct Narrow {
    pairs: __m512i,
    carried: __m512i,
}

impl Dot for Zmm<Maddubs> {
    const NARROW: bool = true;
    type Sum = Narrow;
    /// The weights and their magnitudes.
    type Signed = (__m512i, __m512i);

    #[inline(always)]
    fn zero(self) -> Narrow {
        Narrow {
            pairs: op!(_mm512_setzero_si512()),
            carried: op!(_mm512_setzero_si512()),
        }
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> Narrow {
        Narrow {
            pairs: op!(_mm512_setzero_si512()),
            carried: self.shl(self.splat(minus_sum_x), shift),
        }
    }
    #[inline(always)]
    fn dot(self, sum: Narrow, w: __m512i, x: i32) -> Narrow {
        let pairs = op!(_mm512_add_epi16(
            sum.pairs,
            _mm512_maddubs_epi16(w, _mm512_set1_epi32(x))
        ));
        Narrow { pairs, ..sum }
    }
    #[inline(always)]
    fn carry(self, sum: Narrow) -> Narrow {
        Narrow {
            pairs: op!(_mm512_setzero_si512()),
            carried: self.finish(sum),
        }
    }
    #[inline(always)]
    fn finish(self, sum: Narrow) -> __m512i {
        op!(_mm512_add_epi32(
            sum.carried,
            _mm512_madd_epi16(sum.pairs, _mm512_set1_epi16(1))
        ))
    }
    #[inline(always)]
    fn fold(self, tot: __m512i, sum: Narrow, scale: __m512i) -> __m512i {
        let both = op!(_mm512_mask_mov_epi16(
            scale,
            0xaaaa_aaaa,
            _mm512_slli_epi32::<16>(scale)
        ));
        op!(_mm512_add_epi32(tot, _mm512_madd_epi16(sum.pairs, both)))
    }
    #[inline(always)]
    fn fold_small(self, tot: __m512i, sum: Narrow, scale: __m512i) -> __m512i {
        self.fold(tot, sum, scale)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: __m512i, a: __m512i, b: i32) -> __m512i {
        op!(_mm512_add_epi32(
            acc,
            _mm512_madd_epi16(a, _mm512_set1_epi32(b))
        ))
    }
    #[inline(always)]
    fn signed(self, w: __m512i) -> Self::Signed {
        (w, op!(_mm512_abs_epi8(w)))
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: __m512i) -> Self::Signed {
        self.signed(self.lut(table, codes))
    }
    #[inline(always)]
    fn start_signed(self, _: i32) -> __m512i {
        op!(_mm512_setzero_si512())
    }
    #[inline(always)]
    fn dot_signed(self, acc: __m512i, (w, magnitude): Self::Signed, x: i32) -> __m512i {
        op!({
            let x = _mm512_set1_epi32(x);
            // |w| · (x with w's sign): at most 128 · 127 · 2 in a pair, which 16 bits hold.
            let pairs = _mm512_maddubs_epi16(
                magnitude,
                _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x),
            );
            _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
        })
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
        fn enter<O: Op>(l: Zmm<Maddubs>, op: O) -> O::Out {
            op.run(l)
        }
        op!(enter(self, op))
    }
}

impl Dot for Zmm<Vnni> {
    const NARROW: bool = false;
    type Sum = __m512i;
    /// The weights + 128, unsigned.
    type Signed = __m512i;

    #[inline(always)]
    fn zero(self) -> __m512i {
        op!(_mm512_setzero_si512())
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> __m512i {
        self.shl(self.splat(minus_sum_x), shift)
    }
    #[inline(always)]
    fn dot(self, sum: __m512i, w: __m512i, x: i32) -> __m512i {
        op!(_mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(x)))
    }
    #[inline(always)]
    fn carry(self, sum: __m512i) -> __m512i {
        sum
    }
    #[inline(always)]
    fn finish(self, sum: __m512i) -> __m512i {
        sum
    }
    #[inline(always)]
    fn fold(self, tot: __m512i, sum: __m512i, scale: __m512i) -> __m512i {
        self.add(tot, self.mul(sum, scale))
    }
    #[inline(always)]
    fn fold_small(self, tot: __m512i, sum: __m512i, scale: __m512i) -> __m512i {
        // The upper half of the sum repeats its sign; an upper half of 0 in the scale takes it out.
        op!(_mm512_dpwssd_epi32(
            tot,
            sum,
            self.and(scale, self.splat(0xffff))
        ))
    }
    #[inline(always)]
    fn dot_pairs(self, acc: __m512i, a: __m512i, b: i32) -> __m512i {
        op!(_mm512_dpwssd_epi32(acc, a, _mm512_set1_epi32(b)))
    }
    #[inline(always)]
    fn signed(self, w: __m512i) -> __m512i {
        op!(_mm512_xor_si512(w, _mm512_set1_epi8(-128)))
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: __m512i) -> __m512i {
        self.lut(&table.map(|value| value ^ -128), codes)
    }
    #[inline(always)]
    fn start_signed(self, minus_sum_x: i32) -> __m512i {
        self.start(minus_sum_x, 7)
    }
    #[inline(always)]
    fn dot_signed(self, acc: __m512i, w: __m512i, x: i32) -> __m512i {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni")]
        fn enter<O: Op>(l: Zmm<Vnni>, op: O) -> O::Out {
            op.run(l)
        }
        op!(enter(self, op))
    }
}
