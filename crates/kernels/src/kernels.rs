//! The operations, dispatched to one instruction set.
#![allow(unsafe_code)]

use crate::act::{ActFormat, Quantize};
#[cfg(all(
    target_arch = "aarch64",
    target_feature = "neon",
    target_endian = "little"
))]
use crate::arch::aarch64::{Sdot, Widen, neon::Neon};
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use crate::arch::scalar::Scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::arch::wasm32::Simd128;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::arch::x86_64::{Maddubs, Vnni, ymm::Ymm, zmm::Zmm};
use crate::attention::scores::Scores;
use crate::attention::values::Accumulate;
use crate::attention::whole::{PanelScores, PanelSoftmax, PanelValues};
use crate::attention::{KvRows, KvType, Store, WHOLE_KEYS, WHOLE_ROWS, WholeScores, WholeSums};
use crate::isa::{CpuFeatures, Isa};
use crate::lanes::{Dot, Op};
use crate::panel::matmul::Matmul;
use crate::peak::{DotPeak, FloatPeak};
use crate::policy::Policy;
use crate::rope::{RopeKind, Rotate};
use crate::short_conv::ShortConv;
use crate::state::StateStep;
use crate::tile_unit::Tiles;
#[cfg(not(any(
    all(target_arch = "wasm32", target_feature = "simd128"),
    feature = "compact"
)))]
use crate::tile_unit::product::run_plainly;
#[cfg(not(feature = "compact"))]
use crate::tile_unit::{TOKENS, TYPES as TILE_TYPES};
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(feature = "compact")
))]
use crate::tile_unit::{
    amx::{Amx, permit},
    emulated::Emulated,
    product::Tiled,
};
use crate::vector::{
    Activate, Activation, Arithmetic, DotProduct, ExpSub, LayerNorm, Max, RmsNorm, SoftCap,
};

/// The operations on one instruction set. Whichever it is, the results have the same bits.
///
/// Slices that do not fit together are a mistake of the caller, and panic.
#[derive(Debug)]
pub struct Kernels {
    isa: Isa,
    policy: Policy,
}

static SCALAR: Kernels = Kernels::new(Isa::Scalar);
static AVX2: Kernels = Kernels::new(Isa::Avx2);
static AVX_VNNI: Kernels = Kernels::new(Isa::AvxVnni);
static AVX512: Kernels = Kernels::new(Isa::Avx512);
static AVX512_VNNI: Kernels = Kernels::new(Isa::Avx512Vnni);
static NEON: Kernels = Kernels::new(Isa::Neon);
static NEON_DOT: Kernels = Kernels::new(Isa::NeonDot);
static SIMD128: Kernels = Kernels::new(Isa::Simd128);

/// Whether the processor has AMX for 8-bit integers and the system lets this process use it.
#[cfg(not(feature = "compact"))]
fn amx_is_permitted() -> bool {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    return CpuFeatures::detect().amx && permit();
    #[allow(unreachable_code)]
    false
}

impl Kernels {
    const fn new(isa: Isa) -> Self {
        Self {
            isa,
            policy: Policy::new(),
        }
    }

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
            Isa::Simd128 => &SIMD128,
        })
    }

    /// The instruction set.
    pub const fn isa(&self) -> Isa {
        self.isa
    }

    /// What is chosen for speed.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Lets a tile unit multiply from now on, or none, and gives what is in use then. AMX is used where the processor has
    /// it, the system permits it, and it gives the reference's bits; it goes with [`Isa::Avx512Vnni`]. An emulation is
    /// there for that and for [`Isa::Scalar`].
    pub fn use_tiles(&self, wanted: Tiles) -> Tiles {
        #[cfg(not(feature = "compact"))]
        {
            let can = match wanted {
                Tiles::Off => true,
                Tiles::Emulated => matches!(self.isa, Isa::Scalar | Isa::Avx512Vnni),
                Tiles::Amx => self.isa == Isa::Avx512Vnni && amx_is_permitted(),
            };
            let can = can && (wanted != Tiles::Amx || self.tiles_agree(wanted));
            self.policy.set_tiles(if can { wanted } else { Tiles::Off });
        }
        let _ = wanted;
        self.policy.tiles()
    }

    #[inline(always)]
    fn run<O: Op>(&self, op: O) -> O::Out {
        match self.isa {
            // SAFETY: only `for_isa` hands these out, and only after it has found the instruction set.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx2 => unsafe { Ymm::<Maddubs>::new() }.call(op),
            #[cfg(all(
                target_arch = "x86_64",
                target_feature = "sse2",
                not(feature = "compact")
            ))]
            // SAFETY: likewise.
            Isa::AvxVnni => unsafe { Ymm::<Vnni>::new() }.call(op),
            #[cfg(all(
                target_arch = "x86_64",
                target_feature = "sse2",
                not(feature = "compact")
            ))]
            // SAFETY: likewise.
            Isa::Avx512 => unsafe { Zmm::<Maddubs>::new() }.call(op),
            // SAFETY: likewise.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx512Vnni => unsafe { Zmm::<Vnni>::new() }.call(op),
            #[cfg(all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            ))]
            // SAFETY: likewise.
            Isa::Neon => unsafe { Neon::<Widen>::new() }.call(op),
            #[cfg(all(
                target_arch = "aarch64",
                target_feature = "neon",
                target_endian = "little"
            ))]
            // SAFETY: likewise.
            Isa::NeonDot => unsafe { Neon::<Sdot>::new() }.call(op),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            _ => Simd128.call(op),
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            _ => Scalar.call(op),
        }
    }

    /// Stores a row of activations in `format`, for [`ActRows`](crate::ActRows). `out` is [`ActFormat::row_bytes`] long.
    pub fn quantize_act(&self, format: ActFormat, x: &[f32], out: &mut [u8]) {
        assert_eq!(
            out.len(),
            format.row_bytes(x.len()),
            "the length of a row of activations"
        );
        self.run(Quantize { format, x, out });
    }

    /// Stores whole blocks of a row.
    pub(crate) fn quantize_blocks(&self, format: ActFormat, x: &[f32], out: &mut [u8]) {
        self.run(Quantize { format, x, out });
    }

    pub(crate) fn matmul_by_vectors(&self, m: Matmul<'_>) {
        self.run(m);
    }

    /// On a tile unit, where there are tokens for a tile, and it knows the type.
    #[cfg(not(feature = "compact"))]
    pub(crate) fn matmul_by_tiles(&self, tiles: Tiles, m: Matmul<'_>) {
        let known = TILE_TYPES.contains(&m.w.ty()) && m.x.tokens() >= TOKENS;
        match (self.isa, tiles) {
            #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
            (Isa::Scalar, Tiles::Emulated) if known => run_plainly(m),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            (Isa::Avx512Vnni, Tiles::Emulated) if known => {
                // SAFETY: only `for_isa` hands these out, and only after it has found the instruction set.
                let (l, unit) = (unsafe { Zmm::<Vnni>::new() }, Emulated::new());
                l.call(Tiled { m, unit });
            }
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            (Isa::Avx512Vnni, Tiles::Amx) if known => {
                // SAFETY: likewise; `use_tiles` asks for the unit and for permission before it is in use.
                let (l, unit) = unsafe { (Zmm::<Vnni>::new(), Amx::new()) };
                l.call(Tiled { m, unit });
            }
            _ => self.run(m),
        }
    }

    #[cfg(feature = "compact")]
    pub(crate) fn matmul_by_tiles(&self, _: Tiles, m: Matmul<'_>) {
        self.run(m);
    }

    /// Does dot products of bytes in registers, `rounds` times a few, and nothing else. Gives the number of operations,
    /// for whoever has a clock: no matmul of integers can do more in that time.
    pub fn dot_peak(&self, rounds: usize) -> u64 {
        self.run(DotPeak { rounds })
    }

    /// The same for floats that are multiplied and added.
    pub fn float_peak(&self, rounds: usize) -> u64 {
        self.run(FloatPeak { rounds })
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

    /// x = x clamped to ±`limit`, which is not negative.
    pub fn clamp(&self, x: &mut [f32], limit: f32) {
        assert!(limit >= 0.0, "a limit");
        self.run(Arithmetic::Clamp(x, limit));
    }

    /// x = f(x).
    pub fn activate(&self, kind: Activation, x: &mut [f32]) {
        self.run(Activate { kind, x });
    }

    /// gate = f(gate) · up.
    pub fn activate_mul(&self, kind: Activation, gate: &mut [f32], up: &[f32]) {
        self.activate(kind, gate);
        if kind == Activation::GeluQuickClamped {
            assert_eq!(gate.len(), up.len(), "lengths");
            self.run(Arithmetic::MulClamped(gate, up));
        } else {
            self.mul(gate, up);
        }
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

    /// out\[c\] = gate\[c\] · Σ taps\[k\]\[c\] · columns\[k\]\[c\], in the order of k: a token's convolution over the positions
    /// up to its own, the oldest first. Without a gate it is as if that were 1.
    pub fn short_conv(
        &self,
        taps: &[&[f32]],
        columns: &[&[f32]],
        gate: Option<&[f32]>,
        out: &mut [f32],
    ) {
        let mut rows = taps.iter().chain(columns).copied().chain(gate);
        assert!(
            taps.len() == columns.len() && rows.all(|row| row.len() == out.len()),
            "a tap and a value for each channel and position"
        );
        self.run(ShortConv {
            taps,
            columns,
            gate,
            out,
        });
    }

    /// One token of a linear recurrence.
    pub fn state_step(&self, step: StateStep<'_>) {
        assert!(step.fits(), "a number for each key and value");
        self.run(step);
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

    /// out\[h\]\[j\] = scale · (q\[h\] · k\[j\]) for all query heads that share the keys. `q` is heads × head_dim; the
    /// scores of one head lie next to each other, those of the next one `stride` floats further.
    pub fn kv_scores(&self, q: &[f32], k: KvRows<'_>, scale: f32, out: &mut [f32], stride: usize) {
        k.check_weights(k.heads(q.len()), out.len(), stride);
        self.run(Scores {
            q,
            k,
            scale,
            out,
            stride,
        });
    }

    /// acc\[h\] += Σ p\[h\]\[j\] · v\[j\] over the values in their order. `acc` is heads × head_dim; the weights of one
    /// head lie next to each other, those of the next one `stride` floats further.
    pub fn kv_accumulate(&self, p: &[f32], stride: usize, v: KvRows<'_>, acc: &mut [f32]) {
        v.check_weights(v.heads(acc.len()), p.len(), stride);
        self.run(Accumulate { p, stride, v, acc });
    }
    /// out\[i\]\[j\] = q\[i\] · k\[j\] for the queries of a panel and the keys of some. A panel is a line of 16 for each column;
    /// there are as many columns as `q` has lines.
    pub fn whole_scores(&self, q: &[[f32; 16]], k: &[[f32; 16]], out: &mut WholeScores) {
        assert!(
            !q.is_empty()
                && k.len().is_multiple_of(q.len())
                && k.len() / q.len() <= out[0].len() / WHOLE_ROWS,
            "whole panels of keys, no more than fit"
        );
        self.run(PanelScores { q, k, out });
    }

    /// Turns `n` scores of each row, from `from` on, into weights, and brings what is summed up so far to the new maxima.
    pub fn whole_softmax(
        &self,
        scores: &mut WholeScores,
        from: usize,
        n: usize,
        total: &mut WholeSums<'_>,
    ) {
        assert!(
            from < WHOLE_ROWS && n <= WHOLE_KEYS && total.acc.len().is_multiple_of(WHOLE_ROWS),
            "scores of one block, and rows of whole lines"
        );
        self.run(PanelSoftmax {
            scores,
            from,
            n,
            total,
        });
    }

    /// acc\[i\] += Σ weights\[i\]\[from + j\] · v\[j\] over the values in their order; values and sums are rows of whole lines.
    pub fn whole_accumulate(
        &self,
        weights: &WholeScores,
        from: usize,
        v: &[[f32; 16]],
        acc: &mut [[f32; 16]],
    ) {
        let lines = acc.len() / WHOLE_ROWS;
        assert!(
            lines > 0
                && acc.len().is_multiple_of(WHOLE_ROWS)
                && v.len().is_multiple_of(lines)
                && from + v.len() / lines <= weights[0].len(),
            "a weight for each value, and rows of whole lines"
        );
        self.run(PanelValues {
            weights,
            from,
            v,
            acc,
        });
    }
}
