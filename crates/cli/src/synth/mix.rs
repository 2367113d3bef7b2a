//! Which tensor gets which type: the mixes under the names that published files carry.

use clap::ValueEnum;
use strata_quant::GgmlType;

/// A named choice of types.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Mix {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    #[value(name = "q4_k_m")]
    Q4KM,
    #[value(name = "q5_k_m")]
    Q5KM,
    #[value(name = "q6_k")]
    Q6K,
}

/// What a matrix does, as far as the mixes care.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The embedding, where the output matrix is another tensor.
    Embedding,
    /// The matrix that makes logits (a tied embedding too).
    Output,
    /// `attn_v` and `ffn_down`: the K mixes give them more bits in some layers.
    Sensitive {
        /// The layer it is in.
        layer: u32,
        /// How many layers there are.
        of: u32,
    },
    /// Any other matrix.
    Other,
}

impl Mix {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4KM => "q4_k_m",
            Self::Q5KM => "q5_k_m",
            Self::Q6K => "q6_k",
        }
    }

    /// `general.file_type`, as GGUF numbers the mixes.
    pub(crate) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q8_0 => 7,
            Self::Q4KM => 15,
            Self::Q5KM => 17,
            Self::Q6K => 18,
            Self::Bf16 => 32,
        }
    }

    /// The type of a matrix.
    pub(crate) fn choose(self, role: Role) -> GgmlType {
        let (plain, more) = match self {
            Self::F32 => (GgmlType::F32, GgmlType::F32),
            Self::F16 => (GgmlType::F16, GgmlType::F16),
            Self::Bf16 => (GgmlType::BF16, GgmlType::BF16),
            Self::Q8_0 => (GgmlType::Q8_0, GgmlType::Q8_0),
            // Four-bit output matrices cost too much quality, so even the plain mix spares that one.
            Self::Q4_0 => match role {
                Role::Output => return GgmlType::Q6_K,
                _ => (GgmlType::Q4_0, GgmlType::Q4_0),
            },
            Self::Q4KM => (GgmlType::Q4_K, GgmlType::Q6_K),
            Self::Q5KM => (GgmlType::Q5_K, GgmlType::Q6_K),
            Self::Q6K => (GgmlType::Q6_K, GgmlType::Q6_K),
        };
        match role {
            Role::Output => more,
            Role::Sensitive { layer, of } if wants_more_bits(layer, of) => more,
            _ => plain,
        }
    }
}

/// The first eighth, the last eighth, and every third layer between.
fn wants_more_bits(layer: u32, of: u32) -> bool {
    let eighth = of / 8;
    layer < eighth || layer >= 7 * of / 8 || (layer - eighth) % 3 == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medium_mix_spends_more_on_half_of_the_sensitive_matrices() {
        let more = (0..16)
            .filter(|&layer| Mix::Q4KM.choose(Role::Sensitive { layer, of: 16 }) == GgmlType::Q6_K)
            .count();
        assert_eq!(more, 8);
        assert_eq!(Mix::Q4KM.choose(Role::Other), GgmlType::Q4_K);
        assert_eq!(Mix::Q4KM.choose(Role::Embedding), GgmlType::Q4_K);
        assert_eq!(Mix::Q4KM.choose(Role::Output), GgmlType::Q6_K);
    }
}
