//! What types a file's tensors get: a mix, and what was asked for beside it.

use alloc::string::String;

use strata_quant::GgmlType;
use strata_weights::gguf::{Builder, WriteError};

use crate::error::ConvertError;
use crate::importance::Importance;
use crate::mix::{Layer, Mix, ModelFacts, Role, fit};

/// Parts of names whose matrices are small, and dear to lose bits of.
const KEPT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_inp_shexp.weight",
    "position_embd.weight",
    "token_types.weight",
    "attn_rel_b.weight",
    "ssm_conv1d.weight",
    "shortconv.conv.weight",
    "per_layer_model_proj",
    "altup",
    "laurel",
];

/// The version of the block formats that GGUF files state.
const QUANTIZATION_VERSION: u32 = 2;

/// A type for the matrices whose names have a text in them; `*` in it stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRule {
    /// What names have in them.
    pub pattern: String,
    /// The type that they get.
    pub ty: GgmlType,
}

impl TypeRule {
    /// Whether a name has the pattern in it.
    pub fn matches(&self, name: &str) -> bool {
        let mut rest = name;
        self.pattern
            .split('*')
            .all(|part| match rest.split_once(part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
    }
}

/// What a file's matrices become.
#[derive(Copy, Clone, Debug)]
pub struct Recipe<'o> {
    /// The types where nothing else is said.
    pub mix: Mix,
    /// The output matrix's type.
    pub output: Option<GgmlType>,
    /// The embedding's type, where it is not the output matrix too.
    pub embedding: Option<GgmlType>,
    /// Types by name; the first rule that fits counts.
    pub rules: &'o [TypeRule],
    /// How much each column counts.
    pub importance: Option<&'o Importance>,
    /// The name of the file that says so.
    pub importance_file: Option<&'o str>,
}

impl From<Mix> for Recipe<'_> {
    fn from(mix: Mix) -> Self {
        Recipe {
            mix,
            output: None,
            embedding: None,
            rules: &[],
            importance: None,
            importance_file: None,
        }
    }
}

impl Recipe<'_> {
    /// The type of a tensor; `None` for those that no mix touches: norms, biases, routers, positions.
    pub fn choose(&self, facts: &ModelFacts, name: &str, dims: &[u64]) -> Option<GgmlType> {
        if !is_chosen(name, dims) {
            return None;
        }
        let columns = dims.first().copied().unwrap_or(0);
        let role = match role(facts, name, dims) {
            // This mix asks only whether there are experts in a tensor.
            Role::FfnDown(_) if self.mix == Mix::Mxfp4Moe && dims.len() >= 3 => Role::Experts,
            role => role,
        };
        let asked = match role {
            Role::Output => self.output,
            Role::Embedding => self.embedding,
            _ => None,
        };
        let rule = self.rules.iter().find(|rule| rule.matches(name));
        Some(match asked.or(rule.map(|rule| rule.ty)) {
            Some(ty) => fit(ty, columns),
            None => self.mix.choose(role, facts, columns),
        })
    }
}

impl Recipe<'_> {
    /// Writes what a file says about its types.
    pub(crate) fn describe(&self, builder: &mut Builder) -> Result<(), WriteError> {
        builder.set("general.file_type", self.mix.file_type())?;
        builder.set("general.quantization_version", QUANTIZATION_VERSION)?;
        let Some(importance) = self.importance else {
            return Ok(());
        };
        if let Some(file) = self.importance_file {
            builder.set("quantize.imatrix.file", file)?;
        }
        if let Some(dataset) = importance.datasets.first() {
            builder.set("quantize.imatrix.dataset", dataset)?;
        }
        builder.set("quantize.imatrix.entries_count", importance.len() as u32)?;
        if importance.chunks > 0 {
            builder.set("quantize.imatrix.chunks_count", importance.chunks)?;
        }
        Ok(())
    }

    /// Refuses types that cannot be written, and rules that no matrix of a file follows.
    pub(crate) fn check<'n>(
        &self,
        tensors: impl Iterator<Item = (&'n str, &'n [u64])> + Clone,
    ) -> Result<(), ConvertError> {
        let asked = self.rules.iter().map(|rule| rule.ty);
        for ty in asked.chain(self.output).chain(self.embedding) {
            let activations = matches!(ty, GgmlType::Q8_1 | GgmlType::Q8_K | GgmlType::F64);
            if activations || ty.max_magnitude().is_none() {
                return Err(ConvertError::CannotWrite { ty });
            }
        }
        for rule in self.rules {
            let mut tensors = tensors.clone();
            if !tensors.any(|(name, dims)| is_chosen(name, dims) && rule.matches(name)) {
                return Err(ConvertError::UnusedRule {
                    pattern: rule.pattern.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Whether mixes choose a tensor's type.
fn is_chosen(name: &str, dims: &[u64]) -> bool {
    let is_matrix = dims.len() >= 2 && name.ends_with(".weight");
    is_matrix && !KEPT.iter().any(|part| name.contains(part))
}

/// What a matrix does, by its name.
fn role(facts: &ModelFacts, name: &str, dims: &[u64]) -> Role {
    let layer = || {
        let number = name.strip_prefix("blk.")?.split('.').next()?;
        Some(Layer {
            index: number.parse().ok()?,
            of: facts.layers,
        })
    };
    match name {
        "output.weight" => Role::Output,
        "token_embd.weight" if facts.tied => Role::Output,
        "token_embd.weight" => Role::Embedding,
        _ => match layer() {
            Some(layer) if name.ends_with(".attn_v.weight") => Role::AttnV(layer),
            Some(layer) if name.contains(".ffn_down") => Role::FfnDown(layer),
            _ if name.ends_with(".attn_k.weight") => Role::AttnK,
            _ if name.ends_with(".attn_qkv.weight") => Role::AttnQkv,
            _ if name.ends_with(".attn_output.weight") => Role::AttnOutput,
            _ if dims.len() >= 3 => Role::Experts,
            _ => Role::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_anywhere_in_a_name() {
        let rule = |pattern: &str| TypeRule {
            pattern: pattern.into(),
            ty: GgmlType::Q8_0,
        };
        let name = "blk.11.ffn_down_exps.weight";
        for fits in ["ffn_down", "blk.11.", "blk.*.ffn_down*", "*", "blk.1*down"] {
            assert!(rule(fits).matches(name), "{fits}");
        }
        for other in ["ffn_up", "down*ffn", "blk.12", "blk.11.weight"] {
            assert!(!rule(other).matches(name), "{other}");
        }
    }

    #[test]
    fn what_was_asked_for_comes_before_the_mix() {
        let rules = [TypeRule {
            pattern: "attn_v".into(),
            ty: GgmlType::F16,
        }];
        let facts = ModelFacts {
            layers: 4,
            ..ModelFacts::default()
        };
        let recipe = Recipe {
            output: Some(GgmlType::Q8_0),
            embedding: Some(GgmlType::Q5_0),
            rules: &rules,
            ..Recipe::from(Mix::Q4KM)
        };
        let choose = |name: &str, dims: &[u64]| recipe.choose(&facts, name, dims);
        assert_eq!(choose("output.weight", &[256, 9]), Some(GgmlType::Q8_0));
        assert_eq!(choose("token_embd.weight", &[256, 9]), Some(GgmlType::Q5_0));
        assert_eq!(
            choose("blk.3.attn_v.weight", &[256, 9]),
            Some(GgmlType::F16)
        );
        assert_eq!(
            choose("blk.3.attn_q.weight", &[256, 9]),
            Some(GgmlType::Q4_K)
        );
        assert_eq!(choose("blk.3.attn_v.bias", &[256]), None);
        assert_eq!(choose("blk.3.ffn_gate_inp.weight", &[256, 9]), None);
        assert_eq!(choose("blk.3.attn_norm.weight", &[256, 9]), None);
    }
}
