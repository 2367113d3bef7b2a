//! What a checkpoint becomes: metadata, and tensors with what each is made of.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use strata_quant::GgmlType;
use strata_tokenizer::vocabulary::Vocabulary;
use strata_weights::gguf::{Builder, Layout, Name};
use strata_weights::{CheckpointTensor, Dtype, Gguf};

use crate::config::HfConfig;
use crate::ctc;
use crate::error::ConvertError;
use crate::family::{Family, Order, Reading};
use crate::importance::Importance;
use crate::metadata;
use crate::mix::{Mix, ModelFacts};
use crate::names::{self, Known};
use crate::nextn;
use crate::recipe::Recipe;
use crate::row_order::RowOrder;
use crate::speech;
use crate::tensor_plan::{self, Edit, Make, View};
use crate::write;

/// What a file is made for.
#[derive(Copy, Clone, Debug, Default)]
pub struct Options<'o> {
    /// The matrices' types; the checkpoint's own where none is given.
    pub mix: Option<Mix>,
    /// `general.name`.
    pub name: Option<&'o str>,
}

/// A tensor of the file to be.
#[derive(Clone, Debug)]
pub struct PlannedTensor {
    /// Its name in GGUF.
    pub name: String,
    /// Its type.
    pub ty: GgmlType,
    /// Its dimensions, innermost first.
    pub dims: Vec<u64>,
    pub(crate) make: Make,
}

/// A checkpoint's tensors and the file that they become.
#[derive(Debug)]
pub struct Plan<'t, 'a> {
    pub(crate) checkpoint: &'t [CheckpointTensor<'a>],
    pub(crate) importance: Option<&'t Importance>,
    tensors: Vec<PlannedTensor>,
    layout: Layout,
    metadata: Vec<u8>,
    mix: Mix,
}

/// A tensor that is being put together.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) rule: &'static crate::family::Rule,
    /// Number in the stack and number in the checkpoint.
    pub(crate) sources: Vec<(usize, usize)>,
}

/// Arrays of the metadata whose elements are tensors, a layer each.
type Arrays = BTreeMap<String, Vec<(usize, usize)>>;

impl<'t, 'a> Plan<'t, 'a> {
    /// Looks at a checkpoint: its config, all its tensors, and its vocabulary if it has one.
    pub fn new(
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
        vocabulary: Option<&Vocabulary>,
        options: &Options<'_>,
    ) -> Result<Self, ConvertError> {
        let mix = options.mix.unwrap_or_else(|| own_mix(checkpoint));
        let recipe = Recipe::from(mix);
        Self::with_recipe(config, checkpoint, vocabulary, &recipe, options.name)
    }

    /// The same, with types that are chosen tensor by tensor.
    pub fn with_recipe(
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
        vocabulary: Option<&Vocabulary>,
        recipe: &Recipe<'t>,
        name: Option<&str>,
    ) -> Result<Self, ConvertError> {
        if config.class() == speech::CLASS {
            return Self::speech(config, checkpoint, vocabulary, recipe, name);
        }
        if ctc::is_class(config.class()) {
            return Self::ctc(config, checkpoint, recipe, name);
        }
        let family = config.family()?;
        metadata::check(config, family)?;
        let heads = metadata::heads(config, family)?;
        let mut builder = Builder::new();
        builder.set("general.architecture", family.arch)?;
        builder.set("general.type", "model")?;
        if let Some(name) = name {
            builder.set("general.name", name)?;
        }
        recipe.describe(&mut builder)?;
        let nextn = match family.reading {
            Reading::Forward => {
                let names = checkpoint.iter().map(|tensor| &*tensor.name);
                nextn::kept(family, config.layers()?, names)
            }
            Reading::Whole { .. } | Reading::Source => 0,
        };
        let extra = metadata::write(&mut builder, config, family, nextn)?;
        let (parts, arrays) = collect(config, checkpoint, nextn)?;
        for (key, sources) in arrays {
            let numbers = sources
                .into_iter()
                .map(|(_, source)| tensor_plan::number(checkpoint, source));
            builder.set_array(&key, numbers.collect::<Result<Vec<f32>, _>>()?)?;
        }
        let has_output = parts.iter().any(|part| part.name == "output.weight");
        metadata::output_scale(&mut builder, config, family, has_output)?;
        if let Some(vocabulary) = vocabulary {
            vocabulary.write(&mut builder)?;
        }
        let metadata = builder.finish()?.header;

        let weighed = recipe.importance.is_some();
        let facts = ModelFacts::new(Gguf::parse(&metadata)?.metadata(), has_output, weighed);
        let mut tensors = Vec::with_capacity(parts.len());
        for part in &parts {
            // What no mix touches is f32 here, as llama.cpp's converter has it.
            tensors.push(tensor_plan::plan(
                part,
                checkpoint,
                (config, heads),
                |part| {
                    let (name, dims, source) = part;
                    match recipe.mix {
                        // 4-bit floats stay what they are, as llama.cpp's converter has it.
                        Mix::F32 | Mix::F16 | Mix::Bf16 if source == Some(Dtype::U8) => {
                            GgmlType::MXFP4
                        }
                        _ => recipe.choose(&facts, name, dims).unwrap_or(GgmlType::F32),
                    }
                },
            )?);
        }
        let names = tensors.iter().map(|tensor| &*tensor.name);
        recipe.check(names.zip(tensors.iter().map(|tensor| &*tensor.dims)))?;
        for (name, values) in extra.tensors {
            tensors.push(PlannedTensor {
                name: name.into(),
                ty: GgmlType::F32,
                dims: vec![values.len() as u64],
                make: Make::Values(values),
            });
        }
        for tensor in &tensors {
            builder.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
        }
        Ok(Plan {
            checkpoint,
            importance: recipe.importance,
            tensors,
            layout: builder.finish()?,
            metadata,
            mix: recipe.mix,
        })
    }

    /// A file of these tensors.
    pub(crate) fn of_parts(
        checkpoint: &'t [CheckpointTensor<'a>],
        tensors: Vec<PlannedTensor>,
        layout: Layout,
        metadata: Vec<u8>,
        mix: Mix,
    ) -> Self {
        Self {
            checkpoint,
            importance: None,
            tensors,
            layout,
            metadata,
            mix,
        }
    }

    /// The importance of the columns of one of a tensor's sources.
    pub(crate) fn importance(
        &self,
        tensor: &PlannedTensor,
        item: usize,
    ) -> Result<Option<&[f32]>, ConvertError> {
        let columns = tensor.dims.first().copied().unwrap_or(0);
        let experts = tensor.dims.get(2).copied().unwrap_or(1);
        let found = write::importance(self.importance, &tensor.name, columns, experts)?;
        // A stack is made of one source for each expert.
        let stacked = matches!(&tensor.make, Make::Rows { sources, .. } if sources.len() > 1);
        Ok(match found {
            Some(all) if stacked && all.len() as u64 != columns => {
                all.chunks_exact(columns as usize).nth(item)
            }
            found => found,
        })
    }

    /// The file without its tensors' data.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A file of the metadata alone.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata
    }

    /// The tensors in the file's order.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// The mix of types.
    pub fn mix(&self) -> Mix {
        self.mix
    }

    /// The type that a tensor has in the checkpoint; `None` for one that is made up.
    pub fn source_type(&self, tensor: &PlannedTensor) -> Option<Dtype> {
        match &tensor.make {
            Make::Rows { sources, .. } => Some(self.checkpoint.get(*sources.first()?)?.dtype),
            Make::Blocks { sources, .. } => Some(self.checkpoint.get(sources[0])?.dtype),
            Make::Values(_) => None,
        }
    }

    /// The checkpoint's bytes that a tensor is made of, where they are side by side.
    pub fn sources(&self, tensor: &PlannedTensor) -> impl Iterator<Item = &'a [u8]> {
        let sources = match &tensor.make {
            Make::Rows { sources, .. } => sources.as_slice(),
            Make::Blocks { sources, .. } => sources,
            Make::Values(_) => &[],
        };
        let source = |&index: &usize| self.checkpoint.get(index)?.plain();
        sources
            .iter()
            .filter_map(source)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The checkpoint's own bytes of a tensor that is to be just that.
    pub fn unchanged(&self, tensor: &PlannedTensor) -> Option<&'a [u8]> {
        match &tensor.make {
            Make::Rows {
                sources,
                view: View::AS_IS,
                order: RowOrder::Same,
                columns: RowOrder::Same,
                edit: Edit::Nothing,
            } if sources.len() == 1 => {
                let source = self.checkpoint.get(*sources.first()?)?;
                if let Some((ty, bytes)) = source.blocks() {
                    return (ty == tensor.ty).then_some(bytes);
                }
                let same = source.dtype.ggml() == Some(tensor.ty);
                source.plain().filter(|_| same)
            }
            _ => None,
        }
    }
}

/// The type that most of a checkpoint's bytes are in.
pub(crate) fn own_mix(checkpoint: &[CheckpointTensor<'_>]) -> Mix {
    let count = |tensor: &CheckpointTensor<'_>| {
        let dims = tensor.shape.iter();
        dims.fold(1u128, |product, &dim| product.saturating_mul(dim.into()))
    };
    let quantized = checkpoint.iter().filter_map(|tensor| {
        let (ty, _) = tensor.blocks()?;
        Some((count(tensor), ty))
    });
    // Blocks are all of one type, but for rows that are too short for them.
    if let Some((_, ty)) = quantized.max_by_key(|(count, _)| *count)
        && let Some(mix) = Mix::ALL.iter().find(|mix| mix.base() == ty)
    {
        return *mix;
    }
    let elements = |dtype: Dtype| -> u128 {
        let same = checkpoint.iter().filter(|tensor| tensor.dtype == dtype);
        same.map(count).fold(0, u128::saturating_add)
    };
    let kinds = [
        (Dtype::BF16, Mix::Bf16),
        (Dtype::F16, Mix::F16),
        (Dtype::F32, Mix::F32),
        (Dtype::F64, Mix::F32),
        (Dtype::F8E4M3, Mix::F16),
        (Dtype::F8E5M2, Mix::F16),
    ];
    let most = kinds.iter().max_by_key(|(dtype, _)| elements(*dtype));
    most.map_or(Mix::F32, |(_, mix)| *mix)
}

/// The checkpoint's tensors by what they become, in the order of their first appearance.
fn collect(
    config: &HfConfig,
    checkpoint: &[CheckpointTensor<'_>],
    nextn: usize,
) -> Result<(Vec<Parts>, Arrays), ConvertError> {
    let family = config.family()?;
    let mut arrays = Arrays::new();
    let mut parts: Vec<Parts> = Vec::new();
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    let layers = config.layers()?;
    let predicting = layers..layers.saturating_add(config.predicting_layers()?);
    for (source, tensor) in checkpoint.iter().enumerate() {
        let name = match nextn {
            0 => Cow::Borrowed(&*tensor.name),
            _ => nextn::numbered(&tensor.name, layers),
        };
        let left_out = |layer| nextn == 0 && predicting.contains(&(layer as usize));
        if names::layer(&name).is_some_and(left_out) {
            continue;
        }
        let all = match names::find(family, &name) {
            Some(Known::Tensors(all)) => all,
            Some(Known::Ignored) => continue,
            None => {
                return Err(ConvertError::UnknownTensor {
                    tensor: Name::new(&tensor.name),
                    arch: family.arch,
                });
            }
        };
        for found in all {
            let item = match found.rule.order {
                Order::Scales => 1,
                _ => found.item.unwrap_or(0),
            };
            if found.rule.order == Order::Metadata {
                let array = arrays.entry(found.name).or_default();
                array.push((found.layer, source));
                continue;
            }
            match by_name.get(&found.name).and_then(|&at| parts.get_mut(at)) {
                None => {
                    by_name.insert(found.name.clone(), parts.len());
                    parts.push(Parts {
                        name: found.name,
                        rule: found.rule,
                        sources: vec![(item, source)],
                    });
                }
                Some(part)
                    if matches!(
                        found.rule.order,
                        Order::Stacked | Order::Blocks(_) | Order::Scales
                    ) =>
                {
                    part.sources.push((item, source));
                    if let Order::Blocks(_) = found.rule.order {
                        part.rule = found.rule;
                    }
                }
                Some(_) => return Err(ConvertError::DuplicateTensor { tensor: found.name }),
            }
        }
    }
    if parts.is_empty() {
        return Err(ConvertError::NoTensors);
    }
    for part in &mut parts {
        part.sources.sort_unstable();
        for (expected, &(item, _)) in part.sources.iter().enumerate() {
            if item != expected {
                let tensor = part.name.clone();
                return Err(if item < expected {
                    ConvertError::DuplicateTensor { tensor }
                } else {
                    ConvertError::MissingItem {
                        tensor,
                        item: expected,
                    }
                });
            }
        }
    }
    if is_tied(config, family, &parts, checkpoint)? {
        parts.retain(|part| part.name != "output.weight");
    }
    arrays.values_mut().for_each(|array| array.sort_unstable());
    Ok((parts, arrays))
}

/// Whether the output matrix is the embedding once more.
fn is_tied(
    config: &HfConfig,
    family: &Family,
    parts: &[Parts],
    checkpoint: &[CheckpointTensor<'_>],
) -> Result<bool, ConvertError> {
    let plain = |name: &str| {
        let part = parts.iter().find(|part| part.name == name)?;
        checkpoint.get(part.sources.first()?.1)?.plain()
    };
    let shared = match (plain("token_embd.weight"), plain("output.weight")) {
        (Some(a), Some(b)) => core::ptr::eq(a, b),
        _ => false,
    };
    // What T5's configs say of it is how logits are scaled.
    if family.reading == Reading::Source {
        return Ok(shared);
    }
    Ok(shared
        || config
            .bool(&["tie_word_embeddings", "tie_embedding"])?
            .unwrap_or(false))
}
