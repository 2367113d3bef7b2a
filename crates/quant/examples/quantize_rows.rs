//! Quantizes a file of f32 values and prints the speed in million values a second:
//! `quantize_rows TYPE VALUES OUT [IMPORTANCE]`. `tools/quant_vectors.py --compare` calls it.

use std::time::Instant;

use strata_quant::{GgmlType, quantize};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [ty, values, out, importance @ ..] = args.as_slice() else {
        return Err("usage: quantize_rows TYPE VALUES OUT [IMPORTANCE]".into());
    };
    let ty = GgmlType::from_name(ty).ok_or("no such type")?;
    let values = read_floats(values)?;
    let importance = importance
        .first()
        .map(|path| read_floats(path))
        .transpose()?;
    let bytes = ty
        .row_bytes(values.len() as u64)
        .ok_or("not whole blocks")?;
    let mut blocks = vec![0; usize::try_from(bytes)?];
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        quantize(ty, &values, importance.as_deref(), &mut blocks)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    std::fs::write(out, &blocks)?;
    println!("{}", values.len() as f64 / best / 1e6);
    Ok(())
}

fn read_floats(path: &str) -> std::io::Result<Vec<f32>> {
    let bytes = std::fs::read(path)?;
    Ok(bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect())
}
