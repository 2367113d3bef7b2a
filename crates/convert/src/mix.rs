//! Which tensor gets which type: the mixes under the names that published files carry, chosen as llama.cpp does.

use alloc::format;

use strata_quant::GgmlType;
use strata_weights::{Metadata, Value};

/// What a matrix does, as far as the mixes care.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The embedding, where the output matrix is another tensor.
    Embedding,
    /// The matrix that makes logits (a tied embedding too).
    Output,
    /// Values, of a layer.
    AttnV(Layer),
    /// Keys.
    AttnK,
    /// Queries, keys and values in one matrix.
    AttnQkv,
    /// The output of attention.
    AttnOutput,
    /// The way down from the feed-forward network, of a layer.
    FfnDown(Layer),
    /// Any other matrix of experts.
    Experts,
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

/// What a model is like, as far as the mixes care.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// How many layers there are.
    pub layers: u32,
    /// Whether the embedding is the output matrix too.
    pub tied: bool,
    /// Whether the architecture is falcon, whose values share a matrix with queries and keys.
    pub falcon: bool,
    /// Query heads that share a key head.
    pub heads_per_key: u32,
    /// Experts of a layer; 0 where there are none.
    pub experts: u32,
    /// Whether it is known how much each column counts.
    pub importance: bool,
}

impl ModelFacts {
    /// What a GGUF's metadata says, and whether there is a tensor for the output matrix.
    pub fn new(metadata: &Metadata<'_>, has_output: bool, importance: bool) -> ModelFacts {
        let arch = metadata.get("general.architecture");
        let arch = arch.and_then(|value| value.as_str()).unwrap_or("");
        // Models with layers of several kinds have lists; the largest counts.
        let number = |key: &str| -> u32 {
            let integer = |value: Value<'_>| value.as_integer()?.try_into().ok();
            let value = match metadata.get(&format!("{arch}.{key}")) {
                Some(Value::Array(list)) => list.iter().filter_map(integer).max(),
                value => value.and_then(integer),
            };
            value.unwrap_or(0)
        };
        let heads = number("attention.head_count");
        let keys = number("attention.head_count_kv");
        ModelFacts {
            layers: number("block_count"),
            tied: !has_output,
            falcon: arch == "falcon",
            heads_per_key: heads.checked_div(keys).unwrap_or(1),
            experts: number("expert_count"),
            importance,
        }
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
    Q2KS "q2_k_s" 21 Q2_K;
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
    Tq1_0 "tq1_0" 36 TQ1_0;
    Tq2_0 "tq2_0" 37 TQ2_0;
    Mxfp4Moe "mxfp4_moe" 38 MXFP4;
    Nvfp4 "nvfp4" 39 NVFP4;
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
    pub fn choose(self, role: Role, facts: &ModelFacts, columns: u64) -> GgmlType {
        if role == Role::Output && self.is_quantized() {
            return self.output(facts, columns);
        }
        fit(self.wanted(role, facts), columns)
    }

    /// Few bits in the output matrix cost too much quality.
    fn output(self, facts: &ModelFacts, columns: u64) -> GgmlType {
        let whole = columns.is_multiple_of(self.base().block_len() as u64);
        let wanted = match self {
            Mix::Q8_0 | Mix::Mxfp4Moe => GgmlType::Q8_0,
            _ if facts.falcon || !whole => GgmlType::Q8_0,
            _ => GgmlType::Q6_K,
        };
        fit(wanted, columns)
    }

    fn wanted(self, role: Role, facts: &ModelFacts) -> GgmlType {
        use GgmlType as G;
        let base = self.base();
        if !self.is_quantized() {
            return base;
        }
        if self == Mix::Mxfp4Moe {
            return match role {
                Role::Experts => base,
                _ => G::Q8_0,
            };
        }
        let eight = facts.experts == 8;
        match role {
            Role::Embedding if matches!(self, Mix::Tq1_0 | Mix::Tq2_0) => G::Q4_K,
            // With eight experts these are a small part of the whole.
            Role::AttnV(_) | Role::AttnK if eight => G::Q8_0,
            Role::AttnV(layer) => self.attn_v(layer, facts),
            Role::FfnDown(layer) => self.ffn_down(layer, facts),
            Role::AttnOutput => self.attn_output(facts, eight),
            Role::AttnQkv => match self {
                Mix::Q3KM | Mix::Q3KL => G::Q4_K,
                Mix::Q4KM => G::Q5_K,
                Mix::Q5KM => G::Q6_K,
                _ => base,
            },
            _ => base,
        }
    }

    fn attn_v(self, layer: Layer, facts: &ModelFacts) -> GgmlType {
        use GgmlType as G;
        let shared = facts.heads_per_key >= 4;
        match self {
            Mix::Q2K if shared => G::Q4_K,
            Mix::Q2K => G::Q3_K,
            Mix::Q2KS if shared => G::Q4_K,
            Mix::Q3KM if layer.index < 2 => G::Q5_K,
            Mix::Q3KM => G::Q4_K,
            Mix::Q3KL => G::Q5_K,
            Mix::Iq4Nl | Mix::Iq4Xs if shared => G::Q5_K,
            Mix::Q4KM | Mix::Q5KM if layer.wants_more_bits() => G::Q6_K,
            Mix::Q4KS if layer.index < 4 => G::Q5_K,
            _ => self.base(),
        }
    }

    fn ffn_down(self, layer: Layer, facts: &ModelFacts) -> GgmlType {
        use GgmlType as G;
        let ModelFacts {
            falcon, importance, ..
        } = *facts;
        match self {
            Mix::Q2K => G::Q3_K,
            Mix::Q2KS if layer.is_early(8) => G::Q4_K,
            Mix::Q3KM if layer.is_early(16) => G::Q5_K,
            Mix::Q3KM if !falcon || layer.wants_more_bits() => G::Q4_K,
            Mix::Q3KL if falcon => G::Q4_K,
            Mix::Q3KL => G::Q5_K,
            Mix::Q4KM if falcon && layer.is_early(16) => G::Q6_K,
            Mix::Q4KM if falcon && layer.wants_more_bits() => G::Q5_K,
            Mix::Q4KM if falcon => G::Q4_K,
            Mix::Q4KM | Mix::Q5KM if layer.wants_more_bits() => G::Q6_K,
            Mix::Iq4Nl | Mix::Iq4Xs if layer.is_early(8) && !importance => G::Q5_K,
            Mix::Q4KS if layer.is_early(8) && !falcon => G::Q5_K,
            // Weights chosen by importance can go astray in the first layers without a minimum.
            Mix::Q4_0 if layer.is_early(8) && importance => G::Q4_1,
            Mix::Q5_0 if layer.is_early(8) && importance => G::Q5_1,
            _ => self.base(),
        }
    }

    fn attn_output(self, facts: &ModelFacts, eight: bool) -> GgmlType {
        use GgmlType as G;
        match self {
            Mix::Q3KL if facts.falcon => G::Q4_K,
            _ if facts.falcon => self.base(),
            Mix::Q2K | Mix::Q3KS | Mix::Q3KM | Mix::Iq4Nl | Mix::Iq4Xs | Mix::Q4KS | Mix::Q4KM
                if eight =>
            {
                G::Q5_K
            }
            _ if eight => self.base(),
            Mix::Q2K => G::Q3_K,
            Mix::Q3KM => G::Q4_K,
            Mix::Q3KL => G::Q5_K,
            _ => self.base(),
        }
    }
}

/// A type whose blocks fill a row: the wanted one, or one of about as many bits with smaller blocks.
pub(crate) fn fit(wanted: GgmlType, columns: u64) -> GgmlType {
    use GgmlType as G;
    if columns.is_multiple_of(wanted.block_len() as u64) {
        return wanted;
    }
    let smaller = match wanted {
        G::Q2_K | G::Q3_K | G::IQ4_XS => G::IQ4_NL,
        G::Q4_K => G::Q5_0,
        G::Q5_K => G::Q5_1,
        G::TQ1_0 | G::TQ2_0 | G::NVFP4 => G::Q4_0,
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
        let facts = ModelFacts::default();
        let layers = (0..16).map(|index| Layer { index, of: 16 });
        let types = layers.map(|layer| Mix::Q4KM.choose(Role::FfnDown(layer), &facts, 256));
        assert_eq!(types.filter(|&ty| ty == GgmlType::Q6_K).count(), 8);
        let choose = |role| Mix::Q4KM.choose(role, &facts, 256);
        assert_eq!(choose(Role::Embedding), GgmlType::Q4_K);
        assert_eq!(choose(Role::Output), GgmlType::Q6_K);
    }

    #[test]
    fn rows_that_are_no_whole_blocks_get_another_type() {
        let facts = ModelFacts::default();
        let choose = |mix: Mix, role, columns| mix.choose(role, &facts, columns);
        assert_eq!(choose(Mix::Q4KM, Role::Other, 96), GgmlType::Q5_0);
        assert_eq!(choose(Mix::Q4KM, Role::Output, 96), GgmlType::Q8_0);
        assert_eq!(choose(Mix::Q8_0, Role::Other, 40), GgmlType::F16);
        for &mix in Mix::ALL {
            assert_eq!(Mix::from_name(&mix.name().to_uppercase()), Some(mix));
        }
    }

    #[test]
    fn what_a_model_is_like_changes_the_choice() {
        let plain = ModelFacts::default();
        let shared = ModelFacts {
            heads_per_key: 4,
            ..plain
        };
        let mixtral = ModelFacts {
            experts: 8,
            ..plain
        };
        let first = Layer { index: 0, of: 32 };
        let v = Role::AttnV(first);
        assert_eq!(Mix::Q2K.choose(v, &plain, 256), GgmlType::Q3_K);
        assert_eq!(Mix::Q2K.choose(v, &shared, 256), GgmlType::Q4_K);
        assert_eq!(Mix::Q2K.choose(v, &mixtral, 256), GgmlType::Q8_0);
        let weighed = ModelFacts {
            importance: true,
            ..plain
        };
        let down = Role::FfnDown(first);
        assert_eq!(Mix::Iq4Xs.choose(down, &plain, 256), GgmlType::Q5_K);
        assert_eq!(Mix::Iq4Xs.choose(down, &weighed, 256), GgmlType::IQ4_XS);
        assert_eq!(Mix::Q4_0.choose(down, &weighed, 256), GgmlType::Q4_1);
    }
}
