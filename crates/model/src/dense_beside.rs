//! A dense network beside experts, each with norms of its own (Gemma 4). Both see the residual stream, and so does the
//! router; what they find is normed, added, and normed once more.

use crate::config::{Config, ExpertConfig};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{DenseFfn, NormWeights, norm};
use crate::matrix::Linear;
use crate::spec::DenseBeside;
use crate::tensors::Tensors;
use crate::workspace::Workspace;
use alloc::format;
use alloc::vec::Vec;
use strata_kernels::act_format;

/// The weights beside those of experts.
#[derive(Clone, Debug)]
pub(crate) struct DenseBesideExperts {
    pub(crate) dense: DenseFfn,
    /// Of what the dense network finds.
    dense_norm: NormWeights,
    /// Of what the router sees.
    router_norm: NormWeights,
    /// Of what experts see.
    input_norm: NormWeights,
    /// Of what experts find.
    expert_norm: NormWeights,
    /// What each expert's weight is multiplied by.
    pub(crate) scales: Vec<f32>,
}

impl DenseBesideExperts {
    /// A layer's, if the family has such.
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        experts: &ExpertConfig,
        layer: usize,
    ) -> Result<Option<Self>, LoadError> {
        if experts.routing.dense != DenseBeside::Normed {
            return Ok(None);
        }
        let width = config.width;
        let dense = DenseFfn::load(tensors, config, layer, config.layers[layer].ffn)?;
        let scale = format!("blk.{layer}.ffn_gate_inp.scale");
        let mut weight = tensors.vector(&scale, &[width as u64])?;
        let shrink = 1.0 / libm::sqrtf(width as f32);
        weight.iter_mut().for_each(|weight| *weight *= shrink);
        let scales = format!("blk.{layer}.ffn_down_exps.scale");
        let scales = tensors.vector(&scales, &[experts.count as u64])?;
        let mut norm = |name: &str| {
            let name = format!("blk.{layer}.{name}");
            norm(tensors, config.spec.norm, &name, width)
        };
        Ok(Some(Self {
            dense,
            dense_norm: norm("post_ffw_norm_1")?,
            router_norm: NormWeights { weight, bias: None },
            input_norm: norm("pre_ffw_norm_2")?,
            expert_norm: norm("post_ffw_norm_2")?,
            scales,
        }))
    }
}

impl Pass<'_> {
    /// The dense network, normed, from `normed` into `second`; then what the router sees, into `normed`, encoded.
    pub(crate) fn before_routing(
        &self,
        weights: &DenseBesideExperts,
        router: &Linear,
        work: &mut Workspace,
    ) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let (normed, second) = (&work.normed[..floats], &mut work.second[..floats]);
        self.dense(
            &weights.dense,
            normed,
            &mut work.acts,
            &mut work.ffn,
            second,
        );
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        self.compute.each_row(second, width, |_, row| {
            self.compute
                .norm_in_place(kind, &weights.dense_norm, epsilon, row);
        });
        self.norm_x(&weights.router_norm, work);
        let format = act_format(router.matrix.ty);
        let rows = work.acts.rows_mut(format, width, self.tokens);
        let normed = &work.normed[..floats];
        self.compute.encode(format, normed, width, width, rows);
    }

    /// What experts see, into `normed`.
    pub(crate) fn after_routing(&self, weights: &DenseBesideExperts, work: &mut Workspace) {
        self.norm_x(&weights.input_norm, work);
    }

    /// Adds what the dense network found to what experts did, normed.
    pub(crate) fn after_experts(&self, weights: &DenseBesideExperts, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        let (branch, second) = (&mut work.branch[..floats], &work.second[..floats]);
        self.compute.each_row(branch, width, |token, row| {
            self.compute
                .norm_in_place(kind, &weights.expert_norm, epsilon, row);
            let dense = &second[token * width..][..width];
            self.compute.kernels.add(row, dense);
        });
    }

    fn norm_x(&self, weights: &NormWeights, work: &mut Workspace) {
        let floats = self.tokens * self.config.width;
        let (x, normed) = (&work.x[..floats], &mut work.normed[..floats]);
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        self.compute.norm(kind, weights, epsilon, x, normed);
    }
}
