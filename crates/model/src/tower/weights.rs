//! A tower's weights, asked for by name and shape, and packed into memory.

use super::config::TowerConfig;
use super::spec::{Merge, ProjectorStep, TowerPosition, TowerSpec};
use crate::error::LoadError;
use crate::layer::{self, NormWeights};
use crate::matrix::{Linear, Matrix};
use crate::packed::PackedMatrices;
use crate::spec::{Activation, Norm, Presence};
use crate::tensors::{Source, Tensors};
use alloc::format;
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
    /// (positions, width); empty where heads are rotated.
    pub(super) position: Vec<f32>,
    pub(super) pre_norm: Option<NormWeights>,
    pub(super) layers: Vec<TowerLayer>,
    pub(super) post_norm: Option<NormWeights>,
    pub(super) merge_norm: Option<NormWeights>,
    /// From a square of patches to one.
    pub(super) merger: Option<Matrix>,
    pub(super) steps: Vec<Step>,
    /// Ends a row of tiles in LLaVA 1.6.
    pub(super) newline: Option<Vec<f32>>,
}

/// A layer.
pub(super) struct TowerLayer {
    pub(super) attn_norm: NormWeights,
    /// Queries, keys and values: three matrices, or one.
    pub(super) qkv: Vec<Linear>,
    pub(super) output: Linear,
    pub(super) attn_scale: Option<Vec<f32>>,
    pub(super) ffn_norm: NormWeights,
    pub(super) gate: Option<Linear>,
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) ffn_scale: Option<Vec<f32>>,
}

/// A step of the projector.
pub(super) enum Step {
    Norm(Norm, NormWeights, f32),
    Linear(Linear),
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

    fn linear(&mut self, name: &str, columns: usize, rows: usize) -> Result<Linear, LoadError> {
        let matrix = self
            .tensors
            .matrix(&format!("{name}.weight"), columns, rows)?;
        let bias = format!("{name}.bias");
        let bias = self
            .tensors
            .maybe_vector(Presence::IfPresent, &bias, &[rows as u64])?;
        Ok(Linear { matrix, bias })
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
        Ok(TowerLayer {
            attn_norm,
            qkv,
            output: self.linear(&name("attn_out"), width, width)?,
            attn_scale,
            ffn_norm,
            gate: if self.tensors.has(&format!("{gate}.weight")) {
                Some(self.linear(&gate, width, ffn)?)
            } else {
                None
            },
            up: self.linear(&name(up), width, ffn)?,
            down: self.linear(&name(down), ffn, width)?,
            ffn_scale,
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
                (Step::Linear(Linear { matrix, bias: None }), rows)
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
        let side = (config.image_size / config.patch_size) as u64;
        let position = match spec.position {
            TowerPosition::Learned => {
                let positions = side * side + u64::from(class.is_some());
                self.tensors
                    .vector("v.position_embd.weight", &[width, positions])?
            }
            TowerPosition::RopeHalves | TowerPosition::RopeAlternating => Vec::new(),
        };
        let pre_norm = self.norm(spec.pre_norm, "v.pre_ln")?;
        let layers = (0..config.layers)
            .map(|index| self.layer(index))
            .collect::<Result<_, _>>()?;
        let post_norm = self.norm(spec.post_norm, "v.post_ln")?;
        let merge_norm = match spec.merge_norm {
            Some(name) => self.norm(Presence::IfPresent, name)?,
            None => None,
        };
        let square = config.merge * config.merge * config.width;
        let (merger, mut columns) = match spec.merge {
            Merge::Each | Merge::Mean(_) => (None, config.width),
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
                position,
                pre_norm,
                layers,
                post_norm,
                merge_norm,
                merger,
                steps,
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
        skip_unused(&mut tensors, &config);
        tensors.finish()?;
        let mut sources = tensors.sources;
        let mut turned = turned.iter();
        for step in &mut weights.steps {
            if let Step::Linear(Linear { matrix, .. }) = step
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
    ] {
        tensors.skip(name);
    }
    tensors.skip_prefixed("v.blk.", config.layers);
}
