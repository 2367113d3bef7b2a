//! `config.json`: a map in which the same thing has several names.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_weights::gguf::Name;

use crate::ctc;
use crate::error::ConvertError;
use crate::family::{self, Family, When};
use crate::minicpmv;
use crate::text_models;

/// The most bytes of a `config.json`; the largest published ones have about a hundred thousand.
const MAX_LEN: usize = 4 << 20;

/// The most layers of a model whose layers differ.
const MAX_LAYERS: u32 = 1024;

/// What the classes of models with a classifier end with.
const CLASSIFIES: &str = "ForSequenceClassification";

/// Lists of what each layer is.
const LAYER_TYPES: [&str; 2] = ["layer_types", "layers_block_type"];

/// What a layer is, where layers differ.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayerKind {
    Attention,
    Recurrent,
    /// A feed-forward network alone.
    Network,
    /// Experts alone.
    Experts,
}

/// A parsed `config.json`.
#[derive(Clone, Debug)]
pub struct HfConfig {
    /// The part about the text model.
    text: Map<String, Value>,
    class: String,
    /// The class of the text model, where that of the whole does not say its family.
    inside: Option<&'static str>,
    /// GGUF's number of a pooling that sentence-transformers state.
    pooling: Option<u32>,
    /// `generation_config.json`.
    generation: Map<String, Value>,
    /// Other files beside the weights, for the classes that need them.
    beside: BTreeMap<&'static str, Map<String, Value>>,
}

/// What the reader of JSON says, without the whole of a text that is in the wrong place.
fn not_json(error: serde_json::Error) -> ConvertError {
    let reason: String = error.to_string().chars().take(300).collect();
    ConvertError::Json {
        reason: reason.into(),
    }
}

impl HfConfig {
    /// Parses the file's bytes.
    pub fn parse(json: &[u8]) -> Result<HfConfig, ConvertError> {
        if json.len() > MAX_LEN {
            return Err(ConvertError::TooLong {
                len: json.len(),
                limit: MAX_LEN,
            });
        }
        let mut map: Map<String, Value> = serde_json::from_slice(json).map_err(not_json)?;
        let class = map.get("architectures").and_then(|list| list.get(0));
        let class = class.and_then(Value::as_str).ok_or(ConvertError::NoClass)?;
        let class = class.to_string();
        // Models that also see keep what the text model has in a map of its own, and some things outside it.
        if let Some(Value::Object(text)) = map.remove("text_config") {
            map.extend(text);
        }
        if class == minicpmv::CLASS {
            minicpmv::name_text_model(&mut map)?;
        }
        let inside = text_models::inside(&class, &mut map);
        // MPT and DBRX have the numbers of attention and networks in maps of their own.
        for part in ["attn_config", "ffn_config"] {
            if let Some(Value::Object(part)) = map.remove(part) {
                map.extend(part);
            }
        }
        // Kimi Linear's too, some of whose names mean something else outside.
        if let Some(Value::Object(linear)) = map.remove("linear_attn_config") {
            for (from, to) in [
                ("head_dim", "linear_head_dim"),
                ("num_heads", "linear_num_heads"),
                ("short_conv_kernel_size", "linear_conv_kernel_dim"),
                ("full_attn_layers", "full_attn_layers"),
            ] {
                if let Some(value) = linear.get(from) {
                    map.insert(to.into(), value.clone());
                }
            }
        }
        Ok(HfConfig {
            text: map,
            class,
            inside,
            pooling: None,
            generation: Map::new(),
            beside: BTreeMap::new(),
        })
    }

    /// The model's class.
    pub(crate) fn class(&self) -> &str {
        &self.class
    }

    /// What the config says of the model's eyes.
    pub(crate) fn vision(&self) -> Option<&Map<String, Value>> {
        self.text.get("vision_config")?.as_object()
    }

    /// What the config says of the model's ears.
    pub(crate) fn audio(&self) -> Option<&Map<String, Value>> {
        self.text.get("audio_config")?.as_object()
    }

    /// The same with what `1_Pooling/config.json` of sentence-transformers says.
    pub fn with_pooling(mut self, json: &[u8]) -> Result<HfConfig, ConvertError> {
        let map: Map<String, Value> = serde_json::from_slice(json).map_err(not_json)?;
        let modes = [
            ("pooling_mode_mean_tokens", 1),
            ("pooling_mode_cls_token", 2),
            ("pooling_mode_lasttoken", 3),
        ];
        let stated = |mode: &&(&str, u32)| map.get(mode.0).and_then(Value::as_bool) == Some(true);
        self.pooling = modes.iter().find(stated).map(|mode| mode.1);
        Ok(self)
    }

    /// The same with what the `config.json` of a dense layer after pooling says.
    pub fn with_dense(mut self, name: &str, json: &[u8]) -> Result<HfConfig, ConvertError> {
        let map: Map<String, Value> = serde_json::from_slice(json).map_err(not_json)?;
        for (from, to) in [("in_features", "in"), ("out_features", "out")] {
            if let Some(size) = map.get(from) {
                let key = alloc::format!("{name}_feat_{to}");
                self.text.insert(key, size.clone());
            }
        }
        Ok(self)
    }

    /// The same with what `generation_config.json` says.
    pub fn with_generation(mut self, json: &[u8]) -> Result<HfConfig, ConvertError> {
        self.generation = serde_json::from_slice(json).map_err(not_json)?;
        Ok(self)
    }

    /// The names of the files beside the weights, other than those above, that a model of this class is made of.
    pub fn needed_files(&self) -> &'static [&'static str] {
        if ctc::is_class(&self.class) {
            &ctc::FILES
        } else {
            &[]
        }
    }

    /// The same with what one of the [`needed_files`](Self::needed_files) says.
    pub fn with_file(mut self, name: &'static str, json: &[u8]) -> Result<HfConfig, ConvertError> {
        if json.len() > MAX_LEN {
            return Err(ConvertError::TooLong {
                len: json.len(),
                limit: MAX_LEN,
            });
        }
        let map = serde_json::from_slice(json).map_err(not_json)?;
        self.beside.insert(name, map);
        Ok(self)
    }

    /// What one of the [`needed_files`](Self::needed_files) says.
    pub(crate) fn beside(&self, name: &str) -> Option<&Map<String, Value>> {
        self.beside.get(name)
    }

    /// A number of `generation_config.json`.
    pub(crate) fn generation(&self, key: &str) -> Option<f64> {
        self.generation.get(key).and_then(Value::as_f64)
    }

    /// What is under a name of `generation_config.json`.
    pub(crate) fn generation_value(&self, key: &str) -> Option<&Value> {
        self.generation.get(key)
    }

    /// GGUF's number of the stated pooling.
    pub(crate) fn pooling(&self) -> Option<u32> {
        self.pooling
    }

    /// The family that the class in `architectures` belongs to.
    pub fn family(&self) -> Result<&'static Family, ConvertError> {
        // A decoder with a classifier in the place of its output.
        let named = |ending: &str| {
            let base = self.class.strip_suffix(CLASSIFIES)?;
            Some(alloc::format!("{base}{ending}"))
        };
        let others = [named("ForCausalLM"), named("LMHeadModel")];
        let others = others
            .iter()
            .flatten()
            .flat_map(|class| family::of_class(class));
        let class = self.inside.unwrap_or(&self.class);
        for family in family::of_class(class).chain(others) {
            let meant = match family.when {
                When::Always => true,
                When::NoExperts => self.u32(&["num_local_experts"])? == Some(0),
                When::ExpertLayers => {
                    let kinds = self.layer_kinds()?.unwrap_or_default();
                    kinds.contains(&LayerKind::Experts)
                }
            };
            if meant {
                return Ok(family);
            }
        }
        Err(ConvertError::Class {
            name: Name::new(&self.class),
        })
    }

    /// Whether it is a model with a classifier.
    pub(crate) fn classifies(&self) -> bool {
        self.class.ends_with(CLASSIFIES)
    }

    /// The names of a classifier's labels, by number.
    pub(crate) fn labels(&self) -> Vec<String> {
        let labels = self.text.get("id2label").and_then(Value::as_object);
        let numbered = (0..).map_while(|label: u32| {
            let label = labels?.get(&label.to_string())?;
            Some(label.as_str()?.into())
        });
        numbered.collect()
    }

    /// What is under the first of these names that is there and not null.
    pub(crate) fn get(&self, keys: &[&'static str]) -> Option<(&'static str, &Value)> {
        keys.iter().find_map(|&key| {
            let value = self.text.get(key).filter(|value| !value.is_null())?;
            Some((key, value))
        })
    }

    /// The number under one of these names.
    pub(crate) fn u32(&self, keys: &[&'static str]) -> Result<Option<u32>, ConvertError> {
        match self.get(keys) {
            None => Ok(None),
            Some((key, value)) => match value.as_u64().and_then(|n| u32::try_from(n).ok()) {
                Some(number) => Ok(Some(number)),
                None => Err(bad(key, value)),
            },
        }
    }

    /// The same; its absence is an error.
    pub(crate) fn required_u32(&self, keys: &[&'static str]) -> Result<u32, ConvertError> {
        let key = keys.first().copied().unwrap_or("");
        self.u32(keys)?.ok_or(ConvertError::Missing { key })
    }

    /// The finite number under one of these names.
    pub(crate) fn f32(&self, keys: &[&'static str]) -> Result<Option<f32>, ConvertError> {
        match self.get(keys) {
            None => Ok(None),
            Some((key, value)) => number(key, value).map(Some),
        }
    }

    /// The truth under one of these names.
    pub(crate) fn bool(&self, keys: &[&'static str]) -> Result<Option<bool>, ConvertError> {
        match self.get(keys) {
            None => Ok(None),
            Some((key, value)) => value.as_bool().map(Some).ok_or_else(|| bad(key, value)),
        }
    }

    /// The numbers of a list; none where there is no list.
    pub(crate) fn numbers(&self, key: &'static str) -> Result<Vec<f32>, ConvertError> {
        let Some((_, list)) = self.get(&[key]) else {
            return Ok(Vec::new());
        };
        let list = list
            .as_array()
            .filter(|list| list.len() <= MAX_LAYERS as usize);
        let list = list.ok_or_else(|| bad(key, &Value::Null))?;
        list.iter().map(|value| number(key, value)).collect()
    }

    /// A number that the first layer without a window has of its own.
    pub(crate) fn layer_number(
        &self,
        key: &'static str,
        sliding: &[bool],
    ) -> Result<Option<u32>, ConvertError> {
        let full = sliding.iter().position(|slides| !slides);
        let layers = self.get(&["per_layer_config"]);
        let layers = layers.and_then(|(_, layers)| layers.as_object());
        let layer = full.zip(layers);
        let own = layer.and_then(|(full, layers)| layers.get(&full.to_string())?.get(key));
        match own {
            None => Ok(None),
            Some(value) => match value.as_u64().and_then(|n| u32::try_from(n).ok()) {
                Some(number) => Ok(Some(number)),
                None => Err(bad(key, value)),
            },
        }
    }

    /// A number of the rotary positions of layers without windows.
    pub(crate) fn full_rope(&self, key: &'static str) -> Result<Option<f32>, ConvertError> {
        let rope = self.get(&["rope_parameters"]);
        let full = rope.and_then(|(_, rope)| rope.get("full_attention")?.get(key));
        full.map(|value| number(key, value)).transpose()
    }

    /// What each layer is, where layers differ.
    pub(crate) fn layer_kinds(&self) -> Result<Option<Vec<LayerKind>>, ConvertError> {
        let layers = self.layers()?;
        if let Some((key, value)) = self.get(&["hybrid_override_pattern"])
            && let Some(pattern) = value.as_str()
        {
            let kinds = pattern.bytes().map(|letter| match letter {
                b'M' => Some(LayerKind::Recurrent),
                b'*' => Some(LayerKind::Attention),
                b'-' => Some(LayerKind::Network),
                b'E' => Some(LayerKind::Experts),
                _ => None,
            });
            let kinds: Option<Vec<_>> = kinds.collect();
            let kinds = kinds.filter(|kinds| kinds.len() == layers);
            return kinds.map(Some).ok_or_else(|| bad(key, value));
        }
        if let Some(kinds) = self.layer_types()? {
            let kinds = kinds.into_iter().map(|kind| match kind {
                "conv" | "mamba" | "linear_attention" | "recurrent" => LayerKind::Recurrent,
                "mlp" => LayerKind::Network,
                "moe" => LayerKind::Experts,
                _ => LayerKind::Attention,
            });
            return Ok(Some(kinds.collect()));
        }
        // Numbers from 1 on (Kimi Linear), a number for each layer (MiniMax-01), a pattern that repeats (RecurrentGemma).
        if let Some((key, list)) = self.get(&["full_attn_layers", "attn_type_list", "block_types"])
        {
            let list = list.as_array().filter(|list| !list.is_empty());
            let list = list.ok_or_else(|| bad(key, &Value::Null))?;
            let attends = |layer: usize| match key {
                "full_attn_layers" => list.iter().any(|n| n.as_u64() == Some(layer as u64 + 1)),
                "attn_type_list" => list.get(layer).and_then(Value::as_u64) == Some(1),
                _ => list[layer % list.len()].as_str() == Some("attention"),
            };
            let kinds = (0..layers).map(|layer| match attends(layer) {
                true => LayerKind::Attention,
                false => LayerKind::Recurrent,
            });
            return Ok(Some(kinds.collect()));
        }
        let interval = self.u32(&["attn_layer_period", "full_attention_interval"])?;
        let Some(period) = interval.filter(|&period| period > 0) else {
            return Ok(None);
        };
        let offset = self.u32(&["attn_layer_offset"])?.unwrap_or(period - 1) as usize;
        let kinds = (0..layers).map(|layer| match layer % period as usize == offset {
            true => LayerKind::Attention,
            false => LayerKind::Recurrent,
        });
        Ok(Some(kinds.collect()))
    }

    /// Which layers are attention: as [`layer_kinds`](Self::layer_kinds) or `full_attn_idxs` say; all if neither does.
    pub(crate) fn attention_layers(&self) -> Result<Vec<bool>, ConvertError> {
        if let Some(kinds) = self.layer_kinds()? {
            let attends = |&kind: &LayerKind| kind == LayerKind::Attention;
            return Ok(kinds.iter().map(attends).collect());
        }
        let layers = self.layers()?;
        let Some((key, list)) = self.get(&["full_attn_idxs"]) else {
            return Ok(vec![true; layers]);
        };
        let mut attends = vec![false; layers];
        for index in list.as_array().ok_or_else(|| bad(key, list))? {
            let layer = index.as_u64().and_then(|i| attends.get_mut(i as usize));
            *layer.ok_or_else(|| bad(key, index))? = true;
        }
        Ok(attends)
    }

    /// Which layers slide: as `layer_types` says; all but every fourth if it says nothing.
    pub(crate) fn sliding_layers(&self) -> Result<Vec<bool>, ConvertError> {
        Ok(match self.layer_types()? {
            Some(kinds) => kinds.iter().map(|&k| k == "sliding_attention").collect(),
            None => (0..self.layers()?).map(|layer| layer % 4 != 3).collect(),
        })
    }

    /// What each layer is.
    fn layer_types(&self) -> Result<Option<Vec<&str>>, ConvertError> {
        let Some((key, value)) = self.get(&LAYER_TYPES) else {
            return Ok(None);
        };
        let layers = self.layers()?;
        let list = value.as_array().filter(|list| list.len() == layers);
        let kinds = list.and_then(|list| list.iter().map(Value::as_str).collect());
        kinds.map(Some).ok_or_else(|| bad(key, value))
    }

    /// How many layers there are.
    pub(crate) fn layers(&self) -> Result<usize, ConvertError> {
        let key = "num_hidden_layers";
        // Nemotron's configs only list what layers are.
        if let Some((_, list)) = self.get(&LAYER_TYPES)
            && self.get(&[key]).is_none()
            && let Some(list) = list.as_array()
        {
            return Ok(list.len().min(MAX_LAYERS as usize));
        }
        match self.required_u32(&[key, "n_layer", "n_layers", "num_layers"])? {
            layers @ 0..=MAX_LAYERS => Ok(layers as usize),
            layers => Err(bad(key, &layers.into())),
        }
    }

    /// Layers after the last, which predict tokens after the next and are left out.
    pub(crate) fn predicting_layers(&self) -> Result<usize, ConvertError> {
        let keys = [
            "num_nextn_predict_layers",
            "num_mtp_modules",
            "mtp_num_layers",
        ];
        Ok(self.u32(&keys)?.unwrap_or(0) as usize)
    }

    /// A head's size: stated, or the width shared out.
    pub(crate) fn head_size(&self) -> Result<u32, ConvertError> {
        if let Some(size) = self.u32(&["head_dim", "d_kv"])? {
            return Ok(size);
        }
        let width = self.required_u32(&["hidden_size", "n_embd", "d_model"])?;
        let heads = self.required_u32(&["num_attention_heads", "n_head", "n_heads"])?;
        width
            .checked_div(heads)
            .filter(|size| size * heads == width)
            .ok_or(ConvertError::Missing { key: "head_dim" })
    }
}

/// A finite number in f32's range.
pub(crate) fn number(key: &'static str, value: &Value) -> Result<f32, ConvertError> {
    let number = value.as_f64().map(|number| number as f32);
    number
        .filter(|number| number.is_finite())
        .ok_or_else(|| bad(key, value))
}

/// A complaint about a value, quoted in short.
pub(crate) fn bad(key: &'static str, value: &Value) -> ConvertError {
    ConvertError::Value {
        key,
        found: quoted(value),
    }
}

/// The beginning of a value's JSON.
pub(crate) fn quoted(value: &Value) -> alloc::boxed::Box<str> {
    let text = value.to_string();
    text[..text.floor_char_boundary(80)].into()
}
