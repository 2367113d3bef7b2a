//! The operations, dispatched to one instruction set.
#![allow(unsafe_code)]

use crate::act::{ActFormat, ActRows, Quantize};
#[cfg(all(
    target_arch = "aarch64",
    target_feature = "neon",
    target_endian = "little"
))]
use crate::arch::aarch64::{Sdot, Widen, neon::Neon};
use crate::arch::scalar::Scalar;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::arch::x86_64::{Maddubs, Vnni, ymm::Ymm, zmm::Zmm};
use crate::attention::scores::Scores;
use crate::attention::values::Accumulate;
use crate::attention::{KvType, Rows, Store};
use crate::isa::{CpuFeatures, Isa};
use crate::lanes::{Dot, Op};
use crate::panel::matmul::{Matmul, Panels};
use crate::rope::{RopeKind, Rotate};
use crate::tile::TileMut;
use crate::vector::{
    Activate, Activation, Arithmetic, DotProduct, ExpSub, LayerNorm, Max, RmsNorm, SoftCap,
};

/// The operations on one instruction set. Whichever it is, the results have the same bits.
///
/// Slices that do not fit together are a mistake of the caller, and panic.
#[derive(Debug)]
pub struct Kernels {
    isa: Isa,
}

static SCALAR: Kernels = Kernels { isa: Isa::Scalar };
static AVX2: Kernels = Kernels { isa: Isa::Avx2 };
static AVX_VNNI: Kernels = Kernels { isa: Isa::AvxVnni };
static AVX512: Kernels = Kernels { isa: Isa::Avx512 };
static AVX512_VNNI: Kernels = Kernels {
    isa: Isa::Avx512Vnni,
};
static NEON: Kernels = Kernels { isa: Isa::Neon };
static NEON_DOT: Kernels = Kernels { isa: Isa::NeonDot };

impl Kernels {
    /// The fastest for this processor.
    pub fn detect() -> &'static Kernels {
        Self::for_isa(CpuFeatures::detect().best()).unwrap_or(&SCALAR)
    }

    /// Those for `isa`; `None` where this processor lacks it.
    pub fn for_isa(isa: Isa) -> Option<&'static Kernels> {
        CpuFeatures::detect().has(isa).then_some(match isa {
            Isa::Scalar => &SCALAR,
            Isa::Avx2 => &AVX2,
            Isa::AvxVnni => &AVX_VNNI,
            Isa::Avx512 => &AVX512,
            Isa::Avx512Vnni => &AVX512_VNNI,
            Isa::Neon => &NEON,
            Isa::NeonDot => &NEON_DOT,
        })
    }

    /// The instruction set.
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    #[inline(always)]
    fn run<O: Op>(&self, op: O) -> O::Out {
        match self.isa {
            // SAFETY: only `for_isa` hands these out, and only after it has found the instruction set.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx2 => unsafe { Ymm::<Maddubs>::new() }.call(op),
            // SAFETY: likewise.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::AvxVnni => unsafe { Ymm::<Vnni>::new() }.call(op),
            // SAFETY: likewise.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx512 => unsafe { Zmm::<Maddubs>::new() }.call(op),
            // SAFETY: likewise.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx512Vnni => unsafe { Zmm::<Vnni>::new() }.call(op),
            // SAFETY: likewise.
            #[cfg(all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            ))]
            Isa::Neon => unsafe { Neon::<Widen>::new() }.call(op),
            // SAFETY: likewise.
            #[cfg(all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            ))]
            Isa::NeonDot => unsafe { Neon::<Sdot>::new() }.call(op),
            _ => Scalar.call(op),
        }
    }

    /// Stores a row of activations in `format`, for [`ActRows`]. `out` is [`ActFormat::row_bytes`] long.
    pub fn quantize_act(&self, format: ActFormat, x: &[f32], out: &mut [u8]) {
        assert_eq!(
            out.len(),
            format.row_bytes(x.len()),
            "the length of a row of activations"
        );
        self.run(Quantize { format, x, out });
    }

    /// out\[t\]\[r\] = w\[r\] · x\[t\].
    ///
    /// A row's sum runs over its blocks in order; inside a block it is exact in integers. No token's result depends on
    /// the others, and no row's on how the matrix is split.
    pub fn matmul(&self, w: Panels<'_>, x: ActRows<'_>, out: TileMut<'_>) {
        self.run(Matmul::new(w, x, out));
    }

    /// out = x / √(mean of x² + eps) · weight.
    pub fn rms_norm(&self, x: &[f32], weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
        out.copy_from_slice(x);
        self.rms_norm_in_place(out, weight, eps);
    }

    /// x = x / √(mean of x² + eps) · weight.
    pub fn rms_norm_in_place(&self, x: &mut [f32], weight: Option<&[f32]>, eps: f32) {
        assert!(
            weight.is_none_or(|w| w.len() == x.len()),
            "the length of the norm's weight"
        );
        self.run(RmsNorm { x, weight, eps });
    }

    /// out = (x − mean) / √(variance + eps) · weight + bias.
    pub fn layer_norm(
        &self,
        x: &[f32],
        weight: Option<&[f32]>,
        bias: Option<&[f32]>,
        eps: f32,
        out: &mut [f32],
    ) {
        out.copy_from_slice(x);
        self.layer_norm_in_place(out, weight, bias, eps);
    }

    /// x = (x − mean) / √(variance + eps) · weight + bias.
    pub fn layer_norm_in_place(
        &self,
        x: &mut [f32],
        weight: Option<&[f32]>,
        bias: Option<&[f32]>,
        eps: f32,
    ) {
        assert!(
            weight.is_none_or(|w| w.len() == x.len()),
            "the length of the norm's weight"
        );
        assert!(
            bias.is_none_or(|b| b.len() == x.len()),
            "the length of the norm's bias"
        );
        self.run(LayerNorm {
            x,
            weight,
            bias,
            eps,
        });
    }

    /// x += y.
    pub fn add(&self, x: &mut [f32], y: &[f32]) {
        assert_eq!(x.len(), y.len(), "lengths");
        self.run(Arithmetic::Add(x, y));
    }

    /// x += s · y.
    pub fn add_scaled(&self, x: &mut [f32], y: &[f32], s: f32) {
        assert_eq!(x.len(), y.len(), "lengths");
        self.run(Arithmetic::AddScaled(x, y, s));
    }

    /// x *= y.
    pub fn mul(&self, x: &mut [f32], y: &[f32]) {
        assert_eq!(x.len(), y.len(), "lengths");
        self.run(Arithmetic::Mul(x, y));
    }

    /// x *= s.
    pub fn scale(&self, x: &mut [f32], s: f32) {
        self.run(Arithmetic::Scale(x, s));
    }

    /// x = f(x).
    pub fn activate(&self, kind: Activation, x: &mut [f32]) {
        self.run(Activate { kind, x });
    }

    /// gate = f(gate) · up.
    pub fn activate_mul(&self, kind: Activation, gate: &mut [f32], up: &[f32]) {
        self.activate(kind, gate);
        self.mul(gate, up);
    }

    /// x = cap · tanh(x / cap).
    pub fn soft_cap(&self, x: &mut [f32], cap: f32) {
        self.run(SoftCap { x, cap });
    }

    /// The dot product.
    pub fn dot(&self, a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len(), "lengths");
        self.run(DotProduct(a, b))
    }

    /// The greatest number; NaN never is. −∞ for none.
    pub fn max(&self, x: &[f32]) -> f32 {
        self.run(Max(x))
    }

    /// The place of the greatest number, the first of equals; 0 if there is none.
    pub fn argmax(&self, x: &[f32]) -> usize {
        let max = self.max(x);
        x.iter().position(|&x| x == max).unwrap_or(0)
    }

    /// x = e^(x − max); returns the sum. With `max` the greatest of all `x` nothing overflows.
    pub fn exp_sub(&self, x: &mut [f32], max: f32) -> f32 {
        self.run(ExpSub { x, max })
    }

    /// x = e^x / Σ e^x.
    pub fn softmax(&self, x: &mut [f32]) {
        let max = self.max(x);
        let sum = self.exp_sub(x, max);
        self.scale(x, 1.0 / sum);
    }

    /// Turns the pairs of one head's rotated values; `cos` and `sin` have an entry for each pair.
    pub fn rope(&self, x: &mut [f32], cos: &[f32], sin: &[f32], kind: RopeKind) {
        assert!(
            cos.len() == sin.len() && 2 * cos.len() == x.len(),
            "an angle for each pair"
        );
        self.run(Rotate { x, cos, sin, kind });
    }

    /// Stores one row of keys or values. `out` is [`KvType::row_bytes`] long.
    pub fn kv_store(&self, kind: KvType, x: &[f32], out: &mut [u8]) {
        assert_eq!(
            out.len(),
            kind.row_bytes(x.len()),
            "the length of a stored row"
        );
        self.run(Store { kind, x, out });
    }

    /// out\[h\]\[j\] = scale · (q\[h\] · k\[j\]) for the `n` keys of a page and all query heads that share them.
    /// `q` is heads × head_dim and `out` heads × n.
    pub fn kv_scores(
        &self,
        kind: KvType,
        q: &[f32],
        k: &[u8],
        n: usize,
        scale: f32,
        out: &mut [f32],
    ) {
        if n == 0 {
            return;
        }
        let k = Self::rows(kind, k, n, q.len(), out.len());
        self.run(Scores { q, k, scale, out });
    }

    /// acc\[h\] += Σ p\[h\]\[j\] · v\[j\] over the `n` values of a page, in their order. `p` is heads × n and `acc`
    /// heads × head_dim.
    pub fn kv_accumulate(&self, kind: KvType, p: &[f32], v: &[u8], n: usize, acc: &mut [f32]) {
        if n == 0 {
            return;
        }
        let v = Self::rows(kind, v, n, acc.len(), p.len());
        self.run(Accumulate { p, v, acc });
    }

    /// The rows of a page, checked against heads × head_dim and heads × n floats.
    fn rows(kind: KvType, bytes: &[u8], n: usize, heads_dim: usize, heads_n: usize) -> Rows<'_> {
        assert!(heads_n > 0 && heads_n.is_multiple_of(n), "heads × keys");
        let heads = heads_n / n;
        assert!(
            heads_dim > 0 && heads_dim.is_multiple_of(heads),
            "heads × head_dim"
        );
        let head_dim = heads_dim / heads;
        assert_eq!(
            bytes.len(),
            n * kind.row_bytes(head_dim),
            "the length of the stored rows"
        );
        Rows {
            kind,
            bytes,
            head_dim,
            n,
        }
    }
}
