//! Views of the output that workers write side by side.

use strata_kernels::TileMut;

#[test]
fn workers_write_disjoint_rows() {
    let mut out = vec![0.0; 3 * 10];
    let (left, right) = TileMut::from_slice(&mut out, 3, 10).split_rows(4);
    let (middle, right) = right.split_rows(6);
    assert_eq!((left.rows(), middle.rows(), right.rows()), (4, 6, 0));
    std::thread::scope(|scope| {
        for (value, mut tile) in [(1.0, left), (2.0, middle), (9.0, right)] {
            scope.spawn(move || {
                for t in 0..tile.tokens() {
                    tile.token_mut(t).fill(value + t as f32 * 10.0);
                }
            });
        }
    });
    for t in 0..3 {
        let base = t as f32 * 10.0;
        assert_eq!(out[10 * t..][..4], [base + 1.0; 4]);
        assert_eq!(out[10 * t + 4..][..6], [base + 2.0; 6]);
    }
}

#[test]
#[should_panic(expected = "within the rows")]
fn no_cut_past_the_end() {
    let _ = TileMut::from_slice(&mut [0.0; 4], 1, 4).split_rows(5);
}

#[test]
fn no_tokens() {
    let (a, b) = TileMut::<f32>::from_slice(&mut [], 0, 8).split_rows(3);
    assert_eq!((a.tokens(), a.rows(), b.rows()), (0, 3, 5));
}
