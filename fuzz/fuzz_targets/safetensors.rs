//! Any bytes as a safetensors file, and as the index of a split one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_weights::{safetensors, shard_files};

fuzz_target!(|bytes: &[u8]| {
    let _ = shard_files(bytes);
    let Ok(tensors) = safetensors::parse(bytes) else {
        return;
    };
    for tensor in tensors {
        let Ok(rows) = tensor.rows() else { continue };
        let mut row = vec![0.0; rows.columns()];
        for index in 0..rows.len() {
            rows.read(index, &mut row).expect("a row of a parsed file");
        }
    }
});
