//! The seams of the residual stream: a branch's result goes in, and what the next branch sees comes out, in one pass
//! over the tokens.

use crate::decoder::Pass;
use crate::layer::{Formats, NormWeights};
use crate::workspace::Workspace;
use strata_platform::Chunks;

/// What happens between two branches.
#[derive(Default)]
pub(crate) struct Seam<'a> {
    /// How a branch ends, if one does.
    pub(crate) branch: Option<BranchEnd<'a>>,
    /// What comes next, unless it is the last norm.
    pub(crate) next: Option<Input<'a>>,
    /// What the next branch sees.
    pub(crate) sees: Sees,
}

/// How a branch ends before it is added to the stream.
pub(crate) struct BranchEnd<'a> {
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) norm: Option<&'a NormWeights>,
}

/// What a branch begins with.
pub(crate) struct Input<'a> {
    pub(crate) norm: Option<&'a NormWeights>,
    pub(crate) formats: Formats,
}

/// Which state of the stream a branch sees.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sees {
    /// The one with the branch before it.
    #[default]
    Sum,
    /// The one that the branch before it saw.
    Same,
}

impl Pass<'_> {
    /// Adds `branch` to `x`, norms that into `normed`, and encodes it.
    pub(crate) fn seam(&self, seam: &Seam<'_>, work: &mut Workspace) {
        let width = self.config.width;
        let floats = self.tokens * width;
        let x = Chunks::new(&mut work.x[..floats], width);
        let branch = Chunks::new(&mut work.branch[..floats], width);
        let Some(input) = &seam.next else {
            self.compute
                .each_piece(floats, (x, branch), |_, (x, branch)| {
                    self.end_branch(seam, x, branch);
                });
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
                match seam.sees {
                    Sees::Sum => {
                        self.end_branch(seam, x, branch);
                        self.begin_branch(input, x, normed);
                    }
                    Sees::Same => {
                        self.begin_branch(input, x, normed);
                        self.end_branch(seam, x, branch);
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

    fn end_branch(&self, seam: &Seam<'_>, x: &mut [f32], branch: &mut [f32]) {
        let kernels = self.compute.kernels;
        let Some(end) = &seam.branch else { return };
        if let Some(bias) = end.bias {
            kernels.add(branch, bias);
        }
        if let Some(norm) = end.norm {
            kernels.rms_norm_in_place(branch, Some(&norm.weight), self.config.epsilon);
        }
        match self.config.residual_scale {
            1.0 => kernels.add(x, branch),
            scale => kernels.add_scaled(x, branch, scale),
        }
    }

    fn begin_branch(&self, input: &Input<'_>, x: &[f32], normed: &mut [f32]) {
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        match input.norm {
            Some(norm) => self.compute.norm_row(kind, norm, epsilon, x, normed),
            None => normed.copy_from_slice(x),
        }
    }
}
