//! Experts that a checkpoint holds in 4-bit floats (MXFP4): codes in one tensor, scales in another.
//!
//! A block of 32 values has a scale, a power of two, and 16 bytes of codes. In a checkpoint neighbours share a byte; in GGUF
//! values 16 apart do.

use strata_quant::{GgmlType, dequantize};
use strata_weights::CheckpointTensor;

use crate::row_order::RowOrder;
use crate::write::RowSource;

/// Values of a block, bytes of their codes, and bytes of a block in GGUF.
const VALUES: usize = 32;
const CODES: usize = VALUES / 2;
const BLOCK: usize = 1 + CODES;

/// The rows of two tensors.
pub(crate) struct Fp4Rows<'a> {
    codes: &'a [u8],
    scales: &'a [u8],
    rows: usize,
    /// In blocks.
    columns: usize,
    order: RowOrder,
    /// Whether they stay what they are.
    same: bool,
}

impl<'a> Fp4Rows<'a> {
    /// `None` if the tensors do not fit each other.
    pub(crate) fn new(
        blocks: Option<&CheckpointTensor<'a>>,
        scales: Option<&CheckpointTensor<'a>>,
        (order, same): (RowOrder, bool),
    ) -> Option<Self> {
        let (blocks, scales) = (blocks?, scales?);
        let (&codes, shape) = blocks.shape.split_last()?;
        if codes != CODES as u64 || shape != scales.shape {
            return None;
        }
        let (codes, scales) = (blocks.raw()?, scales.raw()?);
        let columns = usize::try_from(*shape.last()?).ok()?;
        let rows = scales.len().checked_div(columns)?;
        (codes.len() == scales.len() * CODES).then_some(Self {
            codes,
            scales,
            rows,
            columns,
            order,
            same,
        })
    }

    /// Writes a row as GGUF has it; `None` if there is no such row.
    fn encode(&self, row: usize, out: &mut [u8]) -> Option<()> {
        let first = self.order.source(row).checked_mul(self.columns)?;
        for (at, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let (scale, codes) = out.split_first_mut()?;
            *scale = *self.scales.get(first + at)?;
            let from = self.codes.get((first + at) * CODES..)?.get(..CODES)?;
            let code = |value: usize| from[value / 2] >> (4 * (value % 2)) & 15;
            for (i, byte) in codes.iter_mut().enumerate() {
                *byte = code(i) | code(i + CODES) << 4;
            }
        }
        Some(())
    }
}

impl RowSource for Fp4Rows<'_> {
    fn count(&self) -> usize {
        self.order.count(self.rows)
    }

    fn columns(&self) -> usize {
        self.columns * VALUES
    }

    fn copy(&self, row: usize, out: &mut [u8]) -> bool {
        self.same && self.encode(row, out).is_some()
    }

    fn read(&self, row: usize, values: &mut [f32]) -> Option<()> {
        let mut block = alloc::vec![0; self.columns * BLOCK];
        self.encode(row, &mut block)?;
        dequantize(GgmlType::MXFP4, &block, values).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{Order, Share};
    use crate::row_order::HeadCounts;
    use alloc::vec::Vec;

    /// A safetensors file of two experts with two rows of a block each: codes count up, scales are 1 and 2.
    fn file() -> Vec<u8> {
        let header = br#"{"b":{"dtype":"U8","shape":[2,2,1,16],"data_offsets":[0,64]},"s":{"dtype":"U8","shape":[2,2,1],"data_offsets":[64,68]}}"#;
        let mut file = Vec::from((header.len() as u64).to_le_bytes());
        file.extend_from_slice(header);
        file.extend((0..64u8).map(|i| (i % 8) | (i % 4) << 4));
        file.extend([127, 128, 127, 128]);
        file
    }

    #[test]
    fn neighbours_share_a_byte_in_checkpoints_and_distant_values_in_gguf() {
        let file = file();
        let tensors = strata_weights::safetensors::parse(&file).expect("a valid file");
        let order = |share| RowOrder::new(Order::Blocks(share), HeadCounts::default(), 2, 4);
        let order = order(Share::Odd).expect("even rows");
        let rows = Fp4Rows::new(tensors.first(), tensors.get(1), (order, true)).expect("they fit");
        assert_eq!((rows.count(), rows.columns()), (2, 32));
        let (mut block, mut values) = ([0; 17], [0.0; 32]);
        assert!(rows.copy(0, &mut block));
        assert_eq!(block[0], 128);
        rows.read(0, &mut values).expect("a row");
        // Value 2i is the lower half of byte i, value 2i + 1 the upper one; codes 0 to 7 are 0 to 6, and the scale is 2.
        let codes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (i, value) in values.iter().enumerate() {
            let code = if i % 2 == 0 { i / 2 % 8 } else { i / 2 % 4 };
            assert_eq!(*value, 2.0 * codes[code], "value {i}");
        }
        assert!(Fp4Rows::new(tensors.get(1), tensors.first(), (order, true)).is_none());
    }
}
