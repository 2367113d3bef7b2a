//! DeepStack (<https://arxiv.org/abs/2406.04334>): behind each of the first layers, something more of an image is added to
//! the residual stream at its positions (Qwen3-VL).

use crate::decoder::Pass;
use crate::embedded::run_at;
use crate::layer::Layer;
use crate::residual::AddNorm;
use crate::workspace::Workspace;

impl Pass<'_> {
    /// Whether the batch has positions of an image.
    pub(crate) fn sees(&self) -> bool {
        self.batch.iter().any(|span| !span.embedded.is_empty())
    }

    /// Adds what images have for the end of a layer, and prepares the next one's input.
    pub(crate) fn add_seen(
        &self,
        index: usize,
        layer: &Layer,
        next: Option<&Layer>,
        work: &mut Workspace,
    ) {
        let width = self.config.width;
        let places = self.batch.iter().flat_map(|span| {
            let positions = (0..span.tokens.len()).map(|i| span.sequence.len + i);
            positions.map(|position| (position, run_at(span.embedded, position)))
        });
        for ((position, run), x) in places.zip(work.x.chunks_exact_mut(width)) {
            if let Some(run) = run {
                let row = &run.row(position)[(1 + index) * width..][..width];
                self.compute.kernels.add(x, row);
            }
        }
        if !layer.has_end() {
            let begin = AddNorm {
                next: next.map(Layer::input),
                ..AddNorm::default()
            };
            self.add_norm(&begin, work);
        }
    }
}
