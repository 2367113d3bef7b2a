//! The layer after the last, which predicts the token after the next: where a checkpoint has one and its family runs, it is
//! kept, as the layer of the next number.

use alloc::borrow::Cow;
use alloc::format;

use crate::family::{Family, NEXTN_JOIN};
use crate::names;

/// How many such layers of a checkpoint of `layers` layers are kept: 1, if it has no more and the family has rules for it.
pub(crate) fn kept<'n>(
    family: &Family,
    layers: usize,
    mut tensors: impl Iterator<Item = &'n str> + Clone,
) -> usize {
    let mut rules = family.rules.iter().flat_map(|rules| rules.iter());
    let first = format!("layers.{layers}.eh_proj.weight");
    let several = tensors.clone().any(|name| {
        let layer = names::layer(&numbered(name, layers));
        layer.is_some_and(|layer| layer as usize > layers)
    });
    let kept = !several
        && rules.any(|rule| rule.from == NEXTN_JOIN)
        && tensors.any(|name| numbered(name, layers).ends_with(&first));
    usize::from(kept)
}

/// A tensor's name with the layer's number in it, where a checkpoint calls the layer `mtp`, as Qwen3-Next's do.
pub(crate) fn numbered(name: &str, layers: usize) -> Cow<'_, str> {
    let Some(own) = name.strip_prefix("mtp.") else {
        return name.into();
    };
    if let Some((number, rest)) = own
        .strip_prefix("layers.")
        .and_then(|own| own.split_once('.'))
        && let Ok(number) = number.parse::<u16>()
    {
        return format!("layers.{}.{rest}", layers + usize::from(number)).into();
    }
    let (stem, part) = own.rsplit_once('.').unwrap_or((own, ""));
    let stem = match stem {
        "fc" => "eh_proj",
        "pre_fc_norm_embedding" => "enorm",
        "pre_fc_norm_hidden" => "hnorm",
        "norm" => "shared_head.norm",
        _ => return name.into(),
    };
    format!("layers.{layers}.{stem}.{part}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family;

    #[test]
    fn one_layer_is_kept_and_several_are_not() {
        let family = |class| family::of_class(class).next().expect("a class");
        let glm = family("Glm4MoeForCausalLM");
        let one = [
            "model.layers.1.mlp.up_proj.weight",
            "model.layers.2.eh_proj.weight",
        ];
        assert_eq!(kept(glm, 2, one.into_iter()), 1);
        assert_eq!(kept(glm, 3, one.into_iter()), 0);
        let two = [
            "model.layers.2.eh_proj.weight",
            "model.layers.3.eh_proj.weight",
        ];
        assert_eq!(kept(glm, 2, two.into_iter()), 0);
        let qwen = family("Qwen3NextForCausalLM");
        assert_eq!(kept(qwen, 4, ["mtp.fc.weight"].into_iter()), 1);
        let two = ["mtp.fc.weight", "mtp.layers.1.input_layernorm.weight"];
        assert_eq!(kept(qwen, 4, two.into_iter()), 0);
        let llama = family("LlamaForCausalLM");
        assert_eq!(kept(llama, 2, one.into_iter()), 0, "it does not run");
    }
}
