//! Packing rows into panels, and reading a row back.

use strata_quant::GgmlType;

use super::{Field, PANEL_ROWS, PanelType, field};

/// Evaluates `$body` with `$k` standing for the panel type of `$ty`, or `$other` where it has none.
macro_rules! with_panel_type {
    ($ty:expr, $k:ident => $body:expr, _ => $other:expr) => {
        with_panel_type!(@ $ty, $k, $body, $other;
            Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4)
    };
    (@ $ty:expr, $k:ident, $body:expr, $other:expr; $($name:ident)*) => {
        match $ty {
            $(strata_quant::GgmlType::$name => {
                type $k = $crate::panel::$name;
                $body
            })*
            _ => $other,
        }
    };
}
pub(crate) use with_panel_type;

/// Whether weights of this type are packed in panels. The others stay rows as in the file, and are dequantized tile by
/// tile as they are multiplied.
pub const fn is_packed(ty: GgmlType) -> bool {
    use GgmlType as G;
    matches!(
        ty,
        G::Q4_0
            | G::Q4_1
            | G::Q5_0
            | G::Q5_1
            | G::Q8_0
            | G::Q2_K
            | G::Q3_K
            | G::Q4_K
            | G::Q5_K
            | G::Q6_K
    ) || matches!(
        ty,
        G::IQ4_NL | G::IQ4_XS | G::MXFP4 | G::F16 | G::BF16 | G::F32
    )
}

/// Bytes of a row in the file.
///
/// # Panics
/// If `cols` is not whole blocks.
pub(crate) const fn row_bytes(ty: GgmlType, cols: usize) -> usize {
    assert!(
        cols.is_multiple_of(ty.block_len()),
        "a row of weights is whole blocks"
    );
    cols / ty.block_len() * ty.block_bytes()
}

/// Bytes of a panel of `cols` columns: 16 rows, and as many bytes as these take in the file.
///
/// # Panics
/// If `cols` is not whole blocks.
pub const fn panel_bytes(ty: GgmlType, cols: usize) -> usize {
    PANEL_ROWS * row_bytes(ty, cols)
}

/// Bytes of a matrix as [`crate::Panels`] takes it: panels, the last of them filled up with zero rows; or, for types
/// that are not packed, the rows themselves.
///
/// # Panics
/// If `cols` is not whole blocks.
pub const fn packed_bytes(ty: GgmlType, rows: usize, cols: usize) -> usize {
    if is_packed(ty) {
        rows.div_ceil(PANEL_ROWS) * panel_bytes(ty, cols)
    } else {
        rows * row_bytes(ty, cols)
    }
}

/// Packs 1 to 16 rows, as they lie in the file, into one panel.
///
/// # Panics
/// If the type is not packed, `rows` is not 1 to 16 rows of `cols` columns, or `panel` is not a panel long.
pub fn pack_panel(ty: GgmlType, cols: usize, rows: &[u8], panel: &mut [u8]) {
    let row = row_bytes(ty, cols);
    assert!(is_packed(ty), "{ty} is not packed");
    assert!(
        row > 0 && rows.len().is_multiple_of(row),
        "the panel's rows are whole"
    );
    assert!(
        (1..=PANEL_ROWS).contains(&(rows.len() / row)),
        "a panel has 1 to 16 rows"
    );
    assert_eq!(panel.len(), panel_bytes(ty, cols), "the panel's length");
    with_panel_type!(ty, K => pack::<K>(row, rows, panel), _ => pack_float(ty, row, rows, panel));
}

/// Reads row `row` of a panel back into the bytes that it has in the file, for example to look up an embedding in a
/// matrix that is also the output matrix.
///
/// # Panics
/// If the type is not packed, `panel` is not a panel of `cols` columns, `row` is not below 16, or `out` is not a row
/// long.
pub fn unpack_row(ty: GgmlType, cols: usize, panel: &[u8], row: usize, out: &mut [u8]) {
    assert!(is_packed(ty), "{ty} is not packed");
    assert!(row < PANEL_ROWS, "row {row} of a panel");
    assert_eq!(panel.len(), panel_bytes(ty, cols), "the panel's length");
    assert_eq!(out.len(), row_bytes(ty, cols), "the row's length");
    with_panel_type!(ty, K => unpack::<K>(panel, row, out), _ => unpack_float(ty, panel, row, out));
}

/// The longest block of a packed type.
const MAX_BLOCK: usize = GgmlType::Q6_K.block_bytes();

fn pack<K: PanelType>(row: usize, rows: &[u8], panel: &mut [u8]) {
    let size = K::TYPE.block_bytes();
    let mut blocks = [[0; MAX_BLOCK]; PANEL_ROWS];
    for (b, out) in panel.chunks_exact_mut(PANEL_ROWS * size).enumerate() {
        for (block, row) in blocks.iter_mut().zip(rows.chunks_exact(row)) {
            let block = &mut block[..size];
            block.copy_from_slice(&row[b * size..][..size]);
            K::arrange(block);
        }
        interleave(K::FIELDS, &blocks, out);
    }
}

/// Writes the fields of 16 rows' blocks group by group.
#[inline(always)]
fn interleave(fields: &[Field], blocks: &[[u8; MAX_BLOCK]; PANEL_ROWS], mut out: &mut [u8]) {
    let mut at = 0;
    for field in fields {
        let (lines, rest) = core::mem::take(&mut out).split_at_mut(PANEL_ROWS * field.bytes);
        match field.group {
            1 => interleave_field::<1>(at, blocks, lines),
            2 => interleave_field::<2>(at, blocks, lines),
            _ => interleave_field::<4>(at, blocks, lines),
        }
        at += field.bytes;
        out = rest;
    }
}

#[inline(always)]
fn interleave_field<const G: usize>(
    at: usize,
    blocks: &[[u8; MAX_BLOCK]; PANEL_ROWS],
    lines: &mut [u8],
) {
    for (k, line) in lines.chunks_exact_mut(PANEL_ROWS * G).enumerate() {
        for (group, block) in line.as_chunks_mut::<G>().0.iter_mut().zip(blocks) {
            group.copy_from_slice(&block[at + k * G..][..G]);
        }
    }
}

fn unpack<K: PanelType>(panel: &[u8], row: usize, out: &mut [u8]) {
    let size = K::TYPE.block_bytes();
    for (panel, block) in panel
        .chunks_exact(PANEL_ROWS * size)
        .zip(out.chunks_exact_mut(size))
    {
        gather_row(K::FIELDS, panel, row, block);
        K::restore(block);
    }
}

/// Collects the groups of one row.
fn gather_row(fields: &[Field], panel: &[u8], row: usize, block: &mut [u8]) {
    let mut at = 0;
    for field in fields {
        let lines = &panel[PANEL_ROWS * at..][..PANEL_ROWS * field.bytes];
        let groups = block[at..][..field.bytes].chunks_exact_mut(field.group);
        for (line, group) in lines.chunks_exact(PANEL_ROWS * field.group).zip(groups) {
            group.copy_from_slice(&line[row * field.group..][..field.group]);
        }
        at += field.bytes;
    }
}

fn pack_float(ty: GgmlType, row: usize, rows: &[u8], panel: &mut [u8]) {
    match ty.block_bytes() {
        2 => pack_numbers::<2>(row, rows, panel),
        _ => pack_numbers::<4>(row, rows, panel),
    }
}

/// A float panel is columns of 16 numbers.
fn pack_numbers<const G: usize>(row: usize, rows: &[u8], panel: &mut [u8]) {
    let columns = panel.as_chunks_mut::<G>().0;
    for r in 0..PANEL_ROWS {
        let numbers = rows.get(r * row..).unwrap_or_default().as_chunks::<G>().0;
        let mut column = columns[r..].iter_mut().step_by(PANEL_ROWS);
        for number in numbers.iter().take(row / G) {
            if let Some(out) = column.next() {
                *out = *number;
            }
        }
        column.for_each(|out| *out = [0; G]);
    }
}

fn unpack_float(ty: GgmlType, panel: &[u8], row: usize, out: &mut [u8]) {
    let number = field(ty.block_bytes(), ty.block_bytes());
    for (column, out) in panel
        .chunks_exact(PANEL_ROWS * number.bytes)
        .zip(out.chunks_exact_mut(number.bytes))
    {
        gather_row(&[number], column, row, out);
    }
}
