//! Packing rows into panels, and reading them back.

use strata_kernels::{PANEL_ROWS, is_packed, pack_panel, panel_bytes, unpack_row};
use strata_quant::GgmlType;

#[test]
fn rows_come_back() {
    let mut seed = 1u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    let packed: Vec<GgmlType> = GgmlType::ALL
        .iter()
        .copied()
        .filter(|&ty| is_packed(ty))
        .collect();
    assert_eq!(packed.len(), 16);
    for ty in packed {
        for n_rows in [1, 7, 16] {
            let cols = 3 * ty.block_len();
            let row = 3 * ty.block_bytes();
            let rows: Vec<u8> = (0..n_rows * row).map(|_| random()).collect();
            let mut panel = vec![0xaa; panel_bytes(ty, cols)];
            pack_panel(ty, cols, &rows, &mut panel);
            let mut out = vec![0; row];
            for r in 0..PANEL_ROWS {
                unpack_row(ty, cols, &panel, r, &mut out);
                let expected = rows.get(r * row..).filter(|rest| !rest.is_empty());
                match expected {
                    Some(rest) => assert_eq!(out, rest[..row], "{ty} row {r}"),
                    None => assert!(
                        out.iter().all(|&b| b == 0),
                        "{ty} row {r} is filled up with zeros"
                    ),
                }
            }
        }
    }
}
