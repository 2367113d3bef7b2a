//! The residual stream between two branches: one's result is added to it and the other's input taken from it, normed
//! and encoded, in one pass over the tokens.

use crate::decoder::Pass;
use crate::layer::{Formats, NormWeights};
use crate::workspace::Workspace;
use strata_platform::Chunks;

/// What happens between two branches.
#[derive(Default)]
pub(crate) struct AddNorm<'a> {
    /// The branch that ends here, if one does.
    pub(crate) branch: Option<BranchOutput<'a>>,
    /// The branch that begins here, unless the last norm comes next.
    pub(crate) next: Option<BranchInput<'a>>,
    /// How the two are ordered.
    pub(crate) order: BranchOrder,
    /// Whether the sum is halved.
    pub(crate) halve: bool,
}

impl<'a> AddNorm<'a> {
    /// From one branch to the next.
    pub(crate) fn between(
        branch: BranchOutput<'a>,
        next: BranchInput<'a>,
        order: BranchOrder,
    ) -> Self {
        Self {
            branch: Some(branch),
            next: Some(next),
            order,
            halve: false,
        }
    }
}

/// What is done to a branch's result before it is added to the residual stream.
pub(crate) struct BranchOutput<'a> {
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) post_norm: Option<&'a NormWeights>,
}

/// What is done to the residual stream before a branch reads it.
pub(crate) struct BranchInput<'a> {
    pub(crate) pre_norm: Option<&'a NormWeights>,
    pub(crate) formats: Formats,
}

/// Which state of the residual stream a branch reads.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum BranchOrder {
    /// With the result of the branch before it.
    #[default]
    Sequential,
    /// The one that the branch before it read.
    Parallel,
}

impl Pass<'_> {
    /// Adds `branch` to `x`, norms that into `normed`, and encodes it.
    pub(crate) fn add_norm(&self, between: &AddNorm<'_>, work: &mut Workspace) {
        let width = self.config.width;
        let floats = self.tokens * width;
        let x = Chunks::new(&mut work.x[..floats], width);
        let branch = Chunks::new(&mut work.branch[..floats], width);
        let add = |x: &mut [f32], branch: &mut [f32]| {
            if let Some(output) = &between.branch {
                self.add_branch(output, x, branch);
                if between.halve {
                    self.compute.kernels.scale(x, 0.5);
                }
            }
        };
        let Some(input) = &between.next else {
            self.compute
                .each_piece(floats, (x, branch), |_, (x, branch)| add(x, branch));
            return;
        };
        let mut formats = input.formats.iter();
        let format = formats.next().expect("a branch has a matrix");
        let rows = work.acts.rows_mut(format, width, self.tokens);
        let pieces = (
            x,
            branch,
            Chunks::new(&mut work.normed[..floats], width),
            Chunks::new(rows, format.row_bytes(width)),
        );
        self.compute
            .each_piece(floats, pieces, |_, (x, branch, normed, encoded)| {
                match between.order {
                    BranchOrder::Sequential => {
                        add(x, branch);
                        self.pre_norm(input, x, normed);
                        if let Some(scale) = self.config.normed_residual {
                            x.copy_from_slice(normed);
                            self.compute.kernels.scale(x, scale);
                        }
                    }
                    BranchOrder::Parallel => {
                        self.pre_norm(input, x, normed);
                        add(x, branch);
                    }
                }
                self.compute.kernels.quantize_act(format, normed, encoded);
            });
        // Matrices over one input rarely differ so much in type.
        for format in formats {
            let rows = work.acts.rows_mut(format, width, self.tokens);
            let normed = &work.normed[..floats];
            self.compute.encode(format, normed, width, width, rows);
        }
    }

    /// Adds one token's result of a branch to its residual stream.
    fn add_branch(&self, output: &BranchOutput<'_>, x: &mut [f32], branch: &mut [f32]) {
        let kernels = self.compute.kernels;
        if let Some(bias) = output.bias {
            kernels.add(branch, bias);
        }
        if let Some(norm) = output.post_norm {
            let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
            self.compute.norm_in_place(kind, norm, epsilon, branch);
        }
        match self.config.residual_scale {
            1.0 => kernels.add(x, branch),
            scale => kernels.add_scaled(x, branch, scale),
        }
    }

    fn pre_norm(&self, input: &BranchInput<'_>, x: &[f32], normed: &mut [f32]) {
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        match input.pre_norm {
            Some(norm) => self.compute.norm_row(kind, norm, epsilon, x, normed),
            None => normed.copy_from_slice(x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::Compute;
    use crate::model::Model;
    use crate::spec::{ArchSpec, Norm};
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;
    use strata_kernels::Kernels;
    use strata_platform::{Inline, SystemMemory};
    use strata_weights::{Gguf, GgufSet};

    /// What `add_branch` makes of a row in a model whose norms are of this kind.
    fn added(norm: Norm, weights: &NormWeights, row: &[f32]) -> Vec<f32> {
        let file = include_bytes!("../tests/golden/llama.gguf");
        let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
        let options = crate::LoadOptions::default();
        let mut model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap();
        let spec = ArchSpec {
            norm,
            ..ArchSpec::LLAMA
        };
        model.parts.config.spec = Box::leak(Box::new(spec));
        let pass = Pass {
            model: &model,
            config: &model.parts.config,
            compute: &Compute {
                kernels: Kernels::detect(),
                pool: &Inline,
            },
            batch: &[],
            observer: None,
            tokens: 1,
        };
        let output = BranchOutput {
            bias: None,
            post_norm: Some(weights),
        };
        let mut x = vec![0.0; row.len()];
        pass.add_branch(&output, &mut x, &mut row.to_vec());
        x
    }

    #[test]
    fn a_branch_is_normed_as_the_spec_says() {
        let weights = NormWeights {
            weight: vec![1.0, 2.0, 3.0, 4.0],
            bias: Some(vec![0.5, 0.25, 0.125, 8.0]),
        };
        let row = [1.0, 5.0, -2.0, 12.0];
        let kernels = Kernels::detect();
        let (weight, bias) = (Some(&weights.weight[..]), weights.bias.as_deref());
        let mut expected = [0.0; 4];

        let epsilon = 3e-3; // the file's
        kernels.rms_norm(&row, weight, epsilon, &mut expected);
        assert_eq!(added(Norm::Rms, &weights, &row), expected);
        kernels.layer_norm(&row, weight, bias, epsilon, &mut expected);
        assert_eq!(added(Norm::LayerBias, &weights, &row), expected);
    }
}
