//! Classifiers: scores of a sequence's first state, or its last in decoders.

use super::weights::RankHead;
use crate::blueprint::Body;
use crate::compute::Compute;
use crate::decoder::Pass;
use crate::error::BatchError;
use crate::matrix::{Linear, Matrix};
use crate::model::Model;
use crate::workspace::{Acts, Workspace};
use strata_kernels::{Activation, act_format};

impl Model {
    /// Computes the scores of some states of a decoder, (states, width), by its classifier: (states, labels).
    pub fn classify<'w>(
        &self,
        compute: &Compute<'_>,
        work: &'w mut Workspace,
        states: &[f32],
    ) -> Result<&'w [f32], BatchError> {
        let Body::Decoder(decoder) = &self.parts.body else {
            return Err(BatchError::Encoder);
        };
        let Some(head) = &decoder.rank else {
            return Err(BatchError::NoRankHead);
        };
        let config = &self.parts.config;
        let count = states.len() / config.width;
        if count > work.limits.tokens {
            return Err(BatchError::TooManyTokens {
                tokens: count,
                room: work.limits.tokens,
            });
        }
        work.normed[..count * config.width].copy_from_slice(&states[..count * config.width]);
        let pass = Pass {
            model: self,
            config,
            compute,
            batch: &[],
            observer: None,
            tokens: count,
        };
        let scores = head.scores(&pass, count, work);
        self.check_file()?;
        Ok(scores)
    }
}

impl RankHead {
    /// The scores of so many states, which are in `normed`.
    pub(super) fn scores<'w>(
        &self,
        pass: &Pass<'_>,
        count: usize,
        work: &'w mut Workspace,
    ) -> &'w [f32] {
        let width = pass.config.width;
        let mut input = &work.normed[..count * width];
        let scores = &mut work.encoder.scores[..count * self.labels()];
        if let Some(dense) = &self.dense {
            let out = match self.output {
                Some(_) => &mut work.branch[..count * width],
                None => &mut *scores,
            };
            pass.linear(dense, input, &mut work.acts, out);
            pass.compute.kernels.activate(Activation::Tanh, out);
            input = &work.branch[..count * width];
        }
        if let Some(output) = &self.output {
            pass.linear(output, input, &mut work.acts, scores);
        }
        scores
    }
}

impl Pass<'_> {
    /// A matrix and its bias, over rows of `input`.
    pub(crate) fn linear(&self, linear: &Linear, input: &[f32], acts: &mut Acts, out: &mut [f32]) {
        let Matrix { ty, columns, .. } = linear.matrix;
        let format = act_format(ty);
        let encoded = acts.rows_mut(format, columns, input.len() / columns);
        self.compute
            .encode(format, input, columns, columns, encoded);
        self.multiply_one(&linear.matrix, acts, out);
        if let Some(bias) = &linear.bias {
            self.compute.each_row(out, bias.len(), |_, row| {
                self.compute.kernels.add(row, bias);
            });
        }
    }
}
