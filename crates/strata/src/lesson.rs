//! Lessons: what happens inside a model for a prompt, told by the engine that answers requests.
//!
//! A prompt is computed by itself between two steps, in the engine's turn, with someone who looks on ([`Observer`]). It
//! changes no answer, and nothing is computed for lessons while there are none.

use crate::error::{Error, ErrorKind};
use crate::model::Model;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use strata_engine::{Engine, InspectError, StepReport, StepWatcher};
use strata_model::{AttentionShares, GgmlType, Observer, ROW_FORMATS, RowFormat};

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// The prompt.
    pub prompt: Vec<u32>,
    /// The layer and the query head whose attention is wanted.
    pub head: Option<(usize, usize)>,
    /// The tensor and the row whose quantization is wanted.
    pub row: Option<(String, usize)>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The logits after the last token.
    pub logits: Vec<f32>,
    /// What each token attends to, in order; nothing if the layer has no attention.
    pub attention: Vec<SeenShares>,
    /// The row.
    pub row: Option<SeenRow>,
    /// The query heads of each layer; 0 where there is no attention.
    pub heads: Vec<usize>,
    /// The tensors that rows can be chosen from.
    pub tensors: Vec<SeenTensor>,
}

/// What a token attends to.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenShares {
    /// The first position that it sees.
    pub first: usize,
    /// The share of that position and of those after it.
    pub shares: Vec<f32>,
}

/// A tensor of weights.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenTensor {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: usize,
    /// Values in a row.
    pub columns: usize,
    /// The type that it is stored in.
    pub ty: GgmlType,
}

/// A row of weights, the activations that it was multiplied with, and what other formats make of it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenRow {
    /// The type that it is stored in.
    pub ty: GgmlType,
    /// Its values, as the file has them.
    pub values: Vec<f32>,
    /// What it was multiplied with for the prompt's last token. Nothing if that does not happen: embeddings are looked up.
    pub input: Vec<f32>,
    /// The row in each format that fits it.
    pub formats: Vec<RowFormat>,
}

/// Remembers what a look asks for.
struct Notes {
    head: Option<(usize, usize)>,
    matrix: Option<usize>,
    attention: Mutex<Vec<SeenShares>>,
    input: Mutex<Vec<f32>>,
}

impl Observer for Notes {
    fn input(&self, matrix: usize, row: &[f32]) {
        if self.matrix == Some(matrix) {
            let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
            input.clear();
            input.extend_from_slice(row);
        }
    }

    fn watched_head(&self, layer: usize) -> Option<usize> {
        let (wanted, head) = self.head?;
        (wanted == layer).then_some(head)
    }

    fn attention(&self, shares: &AttentionShares<'_>) {
        let seen = SeenShares {
            first: shares.first,
            shares: shares.shares.to_vec(),
        };
        let mut all = self
            .attention
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.push(seen);
    }
}

impl Model {
    /// Computes a prompt by itself and tells what happened inside, to `done`, after the current step. Where the engine is
    /// gone, `done` is dropped.
    pub fn look_then(&self, look: Look, done: impl FnOnce(Result<Seen, Error>) + Send + 'static) {
        self.worker()
            .act_in_turn(move |engine| seen(engine, look), done);
    }

    /// Computes a prompt by itself and tells what happened inside.
    pub fn look(&self, look: Look) -> Result<Seen, Error> {
        let (sender, result) = std::sync::mpsc::channel();
        self.look_then(look, move |seen| {
            let _ = sender.send(seen);
        });
        result.recv().unwrap_or_else(|_| Err(Error::closed()))
    }

    /// Shows someone each step of the engine, from those of requests that are submitted after this on.
    pub fn watch(&self, watcher: StepWatcher) {
        self.worker().act(move |engine| engine.watch(watcher), drop);
    }
}

fn seen(engine: &mut Engine, look: Look) -> Result<Seen, Error> {
    let wrong = |problem: std::fmt::Arguments<'_>| Error::new(ErrorKind::InvalidArgument, problem);
    let layers = engine.executor().config().layers.iter();
    let heads = layers.map(|layer| layer.mixer.attention().map_or(0, |config| config.heads));
    let heads: Vec<usize> = heads.collect();
    if let Some((layer, head)) = look.head {
        let Some(&count) = heads.get(layer) else {
            let layers = heads.len();
            return Err(wrong(format_args!(
                "there is no layer {layer}: the model has {layers}"
            )));
        };
        if count > 0 && head >= count {
            return Err(wrong(format_args!(
                "there is no head {head}: the layer has {count}"
            )));
        }
    }
    let mut tensors = Vec::new();
    let mut row = None;
    if let Some(model) = engine.executor().inside() {
        for tensor in model.matrix_tensors() {
            tensors.push(SeenTensor {
                name: tensor.name.into(),
                rows: tensor.rows,
                columns: tensor.columns,
                ty: tensor.ty,
            });
            if let Some((name, index)) = &look.row
                && name == tensor.name
            {
                let (count, first) = (tensor.rows, tensor.first);
                let values = model.row_values(first, *index).ok_or_else(|| {
                    wrong(format_args!("{name} has no row {index}: it has {count}"))
                })?;
                row = Some((first, values));
            }
        }
    }
    if let (Some((name, _)), None) = (&look.row, &row) {
        return Err(wrong(format_args!("there is no tensor {name:?}")));
    }
    let notes = Notes {
        head: look.head,
        matrix: row.as_ref().map(|&(matrix, _)| matrix),
        attention: Mutex::default(),
        input: Mutex::default(),
    };
    let logits = engine.inspect(&look.prompt, &notes)?;
    let input = notes.input.into_inner();
    let attention = notes.attention.into_inner();
    Ok(Seen {
        logits,
        attention: attention.unwrap_or_else(PoisonError::into_inner),
        row: row.map(|(_, (ty, values))| SeenRow {
            ty,
            input: input.unwrap_or_else(PoisonError::into_inner),
            formats: ROW_FORMATS
                .iter()
                .filter_map(|&ty| RowFormat::of(&values, ty))
                .collect(),
            values,
        }),
        heads,
        tensors,
    })
}

impl From<InspectError> for Error {
    fn from(error: InspectError) -> Self {
        let kind = match error {
            InspectError::Encoder => ErrorKind::Unsupported,
            InspectError::TooLong { .. } => ErrorKind::ContextExceeded,
            InspectError::NoRoom => ErrorKind::Overloaded,
            InspectError::Empty => ErrorKind::InvalidArgument,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error)
    }
}

/// Steps that were seen, up to a number of them, while someone holds this.
pub struct SeenSteps {
    steps: Arc<Mutex<Vec<StepReport>>>,
}

impl Model {
    /// Remembers the engine's next steps, `most` of them, until what is returned is dropped.
    pub fn watch_steps(&self, most: usize) -> SeenSteps {
        let steps = Arc::<Mutex<Vec<_>>>::default();
        let kept = Arc::downgrade(&steps);
        self.watch(Box::new(move |report| {
            let Some(steps) = kept.upgrade() else {
                return ControlFlow::Break(());
            };
            let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
            steps.push(report.clone());
            if steps.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        }));
        SeenSteps { steps }
    }
}

impl SeenSteps {
    /// The steps so far, in order.
    pub fn steps(&self) -> Vec<StepReport> {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.clone()
    }
}
