//! Which tensor gets which type: the mixes under the names that published files carry.

use strata_quant::GgmlType;

/// What a matrix does, as far as the mixes care.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The embedding, where the output matrix is another tensor.
    Embedding,
    /// The matrix that makes logits (a tied embedding too).
    Output,
    /// Values, of a layer.
    AttnV(Layer),
    /// The way down from the feed-forward network, of a layer.
    FfnDown(Layer),
    /// The output of attention.
    AttnOutput,
    /// Any other matrix.
    Other,
}

/// A layer's number and how many there are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// From 0.
    pub index: u32,
    /// How many layers there are.
    pub of: u32,
}

impl Layer {
    /// The first eighth, the last eighth, and every third layer between.
    fn wants_more_bits(self) -> bool {
        let eighth = self.of / 8;
        let last = (u64::from(self.of) * 7 / 8) as u32;
        self.index < eighth || self.index >= last || (self.index - eighth) % 3 == 2
    }

    /// Whether it is in the first `1/part` of the layers.
    fn is_early(self, part: u32) -> bool {
        self.index < self.of / part
    }
}

/// Writes the enum and its tables from one list.
macro_rules! mixes {
    ($($mix:ident $name:literal $file_type:literal $base:ident;)*) => {
        /// A named choice of types.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names say it all")]
        pub enum Mix { $($mix,)* }

        impl Mix {
            /// All of them.
            pub const ALL: &[Mix] = &[$(Mix::$mix),*];

            /// The name, in lower case.
            pub const fn name(self) -> &'static str {
                match self { $(Mix::$mix => $name,)* }
            }

            /// `general.file_type`, as GGUF numbers the mixes.
            pub const fn file_type(self) -> u32 {
                match self { $(Mix::$mix => $file_type,)* }
            }

            /// The type that most matrices get.
            pub const fn base(self) -> GgmlType {
                match self { $(Mix::$mix => GgmlType::$base,)* }
            }
        }
    };
}

mixes! {
    F32 "f32" 0 F32;
    F16 "f16" 1 F16;
    Bf16 "bf16" 32 BF16;
    Q8_0 "q8_0" 7 Q8_0;
    Q4_0 "q4_0" 2 Q4_0;
    Q4_1 "q4_1" 3 Q4_1;
    Q5_0 "q5_0" 8 Q5_0;
    Q5_1 "q5_1" 9 Q5_1;
    Q2K "q2_k" 10 Q2_K;
    Q3KS "q3_k_s" 11 Q3_K;
    Q3KM "q3_k_m" 12 Q3_K;
    Q3KL "q3_k_l" 13 Q3_K;
    Q4KS "q4_k_s" 14 Q4_K;
    Q4KM "q4_k_m" 15 Q4_K;
    Q5KS "q5_k_s" 16 Q5_K;
    Q5KM "q5_k_m" 17 Q5_K;
    Q6K "q6_k" 18 Q6_K;
    Iq4Nl "iq4_nl" 25 IQ4_NL;
    Iq4Xs "iq4_xs" 30 IQ4_XS;
}

impl Mix {
    /// The mix of a name, whatever its case.
    pub fn from_name(name: &str) -> Option<Mix> {
        let mut all = Mix::ALL.iter().copied();
        all.find(|mix| mix.name().eq_ignore_ascii_case(name))
    }

    /// Whether matrices are made of blocks with scales.
    pub const fn is_quantized(self) -> bool {
        !matches!(self, Mix::F32 | Mix::F16 | Mix::Bf16)
    }

    /// The type of a matrix with rows of `columns` values.
    pub fn choose(self, role: Role, columns: u64) -> GgmlType {
        fit(self.wanted(role), columns)
    }

    fn wanted(self, role: Role) -> GgmlType {
        use GgmlType as G;
        let base = self.base();
        match (role, self) {
            (_, Mix::F32 | Mix::F16 | Mix::Bf16 | Mix::Q8_0) => base,
            // Few bits in the output matrix cost too much quality.
            (Role::Output, _) => G::Q6_K,
            (Role::AttnV(layer) | Role::FfnDown(layer), Mix::Q4KM | Mix::Q5KM) => {
                if layer.wants_more_bits() {
                    G::Q6_K
                } else {
                    base
                }
            }
            (Role::AttnV(layer), Mix::Q4KS) if layer.index < 4 => G::Q5_K,
            (Role::FfnDown(layer), Mix::Q4KS | Mix::Iq4Xs | Mix::Iq4Nl) if layer.is_early(8) => {
                G::Q5_K
            }
            (Role::AttnV(layer), Mix::Q3KM) => {
                if layer.index < 2 {
                    G::Q5_K
                } else {
                    G::Q4_K
                }
            }
            (Role::FfnDown(layer), Mix::Q3KM) if layer.is_early(16) => G::Q5_K,
            (Role::FfnDown(layer), Mix::Q3KM) if layer.wants_more_bits() => G::Q4_K,
            (Role::AttnOutput, Mix::Q3KM) => G::Q4_K,
            (Role::AttnV(_) | Role::FfnDown(_) | Role::AttnOutput, Mix::Q3KL) => G::Q5_K,
            (Role::AttnV(_) | Role::FfnDown(_) | Role::AttnOutput, Mix::Q2K) => G::Q3_K,
            _ => base,
        }
    }
}

/// A type whose blocks fill a row: the wanted one, or one of about as many bits with smaller blocks.
fn fit(wanted: GgmlType, columns: u64) -> GgmlType {
    use GgmlType as G;
    if columns.is_multiple_of(wanted.block_len() as u64) {
        return wanted;
    }
    let smaller = match wanted {
        G::Q2_K | G::Q3_K | G::IQ4_XS => G::IQ4_NL,
        G::Q4_K => G::Q5_0,
        G::Q5_K => G::Q5_1,
        _ => G::Q8_0,
    };
    if columns.is_multiple_of(smaller.block_len() as u64) {
        smaller
    } else {
        G::F16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medium_mix_spends_more_on_half_of_the_sensitive_matrices() {
        let layers = (0..16).map(|index| Layer { index, of: 16 });
        let types = layers.map(|layer| Mix::Q4KM.choose(Role::FfnDown(layer), 256));
        assert_eq!(types.filter(|&ty| ty == GgmlType::Q6_K).count(), 8);
        assert_eq!(Mix::Q4KM.choose(Role::Embedding, 256), GgmlType::Q4_K);
        assert_eq!(Mix::Q4KM.choose(Role::Output, 256), GgmlType::Q6_K);
    }

    #[test]
    fn rows_that_are_no_whole_blocks_get_another_type() {
        assert_eq!(Mix::Q4KM.choose(Role::Other, 96), GgmlType::Q5_0);
        assert_eq!(Mix::Q4KM.choose(Role::Output, 96), GgmlType::Q8_0);
        assert_eq!(Mix::Q8_0.choose(Role::Other, 40), GgmlType::F16);
        for &mix in Mix::ALL {
            assert_eq!(Mix::from_name(&mix.name().to_uppercase()), Some(mix));
        }
    }
}
