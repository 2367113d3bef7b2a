//! What a GGUF file says about itself that a manifest's description repeats.

use crate::error::{At, StoreError};
use crate::manifest::media_type;
use std::path::Path;
use strata_host::MappedFile;
use strata_weights::Gguf;

/// Facts of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GgufFacts {
    pub(crate) media_type: &'static str,
    pub(crate) architecture: String,
    pub(crate) weights: u64,
    pub(crate) file_type: &'static str,
}

impl GgufFacts {
    /// Reads and checks a file; what is no GGUF is an error.
    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        let file = MappedFile::open(path).at(path)?;
        let bad = |source| StoreError::Gguf {
            path: path.into(),
            source,
        };
        let gguf = Gguf::parse(file.bytes()).map_err(bad)?;
        let meta = gguf.metadata();
        let text = |key| Ok::<_, StoreError>(meta.str(key).map_err(bad)?.unwrap_or_default());
        let architecture = text("general.architecture")?;
        let media_type = match (text("general.type")?, architecture) {
            ("adapter", _) => media_type::ADAPTER,
            ("projector" | "mmproj", _) | (_, "clip") => media_type::PROJECTOR,
            _ => media_type::MODEL,
        };
        let weights = gguf
            .tensors()
            .iter()
            .filter_map(|tensor| tensor.dims.elements())
            .fold(0u64, u64::saturating_add);
        let number = meta.u64("general.file_type").map_err(bad)?;
        Ok(Self {
            media_type,
            architecture: architecture.into(),
            weights,
            file_type: file_type(number),
        })
    }
}

/// The name of a `general.file_type`.
fn file_type(number: Option<u64>) -> &'static str {
    match number {
        Some(0) => "F32",
        Some(1) => "F16",
        Some(2) => "Q4_0",
        Some(3) => "Q4_1",
        Some(7) => "Q8_0",
        Some(8) => "Q5_0",
        Some(9) => "Q5_1",
        Some(10) => "Q2_K",
        Some(11) => "Q3_K_S",
        Some(12) => "Q3_K_M",
        Some(13) => "Q3_K_L",
        Some(14) => "Q4_K_S",
        Some(15) => "Q4_K_M",
        Some(16) => "Q5_K_S",
        Some(17) => "Q5_K_M",
        Some(18) => "Q6_K",
        Some(19) => "IQ2_XXS",
        Some(20) => "IQ2_XS",
        Some(21) => "Q2_K_S",
        Some(22) => "IQ3_XS",
        Some(23) => "IQ3_XXS",
        Some(24) => "IQ1_S",
        Some(25) => "IQ4_NL",
        Some(26) => "IQ3_S",
        Some(27) => "IQ3_M",
        Some(28) => "IQ2_S",
        Some(29) => "IQ2_M",
        Some(30) => "IQ4_XS",
        Some(31) => "IQ1_M",
        Some(32) => "BF16",
        Some(36) => "TQ1_0",
        Some(37) => "TQ2_0",
        Some(38) => "MXFP4",
        _ => "unknown",
    }
}

/// How many weights, as Ollama writes it: `8.0B`, `134.52M`.
pub fn human_count(count: u64) -> String {
    let short = |unit: u64, digits: usize, letter: char| {
        let number = count as f64 / unit as f64;
        if number == number.floor() {
            format!("{number:.0}{letter}")
        } else {
            format!("{number:.digits$}{letter}")
        }
    };
    match count {
        1_000_000_000_000.. => short(1_000_000_000_000, 1, 'T'),
        1_000_000_000.. => short(1_000_000_000, 1, 'B'),
        1_000_000.. => short(1_000_000, 2, 'M'),
        1_000.. => format!("{:.0}K", count as f64 / 1e3),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        for (count, expected) in [
            (999, "999"),
            (22_566_912, "22.57M"),
            (8_030_261_312, "8.0B"),
            (7_000_000_000, "7B"),
            (1_026_000_000_000, "1.0T"),
            (12_300, "12K"),
        ] {
            assert_eq!(human_count(count), expected);
        }
    }
}
