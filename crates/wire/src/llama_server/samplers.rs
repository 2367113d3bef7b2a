//! `samplers`: which of them run. Their order is fixed here, as llama.cpp's is where nothing is said; what is left out
//! is set to change nothing.

use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, Sampling};

/// The samplers in their order: the name, other names, and the letter of `edskypmxt`.
const ORDER: [(&str, &[&str], char); 9] = [
    ("penalties", &[], 'e'),
    ("dry", &[], 'd'),
    ("top_n_sigma", &["top-n-sigma"], 's'),
    ("top_k", &["top-k"], 'k'),
    (
        "typ_p",
        &["typical_p", "typical-p", "typical", "typ-p", "typ"],
        'y',
    ),
    ("top_p", &["top-p", "nucleus"], 'p'),
    ("min_p", &["min-p"], 'm'),
    ("xtc", &[], 'x'),
    ("temperature", &["temp"], 't'),
];

/// The names, in their order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ORDER.iter().map(|(name, _, _)| *name)
}

/// Reads the list, and sets what it leaves out.
pub(super) fn read(fields: &mut Fields, sampling: &mut Sampling) -> Result<(), Fault> {
    let path = fields.at("samplers");
    let wanted: Vec<usize> = match fields.take("samplers") {
        None => return Ok(()),
        Some(Json::String(letters)) => letters
            .chars()
            .map(|letter| {
                let found = ORDER.iter().position(|(_, _, own)| *own == letter);
                found.ok_or_else(|| {
                    Fault::field(&path, format_args!("there is no sampler {letter:?}"))
                })
            })
            .collect::<Result<_, _>>()?,
        Some(list) => path
            .list(list)?
            .map(|(path, item)| {
                let name: String = path.string(item)?;
                let own = |(known, others, _): &(&str, &[&str], char)| {
                    *known == name || others.contains(&name.as_str())
                };
                ORDER.iter().position(own).ok_or_else(|| {
                    Fault::field(&path, format_args!("there is no sampler {name:?}"))
                })
            })
            .collect::<Result<_, _>>()?,
    };
    if !wanted.is_sorted_by(|a, b| a < b) {
        let order: Vec<&str> = names().collect();
        let problem = format_args!("another order than {} is not supported", order.join(", "));
        return Err(Fault::field(&path, problem));
    }
    for (index, name) in names().enumerate() {
        if !wanted.contains(&index) {
            neutral(name, sampling);
        }
    }
    Ok(())
}

fn neutral(name: &str, sampling: &mut Sampling) {
    match name {
        "penalties" => {
            sampling.repeat_penalty = Some(1.0);
            sampling.frequency_penalty = Some(0.0);
            sampling.presence_penalty = Some(0.0);
        }
        "dry" => sampling.dry_multiplier = Some(0.0),
        "top_n_sigma" => sampling.top_n_sigma = Some(0.0),
        "top_k" => sampling.top_k = Some(0),
        "typ_p" => sampling.typical_p = Some(1.0),
        "top_p" => sampling.top_p = Some(1.0),
        "min_p" => sampling.min_p = Some(0.0),
        "xtc" => sampling.xtc_probability = Some(0.0),
        _ => {
            sampling.temperature = Some(1.0);
            sampling.dynatemp_range = Some(0.0);
        }
    }
}
