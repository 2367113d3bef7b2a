//! The contract once more, as plainly as it can be written.

use bytemuck::pod_read_unaligned;
use strata_quant::number::E8M0;
use strata_quant::*;

/// A row's block as the contract sees it: groups with (scale, minimum, quants), and the two float scales.
struct Plain {
    d: f32,
    m: f32,
    groups: Vec<(i32, i32, Vec<i32>)>,
}

fn plain(ty: GgmlType, bytes: &[u8]) -> Plain {
    fn ints<T: Copy + Into<i32>>(q: &[T]) -> Vec<i32> {
        q.iter().map(|&q| q.into()).collect()
    }
    /// One group with scale 1; the minimum is added, so −1.
    fn one<T: Copy + Into<i32>>(d: f32, m: f32, q: &[T]) -> Plain {
        Plain {
            d,
            m,
            groups: vec![(1, -1, ints(q))],
        }
    }
    fn many<S: Copy + Into<i32>, M: Copy + Into<i32>, Q: Copy + Into<i32>>(
        (d, m): (F16, F16),
        (scales, mins): (&[S], &[M]),
        q: &[Q],
    ) -> Plain {
        let len = q.len() / scales.len();
        let groups = scales.iter().zip(mins).zip(q.chunks(len));
        let groups = groups
            .map(|((&s, &m), q)| (s.into(), m.into(), ints(q)))
            .collect();
        Plain {
            d: d.to_f32(),
            m: m.to_f32(),
            groups,
        }
    }
    let zero = F16::from_bits(0);
    match ty {
        GgmlType::Q4_0 => {
            let b: BlockQ4_0 = pod_read_unaligned(bytes);
            one(b.d.to_f32(), 0.0, &b.quants())
        }
        GgmlType::Q4_1 => {
            let b: BlockQ4_1 = pod_read_unaligned(bytes);
            one(b.d.to_f32(), b.m.to_f32(), &b.quants())
        }
        GgmlType::Q5_0 => {
            let b: BlockQ5_0 = pod_read_unaligned(bytes);
            one(b.d.to_f32(), 0.0, &b.quants())
        }
        GgmlType::Q5_1 => {
            let b: BlockQ5_1 = pod_read_unaligned(bytes);
            one(b.d.to_f32(), b.m.to_f32(), &b.quants())
        }
        GgmlType::Q8_0 => {
            let b: BlockQ8_0 = pod_read_unaligned(bytes);
            one(b.d.to_f32(), 0.0, &b.qs)
        }
        GgmlType::IQ4_NL => {
            let b: BlockIQ4_NL = pod_read_unaligned(bytes);
            one(b.d.to_f32(), 0.0, &b.quants())
        }
        GgmlType::MXFP4 => {
            let b: BlockMXFP4 = pod_read_unaligned(bytes);
            one(E8M0(bytes[0]).to_f32_half(), 0.0, &b.quants())
        }
        GgmlType::Q2_K => {
            let b: BlockQ2_K = pod_read_unaligned(bytes);
            let (scales, mins) = b.scales_mins();
            many((b.d, b.dmin), (&scales, &mins), &b.quants())
        }
        GgmlType::Q3_K => {
            let b: BlockQ3_K = pod_read_unaligned(bytes);
            many((b.d, zero), (&b.group_scales(), &[0i8; 16]), &b.quants())
        }
        GgmlType::Q4_K => {
            let b: BlockQ4_K = pod_read_unaligned(bytes);
            let (scales, mins) = b.scales_mins();
            many((b.d, b.dmin), (&scales, &mins), &b.quants())
        }
        GgmlType::Q5_K => {
            let b: BlockQ5_K = pod_read_unaligned(bytes);
            let (scales, mins) = b.scales_mins();
            many((b.d, b.dmin), (&scales, &mins), &b.quants())
        }
        GgmlType::Q6_K => {
            let b: BlockQ6_K = pod_read_unaligned(bytes);
            many((b.d, zero), (&b.scales, &[0i8; 16]), &b.quants())
        }
        GgmlType::IQ4_XS => {
            let b: BlockIQ4_XS = pod_read_unaligned(bytes);
            let q: Vec<i8> = b.qs.iter().flat_map(BlockIQ4_XS::quants).collect();
            many((b.d, zero), (&b.group_scales(), &[0i8; 8]), &q)
        }
        _ => unreachable!("{ty} has no integer panels"),
    }
}

/// Quantizes a block as the contract says.
fn plain_act(x: &[f32]) -> (f32, Vec<i32>) {
    let amax = x.iter().fold(0f32, |max, x| max.max(x.abs()));
    if amax == 0.0 {
        return (0.0, vec![0; x.len()]);
    }
    let id = 127.0 / amax;
    (
        amax / 127.0,
        x.iter()
            .map(|x| (x * id).round_ties_even() as i32)
            .collect(),
    )
}

/// The contract, written out for one row and one token.
pub(crate) fn plain_dot(ty: GgmlType, row: &[u8], x: &[f32]) -> f32 {
    let has_minima = matches!(
        ty,
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q2_K | GgmlType::Q4_K | GgmlType::Q5_K
    );
    let mut acc = 0f32;
    for (block, x) in row
        .chunks_exact(ty.block_bytes())
        .zip(x.chunks_exact(ty.block_len()))
    {
        let w = plain(ty, block);
        let mut groups = w.groups.iter();
        // 32 columns share a scale of the activations; they are one group of weights, or two.
        for x in x.chunks_exact(32) {
            let (dx, qx) = plain_act(x);
            let (mut tot, mut mins, mut at, mut last) = (0, 0, 0, (1, 0));
            while at < 32 {
                let (scale, min, q) = groups.next().unwrap();
                let qx = &qx[at..at + q.len()];
                tot += scale * q.iter().zip(qx).map(|(q, x)| q * x).sum::<i32>();
                mins += min * qx.iter().sum::<i32>();
                at += q.len();
                last = (*scale, *min);
            }
            let whole = w.groups[0].2.len() == 32;
            if whole && ty.block_len() == 256 {
                let (scale, min) = last;
                let sum: i32 = qx.iter().sum();
                let products = if scale == 0 { 0 } else { tot / scale };
                acc = (w.d * scale as f32 * dx).mul_add(products as f32, acc);
                if has_minima {
                    acc = (-(w.m * min as f32)).mul_add(dx * sum as f32, acc);
                }
                continue;
            }
            acc = (w.d * dx).mul_add(tot as f32, acc);
            if has_minima && ty.block_len() == 32 {
                acc = w.m.mul_add(dx * -mins as f32, acc);
            } else if has_minima {
                acc = (-(w.m * dx)).mul_add(mins as f32, acc);
            }
        }
    }
    acc
}
