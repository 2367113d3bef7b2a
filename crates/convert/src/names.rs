//! A checkpoint's names against a family's rules.

use alloc::string::String;
use alloc::vec::Vec;

use crate::family::{
    BUFFERS, CLASSIFIER, Family, HEADS, Naming, Order, PREFIXES, Reading, Rule, VISION,
};

/// What a name turned out to be.
pub(crate) enum Known {
    /// A tensor of the family, or several where its halves part.
    Tensors(Vec<Match>),
    /// Something that the text model does not need.
    Ignored,
}

/// A name that a rule covers.
pub(crate) struct Match {
    pub(crate) rule: &'static Rule,
    /// In GGUF, `.weight` or `.bias` included.
    pub(crate) name: String,
    pub(crate) layer: usize,
    /// The number in a stack.
    pub(crate) item: Option<usize>,
}

/// Finds a name's rule.
pub(crate) fn find(family: &Family, name: &str) -> Option<Known> {
    let mut short = name;
    while let Some(rest) = PREFIXES
        .iter()
        .find_map(|prefix| short.strip_prefix(prefix))
    {
        short = rest;
    }
    if VISION.iter().any(|prefix| short.starts_with(prefix)) {
        return Some(Known::Ignored);
    }
    if BUFFERS
        .iter()
        .any(|buffer| numbers(buffer, short).is_some())
    {
        return Some(Known::Ignored);
    }
    // A tensor that several rules have a share of is several.
    let matches = |naming: Naming, name: &str, suffix: &str| {
        let rules = || {
            let decodes = family.reading == Reading::Forward;
            let classifier = decodes.then_some(&CLASSIFIER);
            let rules = family.rules.iter().chain(classifier);
            let rules = rules.flat_map(|rules| rules.iter());
            rules.filter(move |rule| rule.naming == naming)
        };
        let (first, (layer, item)) =
            rules().find_map(|rule| Some((rule, numbers(rule.from, name)?)))?;
        let sharing = rules().filter(|rule| rule.from == first.from && rule.order != Order::Copy);
        let matches = sharing.map(|rule| {
            Some(Match {
                rule,
                name: full_name(rule.to, layer)? + suffix,
                layer: layer.unwrap_or(0) as usize,
                item: item.map(|item| item as usize),
            })
        });
        matches.collect::<Option<Vec<_>>>()
    };
    if let Some(found) = matches(Naming::Whole, short, "") {
        return Some(Known::Tensors(found));
    }
    let (stem, _) = short.rsplit_once('.')?;
    let suffix = &short[stem.len()..];
    let found = match suffix {
        ".weight" | ".bias" => matches(Naming::Stem, stem, suffix),
        _ => None,
    };
    found.map(Known::Tensors).or_else(|| {
        let head = HEADS.iter().any(|prefix| short.starts_with(prefix));
        (head && matches!(family.reading, Reading::Whole { .. })).then_some(Known::Ignored)
    })
}

/// A rule's name with the layer's number in it.
pub(crate) fn full_name(pattern: &str, layer: Option<u32>) -> Option<String> {
    let mut name = String::new();
    for part in pattern.split_inclusive('#') {
        name.push_str(part.strip_suffix('#').unwrap_or(part));
        if part.ends_with('#') {
            name.push_str(&alloc::format!("{}", layer?));
        }
    }
    Some(name)
}

/// The layer that a checkpoint's name puts a tensor in.
pub(crate) fn layer(name: &str) -> Option<u32> {
    let mut parts = name.split('.');
    parts.find(|part| *part == "layers")?;
    number(parts.next()?)
}

/// The layer and the number in a stack of a name that fits a pattern.
pub(crate) fn numbers(pattern: &str, name: &str) -> Option<(Option<u32>, Option<u32>)> {
    let (mut layer, mut item) = (None, None);
    let mut parts = name.split('.');
    for expected in pattern.split('.') {
        let part = parts.next()?;
        match expected {
            "#" => layer = Some(number(part)?),
            "@" => item = Some(number(part)?),
            _ if part == expected => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some((layer, item))
}

/// A number as programs write it: digits, no needless zero in front.
fn number(text: &str) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 6;
    let plain = plain && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family;

    fn gguf_name(class: &str, name: &str) -> Option<String> {
        match find(family::of_class(class).next().expect("a class"), name)? {
            Known::Tensors(found) => {
                let names: Vec<String> = found.into_iter().map(|found| found.name).collect();
                Some(names.join(" "))
            }
            Known::Ignored => Some("ignored".into()),
        }
    }

    #[test]
    fn names_lose_their_prefixes() {
        let gpt2 = |name| gguf_name("GPT2LMHeadModel", name);
        assert_eq!(
            gpt2("h.3.ln_1.bias").as_deref(),
            Some("blk.3.attn_norm.bias")
        );
        assert_eq!(
            gpt2("transformer.wte.weight").as_deref(),
            Some("token_embd.weight")
        );
        assert_eq!(gpt2("h.3.attn.bias").as_deref(), Some("ignored"));
        assert_eq!(gpt2("h.03.ln_1.bias"), None);
        assert_eq!(gpt2("h.x.ln_1.bias"), None);
        let gemma = |name| gguf_name("Gemma3ForConditionalGeneration", name);
        assert_eq!(
            gemma("model.language_model.layers.11.mlp.up_proj.weight").as_deref(),
            Some("blk.11.ffn_up.weight")
        );
        assert_eq!(gemma("vision_tower.x.weight").as_deref(), Some("ignored"));
        assert_eq!(gemma("model.layers.0.mlp.up_proj.weight_scale"), None);
        assert_eq!(
            gguf_name(
                "JinaBertModel",
                "bert.encoder.layer.2.mlp.gated_layers.weight"
            )
            .as_deref(),
            Some("blk.2.ffn_gate.weight blk.2.ffn_up.weight")
        );
    }
}
