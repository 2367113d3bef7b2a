//! 256-bit registers: a line in two.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::{Maddubs, Vnni};
use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};

/// The token of a 256-bit backend; `D` is how it multiplies bytes.
#[derive(Copy, Clone)]
pub(crate) struct Ymm<D>(PhantomData<D>);

impl<D> Ymm<D> {
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
const PARTS: usize = 2;

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

impl<D: Copy> Lanes for Ymm<D> {
    const PARTS: usize = PARTS;
    const TILE: usize = 4;
    type I = __m256i;
    type F = __m256;

    #[inline(always)]
    fn load(self, line: &[u8; 64], part: usize) -> __m256i {
        op!(_mm256_loadu_si256(place(line, part).cast()))
    }
    #[inline(always)]
    fn load_u8(self, bytes: &[u8; 16], part: usize) -> __m256i {
        op!(_mm256_cvtepu8_epi32(_mm_loadl_epi64(
            place(bytes, part).cast()
        )))
    }
    #[inline(always)]
    fn load_u16(self, words: &[u8; 32], part: usize) -> __m256i {
        op!(_mm256_cvtepu16_epi32(_mm_loadu_si128(
            place(words, part).cast()
        )))
    }
    #[inline(always)]
    fn load_i8(self, bytes: &[u8; 16], part: usize) -> __m256i {
        op!(_mm256_cvtepi8_epi32(_mm_loadl_epi64(
            place(bytes, part).cast()
        )))
    }
    #[inline(always)]
    fn store_i8(self, a: __m256i, out: &mut [i8; 16], part: usize) {
        op!({
            let words =
                _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            _mm_storel_epi64(place_mut(out, part).cast(), _mm_packs_epi16(words, words));
        });
    }
    #[inline(always)]
    fn prefetch<T>(self, line: &T, ahead: usize) {
        op!(_mm_prefetch::<_MM_HINT_T0>(
            core::ptr::from_ref(line).cast::<i8>().wrapping_add(ahead)
        ));
    }

    #[inline(always)]
    fn splat(self, a: i32) -> __m256i {
        op!(_mm256_set1_epi32(a))
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn shl(self, a: __m256i, n: u32) -> __m256i {
        op!(_mm256_sll_epi32(a, _mm_cvtsi32_si128(n as i32)))
    }
    #[inline(always)]
    fn shr(self, a: __m256i, n: u32) -> __m256i {
        op!(_mm256_srl_epi32(a, _mm_cvtsi32_si128(n as i32)))
    }
    #[inline(always)]
    fn sar(self, a: __m256i, n: u32) -> __m256i {
        op!(_mm256_sra_epi32(a, _mm_cvtsi32_si128(n as i32)))
    }
    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_mullo_epi32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_max_epi32(a, b))
    }
    #[inline(always)]
    fn sub8(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_sub_epi8(a, b))
    }
    #[inline(always)]
    fn even_i8(self, a: __m256i) -> __m256i {
        op!(_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a)))
    }
    #[inline(always)]
    fn mul_pairs(self, a: __m256i, by: i16) -> __m256i {
        op!(_mm256_mullo_epi16(a, _mm256_set1_epi16(by)))
    }
    #[inline(always)]
    fn lut(self, table: &[i8; 16], codes: __m256i) -> __m256i {
        op!(_mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())),
            codes
        ))
    }

    #[inline(always)]
    fn load_f(self, values: &[f32; 16], part: usize) -> __m256 {
        op!(_mm256_loadu_ps(place(values, part)))
    }
    #[inline(always)]
    fn store_f(self, a: __m256, out: &mut [f32; 16], part: usize) {
        op!(_mm256_storeu_ps(place_mut(out, part), a));
    }
    #[inline(always)]
    fn load_f16(self, halves: &[u8; 32], part: usize) -> __m256 {
        op!(_mm256_cvtph_ps(_mm_loadu_si128(place(halves, part).cast())))
    }
    #[inline(always)]
    fn store_f16(self, a: __m256, out: &mut [u8; 32], part: usize) {
        op!(_mm_storeu_si128(
            place_mut(out, part).cast(),
            _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
        ));
    }
    #[inline(always)]
    fn splat_f(self, a: f32) -> __m256 {
        op!(_mm256_set1_ps(a))
    }
    #[inline(always)]
    fn splat_f16(self, half: [u8; 2]) -> __m256 {
        op!(_mm256_cvtph_ps(_mm_set1_epi16(i16::from_le_bytes(half))))
    }
    #[inline(always)]
    fn to_f(self, a: __m256i) -> __m256 {
        op!(_mm256_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn round(self, a: __m256) -> __m256i {
        op!(_mm256_cvtps_epi32(a))
    }
    #[inline(always)]
    fn bits(self, a: __m256) -> __m256i {
        op!(_mm256_castps_si256(a))
    }
    #[inline(always)]
    fn of_bits(self, a: __m256i) -> __m256 {
        op!(_mm256_castsi256_ps(a))
    }
    #[inline(always)]
    fn add_f(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub_f(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul_f(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div_f(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        op!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn fnma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        op!(_mm256_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max_f(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min_f(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn select_lt(self, a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
        op!(_mm256_blendv_ps(no, yes, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)))
    }
    #[inline(always)]
    fn sum(self, lanes: &[__m256; MAX_PARTS]) -> f32 {
        op!(sum8(_mm256_add_ps(lanes[0], lanes[1])))
    }
    #[inline(always)]
    fn sum4(self, [a, b, c, d]: &[[__m256; MAX_PARTS]; 4]) -> [f32; 4] {
        op!(sum8x4(
            _mm256_add_ps(a[0], a[1]),
            _mm256_add_ps(b[0], b[1]),
            _mm256_add_ps(c[0], c[1]),
            _mm256_add_ps(d[0], d[1]),
        ))
    }
}

/// The lower half of the tree of [`Lanes::sum`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum8(a: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

/// The same for four sums at once.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum8x4(a: __m256, b: __m256, c: __m256, d: __m256) -> [f32; 4] {
    // Lanes j and j + 4 of a and b, of c and d.
    let ab = _mm256_add_ps(
        _mm256_permute2f128_ps::<0x20>(a, b),
        _mm256_permute2f128_ps::<0x31>(a, b),
    );
    let cd = _mm256_add_ps(
        _mm256_permute2f128_ps::<0x20>(c, d),
        _mm256_permute2f128_ps::<0x31>(c, d),
    );
    // Lanes j and j + 2: a and c below, b and d above.
    let (ab, cd) = (_mm256_castps_pd(ab), _mm256_castps_pd(cd));
    let two = _mm256_add_ps(
        _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
        _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)),
    );
    let one = _mm256_add_ps(two, _mm256_movehdup_ps(two));
    let (ac, bd) = (_mm256_castps256_ps128(one), _mm256_extractf128_ps::<1>(one));
    let mut out = [0.0; 4];
    // SAFETY: four floats fit the array.
    unsafe {
        _mm_storeu_ps(
            out.as_mut_ptr(),
            _mm_blend_ps::<0b1010>(ac, _mm_moveldup_ps(bd)),
        );
    };
    out
}

/// Sums of 16-bit pairs, and what was carried out of them.
#[derive(Copy, Clone)]
pub(crate) struct Narrow {
    pairs: __m256i,
    carried: __m256i,
}

impl Dot for Ymm<Maddubs> {
    const NARROW: bool = true;
    type Sum = Narrow;
    /// The weights and their magnitudes.
    type Signed = (__m256i, __m256i);

    #[inline(always)]
    fn zero(self) -> Narrow {
        Narrow {
            pairs: op!(_mm256_setzero_si256()),
            carried: op!(_mm256_setzero_si256()),
        }
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> Narrow {
        Narrow {
            pairs: op!(_mm256_setzero_si256()),
            carried: self.shl(self.splat(minus_sum_x), shift),
        }
    }
    #[inline(always)]
    fn dot(self, sum: Narrow, w: __m256i, x: i32) -> Narrow {
        let pairs = op!(_mm256_add_epi16(
            sum.pairs,
            _mm256_maddubs_epi16(w, _mm256_set1_epi32(x))
        ));
        Narrow { pairs, ..sum }
    }
    #[inline(always)]
    fn carry(self, sum: Narrow) -> Narrow {
        Narrow {
            pairs: op!(_mm256_setzero_si256()),
            carried: self.finish(sum),
        }
    }
    #[inline(always)]
    fn finish(self, sum: Narrow) -> __m256i {
        op!(_mm256_add_epi32(
            sum.carried,
            _mm256_madd_epi16(sum.pairs, _mm256_set1_epi16(1))
        ))
    }
    #[inline(always)]
    fn fold(self, tot: __m256i, sum: Narrow, scale: __m256i) -> __m256i {
        let both = op!(_mm256_blend_epi16::<0xaa>(
            scale,
            _mm256_slli_epi32::<16>(scale)
        ));
        op!(_mm256_add_epi32(tot, _mm256_madd_epi16(sum.pairs, both)))
    }
    #[inline(always)]
    fn fold_small(self, tot: __m256i, sum: Narrow, scale: __m256i) -> __m256i {
        self.fold(tot, sum, scale)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: __m256i, a: __m256i, b: i32) -> __m256i {
        op!(_mm256_add_epi32(
            acc,
            _mm256_madd_epi16(a, _mm256_set1_epi32(b))
        ))
    }
    #[inline(always)]
    fn signed(self, w: __m256i) -> Self::Signed {
        (w, op!(_mm256_abs_epi8(w)))
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: __m256i) -> Self::Signed {
        self.signed(self.lut(table, codes))
    }
    #[inline(always)]
    fn start_signed(self, _: i32) -> __m256i {
        op!(_mm256_setzero_si256())
    }
    #[inline(always)]
    fn dot_signed(self, acc: __m256i, (w, magnitude): Self::Signed, x: i32) -> __m256i {
        op!({
            let x = _mm256_set1_epi32(x);
            // |w| · (x with w's sign): at most 128 · 127 · 2 in a pair, which 16 bits hold.
            let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
            _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        })
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn enter<O: Op>(l: Ymm<Maddubs>, op: O) -> O::Out {
            op.run(l)
        }
        op!(enter(self, op))
    }
}

impl Dot for Ymm<Vnni> {
    const NARROW: bool = false;
    type Sum = __m256i;
    /// The weights + 128, unsigned.
    type Signed = __m256i;

    #[inline(always)]
    fn zero(self) -> __m256i {
        op!(_mm256_setzero_si256())
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> __m256i {
        self.shl(self.splat(minus_sum_x), shift)
    }
    #[inline(always)]
    fn dot(self, sum: __m256i, w: __m256i, x: i32) -> __m256i {
        op!(_mm256_dpbusd_avx_epi32(sum, w, _mm256_set1_epi32(x)))
    }
    #[inline(always)]
    fn carry(self, sum: __m256i) -> __m256i {
        sum
    }
    #[inline(always)]
    fn finish(self, sum: __m256i) -> __m256i {
        sum
    }
    #[inline(always)]
    fn fold(self, tot: __m256i, sum: __m256i, scale: __m256i) -> __m256i {
        self.add(tot, self.mul(sum, scale))
    }
    #[inline(always)]
    fn fold_small(self, tot: __m256i, sum: __m256i, scale: __m256i) -> __m256i {
        // The upper half of the sum repeats its sign; an upper half of 0 in the scale takes it out.
        op!(_mm256_dpwssd_avx_epi32(
            tot,
            sum,
            self.and(scale, self.splat(0xffff))
        ))
    }
    #[inline(always)]
    fn dot_pairs(self, acc: __m256i, a: __m256i, b: i32) -> __m256i {
        op!(_mm256_dpwssd_avx_epi32(acc, a, _mm256_set1_epi32(b)))
    }
    #[inline(always)]
    fn signed(self, w: __m256i) -> __m256i {
        op!(_mm256_xor_si256(w, _mm256_set1_epi8(-128)))
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: __m256i) -> __m256i {
        self.lut(&table.map(|value| value ^ -128), codes)
    }
    #[inline(always)]
    fn start_signed(self, minus_sum_x: i32) -> __m256i {
        self.start(minus_sum_x, 7)
    }
    #[inline(always)]
    fn dot_signed(self, acc: __m256i, w: __m256i, x: i32) -> __m256i {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn enter<O: Op>(l: Ymm<Vnni>, op: O) -> O::Out {
            op.run(l)
        }
        op!(enter(self, op))
    }
}
