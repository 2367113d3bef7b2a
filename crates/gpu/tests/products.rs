//! Products of every type on a backend, against the Rust kernels, bit for bit.

use strata_gpu::{Backend, Input, Matrix, Multiplier, act_bytes};
use strata_kernels::{
    ActFormat, ActRows, Kernels, PANEL_ROWS, Panels, TileMut, act_format, pack_panel, packed_bytes,
    panel_bytes,
};
use strata_model::GgmlType;

pub(crate) const TYPES: [GgmlType; 16] = [
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q8_0,
    GgmlType::Q2_K,
    GgmlType::Q3_K,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
    GgmlType::IQ4_NL,
    GgmlType::IQ4_XS,
    GgmlType::MXFP4,
    GgmlType::F32,
    GgmlType::F16,
    GgmlType::BF16,
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    /// −4 to 4, most of them small.
    fn float(&mut self) -> f32 {
        let u = self.next() as i32 as f32 / i32::MAX as f32;
        u * u * u * 4.0
    }
}

/// Random rows of a type, whose scales are finite.
fn rows(ty: GgmlType, rows: usize, columns: usize, random: &mut Random) -> Vec<u8> {
    let bytes = rows * columns / ty.block_len() * ty.block_bytes();
    let mut data: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
    for block in data.chunks_exact_mut(ty.block_bytes()) {
        let halves: &[usize] = match ty {
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
            GgmlType::Q2_K => &[80, 82],
            GgmlType::Q3_K => &[108],
            GgmlType::Q6_K => &[208],
            GgmlType::MXFP4 => {
                block[0] = 110 + block[0] % 16;
                &[]
            }
            GgmlType::F32 => {
                block.copy_from_slice(&random.float().to_le_bytes());
                &[]
            }
            GgmlType::BF16 => {
                block.copy_from_slice(&random.float().to_le_bytes()[2..]);
                &[]
            }
            _ => &[0],
        };
        for &at in halves {
            // 2^-11 to 2^-4 of either sign, some subnormal.
            let exponent = random.next() % 8 + u32::from(!random.next().is_multiple_of(16)) * 4;
            let half = (random.next() & 0x83ff) | if exponent < 4 { 0 } else { exponent << 10 };
            block[at..][..2].copy_from_slice(&(half as u16).to_le_bytes());
        }
    }
    data
}

/// Rows × columns × tokens of a type.
pub(crate) fn check(
    device: &mut dyn Backend,
    multiplier: &mut dyn Multiplier,
    ty: GgmlType,
    (rows_count, columns, tokens): (usize, usize, usize),
) {
    let mut random = Random(ty as u64 * 1000 + tokens as u64);
    let file = rows(ty, rows_count, columns, &mut random);
    let row = file.len() / rows_count;
    let mut packed = vec![0; packed_bytes(ty, rows_count, columns)];
    let panels = packed.chunks_exact_mut(panel_bytes(ty, columns));
    for (panel, rows) in panels.zip(file.chunks(PANEL_ROWS * row)) {
        pack_panel(ty, columns, rows, panel);
    }
    let kernels = Kernels::detect();
    let x: Vec<f32> = (0..tokens * columns).map(|_| random.float()).collect();
    let format = act_format(ty);
    let (mut acts, mut units) = (Vec::new(), Vec::new());
    for x in x.chunks_exact(columns) {
        let mut row = vec![0; format.row_bytes(columns)];
        kernels.quantize_act(format, x, &mut row);
        acts.extend(row);
        // The device has units of 256 for all types.
        let mut padded = x.to_vec();
        padded.resize(columns.next_multiple_of(256), 0.0);
        let mut row = vec![0; ActFormat::Q8x256.row_bytes(padded.len())];
        kernels.quantize_act(ActFormat::Q8x256, &padded, &mut row);
        units.extend(&row[..act_bytes(columns)]);
    }
    let mut expected = vec![0.0; tokens * rows_count];
    let out = TileMut::from_slice(&mut expected, tokens, rows_count);
    let weights = Panels::new(ty, rows_count, columns, &packed);
    kernels.matmul(weights, ActRows::new(format, columns, &acts), out);

    let mut take = |bytes: &[u8]| {
        let at = device.alloc(bytes.len(), "").unwrap();
        device.upload(at, bytes).unwrap();
        at
    };
    let floats: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (at, floats, units) = (take(&packed), take(&floats), take(&units));
    let out = device.alloc(4 * expected.len(), "").unwrap();
    multiplier.load(device, ty).unwrap();
    let input = Input {
        floats,
        stride: columns,
        acts: units,
        tokens,
        shared_by: 1,
    };
    let matrix = Matrix {
        ty,
        rows: rows_count,
        columns,
        at,
    };
    multiplier
        .multiply(device, input, &[(matrix, out)], rows_count)
        .unwrap();
    let mut bytes = vec![0; 4 * expected.len()];
    device.download(&mut bytes, out).unwrap();
    let found = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b));
    let wrong = found
        .zip(&expected)
        .filter(|(a, b)| a.to_bits() != b.to_bits())
        .count();
    assert_eq!(
        wrong,
        0,
        "{ty:?}, {rows_count} × {columns} × {tokens}: of {}",
        expected.len()
    );
}
