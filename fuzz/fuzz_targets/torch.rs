//! Any bytes as a PyTorch file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_weights::torch;

fuzz_target!(|bytes: &[u8]| {
    let Ok(tensors) = torch::parse(bytes) else {
        return;
    };
    for tensor in tensors {
        let Ok(rows) = tensor.rows() else { continue };
        let rows = rows.transposed();
        let mut row = vec![0.0; rows.columns()];
        for index in 0..rows.len() {
            rows.read(index, &mut row).expect("a row of a parsed file");
        }
    }
});
