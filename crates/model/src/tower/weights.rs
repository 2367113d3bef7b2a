//! A tower's weights, asked for by name and shape, and packed into memory.

use super::clamped::{Bounds, TowerLinear};
use super::config::TowerConfig;
use super::deepstack::Stacked;
use super::places::Places;
use super::resampler::Resampler;
use super::spec::{HeadNorm, Merge, PlaceTable, ProjectorStep, TowerSpec};
use crate::error::LoadError;
use crate::layer::{self, NormWeights};
use crate::matrix::{Linear, Matrix};
use crate::packed::PackedMatrices;
use crate::spec::{Activation, Norm, Presence};
use crate::tensors::{Source, Tensors};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use strata_platform::{Memory, Pool};
use strata_quant::GgmlType;
use strata_weights::GgufSet;

/// A vision transformer and its projector, ready to run.
pub struct Tower {
    pub(super) config: TowerConfig,
    pub(super) spec: &'static TowerSpec,
    pub(super) weights: TowerWeights,
    pub(super) packed: PackedMatrices,
}

/// Everything but the matrices' bytes.
pub(super) struct TowerWeights {
    /// From a patch's pixels to its vector. Where there are two, a still image is both of two frames.
    pub(super) patch: Vec<Matrix>,
    pub(super) patch_bias: Option<Vec<f32>>,
    pub(super) class: Option<Vec<f32>>,
    pub(super) places: Places,
    pub(super) pre_norm: Option<NormWeights>,
    pub(super) layers: Vec<TowerLayer>,
    /// What is made behind some of them, in their order.
    pub(super) stacked: Vec<Stacked>,
    pub(super) post_norm: Option<NormWeights>,
    pub(super) merge_norm: Option<NormWeights>,
    /// From a square of patches to one.
    pub(super) merger: Option<Matrix>,
    /// What is taken from means of patches, and what the rest is multiplied by.
    pub(super) standard: Option<(Vec<f32>, Vec<f32>)>,
    pub(super) steps: Vec<Step>,
    /// Instead of steps.
    pub(super) resampler: Option<Resampler>,
    /// Ends a row of tiles in LLaVA 1.6.
    pub(super) newline: Option<Vec<f32>>,
}

/// A layer.
pub(super) struct TowerLayer {
    pub(super) attn_norm: NormWeights,
    /// Queries, keys and values: three matrices, or one.
    pub(super) qkv: Vec<TowerLinear>,
    /// Of a head's queries and keys.
    pub(super) head_norms: Option<[Vec<f32>; 2]>,
    pub(super) output: TowerLinear,
    pub(super) attn_post_norm: Option<NormWeights>,
    pub(super) attn_scale: Option<Vec<f32>>,
    pub(super) ffn_norm: NormWeights,
    pub(super) gate: Option<TowerLinear>,
    pub(super) up: TowerLinear,
    pub(super) down: TowerLinear,
    pub(super) ffn_post_norm: Option<NormWeights>,
    pub(super) ffn_scale: Option<Vec<f32>>,
}

/// A step of the projector.
pub(super) enum Step {
    Norm(Norm, NormWeights, f32),
    Linear(TowerLinear),
    Activate(Activation),
}

/// Reads a tower's tensors.
struct Reader<'t, 'a, 'f> {
    tensors: &'t mut Tensors<'a, 'f>,
    config: &'t TowerConfig,
    spec: &'static TowerSpec,
    /// Matrices that are not as the file has them: they are numbered after the file's.
    turned: Vec<(Matrix, Vec<u8>)>,
}

impl Reader<'_, '_, '_> {
    fn norm(&mut self, presence: Presence, name: &str) -> Result<Option<NormWeights>, LoadError> {
        let present = self.tensors.has(&format!("{name}.weight"));
        match presence {
            Presence::Never => Ok(None),
            Presence::IfPresent if !present => Ok(None),
            _ => layer::norm(self.tensors, self.spec.norm, name, self.config.width).map(Some),
        }
    }

    fn linear(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
    ) -> Result<TowerLinear, LoadError> {
        let matrix = self
            .tensors
            .matrix(&format!("{name}.weight"), columns, rows)?;
        let bias = format!("{name}.bias");
        let bias = self
            .tensors
            .maybe_vector(Presence::IfPresent, &bias, &[rows as u64])?;
        Ok(TowerLinear {
            linear: Linear { matrix, bias },
            bounds: Bounds::read(self.tensors, name)?,
        })
    }

    fn patch(&mut self) -> Result<Vec<Matrix>, LoadError> {
        let side = self.config.patch_size as u64;
        let first = "v.patch_embd.weight";
        let width = self.config.width;
        let mut matrix = |name: &str| self.tensors.patch_matrix(name, &[side, side, 3], width);
        let mut matrices = vec![matrix(first)?];
        let second = "v.patch_embd.weight.1";
        if self.tensors.has(second) {
            let mut matrix = |name: &str| self.tensors.patch_matrix(name, &[side, side, 3], width);
            matrices.push(matrix(second)?);
        }
        Ok(matrices)
    }

    fn layer(&mut self, index: usize) -> Result<TowerLayer, LoadError> {
        let TowerConfig { width, ffn, .. } = *self.config;
        let name = |part: &str| format!("v.blk.{index}.{part}");
        let fused = name("attn_qkv");
        let qkv = if self.tensors.has(&format!("{fused}.weight")) {
            vec![self.linear(&fused, width, 3 * width)?]
        } else {
            let mut linear = |part| self.linear(&name(part), width, width);
            vec![linear("attn_q")?, linear("attn_k")?, linear("attn_v")?]
        };
        let norm = |reader: &mut Self, part| {
            let norm = reader.norm(Presence::Always, &name(part))?;
            Ok::<_, LoadError>(norm.expect("what is always there was read"))
        };
        let mut scale = |part: &str| {
            // The converters disagree about the suffix.
            let (plain, long) = (name(part), format!("{}.weight", name(part)));
            let name = if self.tensors.has(&plain) {
                plain
            } else {
                long
            };
            self.tensors
                .maybe_vector(Presence::IfPresent, &name, &[width as u64])
        };
        let (attn_scale, ffn_scale) = (scale("ls1")?, scale("ls2")?);
        let (attn_norm, ffn_norm) = (norm(self, "ln1")?, norm(self, "ln2")?);
        // Old converters called the first matrix the second, and the other way round.
        let (up, down) = match self.tensors.rows(&name("ffn_up.weight")) {
            Some(rows) if rows == width && ffn != width => ("ffn_down", "ffn_up"),
            _ => ("ffn_up", "ffn_down"),
        };
        let gate = name("ffn_gate");
        let branch_norm = self.spec.branch_norm;
        Ok(TowerLayer {
            attn_norm,
            qkv,
            head_norms: self.head_norms(&name)?,
            output: self.linear(&name("attn_out"), width, width)?,
            attn_post_norm: self.norm(branch_norm, &name("attn_post_norm"))?,
            attn_scale,
            ffn_norm,
            gate: if self.tensors.has(&format!("{gate}.weight")) {
                Some(self.linear(&gate, width, ffn)?)
            } else {
                None
            },
            up: self.linear(&name(up), width, ffn)?,
            down: self.linear(&name(down), ffn, width)?,
            ffn_post_norm: self.norm(branch_norm, &name("ffn_post_norm"))?,
            ffn_scale,
        })
    }

    /// The norms of a head's queries and keys.
    fn head_norms(
        &mut self,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Option<[Vec<f32>; 2]>, LoadError> {
        let size = &[self.config.head_size() as u64];
        let mut norm = |part| {
            let name = format!("{}.weight", name(part));
            self.tensors.vector(&name, size)
        };
        Ok(match self.spec.head_norm {
            HeadNorm::None => None,
            HeadNorm::All => Some([norm("attn_q_norm")?, norm("attn_k_norm")?]),
        })
    }

    /// What stands for a patch's place.
    fn places(&mut self, class: bool) -> Result<Places, LoadError> {
        let name = "v.position_embd.weight";
        let (width, config) = (self.config.width, self.config);
        let rows = self.tensors.rows(name).unwrap_or(0);
        let side = match self.spec.table {
            PlaceTable::None => 0,
            PlaceTable::Square => config.image_size / config.patch_size,
            PlaceTable::Stretched | PlaceTable::Nearest => rows.isqrt(),
            PlaceTable::Axes => rows,
        };
        let class = class.then_some(self.spec.class_place);
        let shape = match self.spec.table {
            PlaceTable::None => return Ok(Places::new(Vec::new(), 0, None, width)),
            PlaceTable::Axes => vec![width as u64, side as u64, 2],
            _ => {
                let places = side * side + usize::from(class.is_some());
                vec![width as u64, places as u64]
            }
        };
        let vectors = self.tensors.vector(name, &shape)?;
        Ok(Places::new(vectors, side, class, width))
    }

    /// What is made behind layers for the text model's first ones.
    fn stacked(&mut self) -> Result<Vec<Stacked>, LoadError> {
        let TowerConfig {
            width,
            merge,
            layers,
            ..
        } = *self.config;
        let square = merge * merge * width;
        let mut all = Vec::new();
        for layer in 0..layers {
            let name = |part: &str| format!("v.deepstack.{layer}.{part}");
            let second = name("fc2.weight");
            let Some(text_width) = self.tensors.rows(&second) else {
                continue;
            };
            all.push(Stacked {
                layer,
                norm: layer::norm(self.tensors, Norm::LayerBias, &name("norm"), square)?,
                first: self.linear(&name("fc1"), square, square)?,
                second: self.linear(&name("fc2"), square, text_width)?,
            });
        }
        Ok(all)
    }

    /// The queries that attend to patches.
    fn resampler(&mut self) -> Result<Resampler, LoadError> {
        let name = |part: &str| format!("resampler.{part}");
        let (query, projection) = (name("query"), name("proj.weight"));
        let missing = |name: &str| LoadError::MissingTensor { name: name.into() };
        let count = self.tensors.rows(&query);
        let count = count.ok_or_else(|| missing(&query))?;
        let (queries, width) = self.tensors.vectors(&query, count)?;
        let heads = self.config.query_heads.unwrap_or((width / 128).max(1));
        if !width.is_multiple_of(4 * heads) {
            return Err(LoadError::BadValue {
                key: "clip.vision.projector.head_count".into(),
                value: heads as f64,
                needs: "so many that heads have a multiple of four dimensions",
            });
        }
        let norm = |reader: &mut Self, part| {
            layer::norm(reader.tensors, Norm::LayerBias, &name(part), width)
        };
        let (query_norm, patch_norm) = (norm(self, "ln_q")?, norm(self, "ln_kv")?);
        let post_norm = norm(self, "ln_post")?;
        let patches = if self.tensors.has(&name("kv.weight")) {
            Some(self.linear(&name("kv"), self.config.width, width)?)
        } else {
            None
        };
        let mut linear = |part| self.linear(&name(part), width, width);
        let qkv = [linear("attn.q")?, linear("attn.k")?, linear("attn.v")?];
        let output = linear("attn.out")?;
        let rows = self.tensors.rows(&projection);
        let rows = rows.ok_or_else(|| missing(&projection))?;
        Ok(Resampler {
            queries,
            query_norm,
            patches,
            patch_norm,
            qkv,
            output,
            post_norm,
            projection: self.tensors.matrix(&projection, width, rows)?,
            heads,
        })
    }

    /// A step over vectors of `columns`; gives the width of its results too.
    fn step(&mut self, step: ProjectorStep, columns: usize) -> Result<(Step, usize), LoadError> {
        let rows = |reader: &Self, name: &str| {
            let missing = || LoadError::MissingTensor { name: name.into() };
            reader.tensors.rows(name).ok_or_else(missing)
        };
        Ok(match step {
            ProjectorStep::Rms(name) => {
                let norm = layer::norm(self.tensors, Norm::Rms, name, columns)?;
                (Step::Norm(Norm::Rms, norm, self.config.epsilon), columns)
            }
            ProjectorStep::PlainRms => {
                let norm = NormWeights {
                    weight: vec![1.0; columns],
                    bias: None,
                };
                (Step::Norm(Norm::Rms, norm, self.config.epsilon), columns)
            }
            ProjectorStep::Layer(name, epsilon) => {
                let norm = layer::norm(self.tensors, Norm::LayerBias, name, columns)?;
                (Step::Norm(Norm::LayerBias, norm, epsilon), columns)
            }
            ProjectorStep::Linear(name) => {
                let rows = rows(self, &format!("{name}.weight"))?;
                (Step::Linear(self.linear(name, columns, rows)?), rows)
            }
            ProjectorStep::Transposed(name) => {
                let name = format!("{name}.weight");
                let stored = rows(self, &name)?;
                if stored != columns {
                    return Err(LoadError::Shape {
                        name,
                        found: vec![stored as u64],
                        expected: vec![columns as u64],
                    });
                }
                let (values, rows) = self.tensors.vectors(&name, columns)?;
                let bytes = (0..rows)
                    .flat_map(|row| (0..columns).map(move |column| (row, column)))
                    .flat_map(|(row, column)| values[column * rows + row].to_le_bytes())
                    .collect();
                let matrix = Matrix {
                    ty: GgmlType::F32,
                    columns,
                    rows,
                    id: usize::MAX,
                };
                self.turned.push((matrix, bytes));
                let linear = TowerLinear {
                    linear: Linear { matrix, bias: None },
                    bounds: None,
                };
                (Step::Linear(linear), rows)
            }
            ProjectorStep::Activate(activation) => (Step::Activate(activation), columns),
        })
    }

    fn read(&mut self) -> Result<(TowerWeights, usize), LoadError> {
        let (spec, config) = (self.spec, self.config);
        let width = config.width as u64;
        let patch = self.patch()?;
        let patch_bias =
            self.tensors
                .maybe_vector(Presence::IfPresent, "v.patch_embd.bias", &[width])?;
        let class = self
            .tensors
            .maybe_vector(spec.class, "v.class_embd", &[width])?;
        let places = self.places(class.is_some())?;
        let pre_norm = self.norm(spec.pre_norm, "v.pre_ln")?;
        let layers = (0..config.layers)
            .map(|index| self.layer(index))
            .collect::<Result<_, _>>()?;
        let stacked = self.stacked()?;
        let post_norm = self.norm(spec.post_norm, "v.post_ln")?;
        let standard = match spec.merge {
            Merge::RootMean(_) if self.tensors.has("v.std_bias") => Some((
                self.tensors.vector("v.std_bias", &[width])?,
                self.tensors.vector("v.std_scale", &[width])?,
            )),
            _ => None,
        };
        let merge_norm = match spec.merge_norm {
            Some(name) => self.norm(Presence::IfPresent, name)?,
            None => None,
        };
        let square = config.merge * config.merge * config.width;
        let (merger, mut columns) = match spec.merge {
            Merge::Each | Merge::Mean(_) | Merge::RootMean(_) | Merge::Queries => {
                (None, config.width)
            }
            Merge::Shuffle(_) | Merge::Blocks => (None, square),
            Merge::Unfold if config.merge == 1 => (None, config.width),
            Merge::Unfold => {
                let name = "mm.patch_merger.weight";
                let merger = self.tensors.matrix(name, square, config.width)?;
                (Some(merger), config.width)
            }
        };
        let mut steps = Vec::new();
        for &step in spec.projector {
            let (step, width) = self.step(step, columns)?;
            steps.push(step);
            columns = width;
        }
        let resampler = match spec.merge {
            Merge::Queries => Some(self.resampler()?),
            _ => None,
        };
        if let Some(resampler) = &resampler {
            columns = resampler.projection.rows;
        }
        let newline = ["model.image_newline", "v.image_newline"];
        let newline = newline.into_iter().find(|name| self.tensors.has(name));
        let newline = match newline {
            Some(name) => Some(self.tensors.vector(name, &[columns as u64])?),
            None => None,
        };
        Ok((
            TowerWeights {
                patch,
                patch_bias,
                class,
                places,
                pre_norm,
                layers,
                stacked,
                post_norm,
                merge_norm,
                merger,
                standard,
                steps,
                resampler,
                newline,
            },
            columns,
        ))
    }
}

impl Tower {
    /// Checks a file against its family and packs its matrices into memory; the file is not needed any more.
    pub fn load(
        file: &GgufSet<'_>,
        memory: &dyn Memory,
        pool: &dyn Pool,
    ) -> Result<Self, LoadError> {
        let (mut config, spec) = TowerConfig::new(file.metadata())?;
        let mut tensors = Tensors::new(file, spec.name, "");
        let mut reader = Reader {
            tensors: &mut tensors,
            config: &config,
            spec,
            turned: Vec::new(),
        };
        let (mut weights, text_width) = reader.read()?;
        let turned = reader.turned;
        config.text_width = text_width;
        config.deepstack = weights.stacked.len();
        config.queries = weights
            .resampler
            .as_ref()
            .map(|resampler| resampler.queries.len() / resampler.projection.columns);
        let uneven = |stacked: &Stacked| stacked.second.linear.matrix.rows != text_width;
        if let Some(stacked) = weights.stacked.iter().find(|stacked| uneven(stacked)) {
            return Err(LoadError::Shape {
                name: format!("v.deepstack.{}.fc2.weight", stacked.layer),
                found: vec![stacked.second.linear.matrix.rows as u64],
                expected: vec![text_width as u64],
            });
        }
        skip_unused(&mut tensors, &config);
        tensors.finish()?;
        let mut sources = tensors.sources;
        let mut turned = turned.iter();
        for step in &mut weights.steps {
            if let Step::Linear(linear) = step
                && let matrix = &mut linear.linear.matrix
                && matrix.id == usize::MAX
                && let Some((_, bytes)) = turned.next()
            {
                matrix.id = sources.len();
                let matrix = *matrix;
                sources.push(Source { matrix, bytes });
            }
        }
        let packed = PackedMatrices::new(&sources, memory, pool)?;
        Ok(Self {
            config,
            spec,
            weights,
            packed,
        })
    }

    /// Its sizes and scales.
    pub fn config(&self) -> &TowerConfig {
        &self.config
    }

    /// Bytes of its matrices.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }

    /// What stands at the end of a row of tiles, in families that have it: one embedding.
    pub fn newline(&self) -> Option<&[f32]> {
        self.weights.newline.as_deref()
    }
}

/// Tensors that converters write and nobody needs: layers and norms after those that are used, and rows of the text
/// model's own table.
fn skip_unused(tensors: &mut Tensors<'_, '_>, config: &TowerConfig) {
    for name in [
        "v.post_ln.weight",
        "v.post_ln.bias",
        "v.token_embd.img_break",
        // A table of what is computed here.
        "resampler.pos_embed",
        "resampler.pos_embed_k",
    ] {
        tensors.skip(name);
    }
    tensors.skip_prefixed("v.blk.", config.layers);
    // What hears in files that have both.
    tensors.skip_family(&["a.", "mm.a."]);
}
