//! Norms and matrices of a layer, by the names that files have for them.

use super::{NormWeights, Projections};
use crate::error::LoadError;
use crate::matrix::Linear;
use crate::spec::{Norm, Presence};
use crate::tensors::{Tensors, block_name};

/// A norm by its full name without `.weight` and `.bias`.
pub(crate) fn norm(
    tensors: &mut Tensors<'_, '_>,
    kind: Norm,
    name: &str,
    width: usize,
) -> Result<NormWeights, LoadError> {
    let shape = &[width as u64];
    let bias = match kind {
        Norm::LayerBias => Presence::Always,
        Norm::LayerBiasIfPresent => Presence::IfPresent,
        Norm::Rms | Norm::Layer | Norm::LayerPlain => Presence::Never,
    };
    Ok(NormWeights {
        weight: if kind == Norm::LayerPlain {
            alloc::vec![1.0; width]
        } else if tensors.has(name) {
            // PLaMo's norms after branches have no suffix.
            tensors.vector(name, shape)?
        } else {
            tensors.vector(&alloc::format!("{name}.weight"), shape)?
        },
        bias: tensors.maybe_vector(bias, &alloc::format!("{name}.bias"), shape)?,
    })
}

/// A layer's norm, if the family or the file has it.
pub(crate) fn block_norm(
    tensors: &mut Tensors<'_, '_>,
    kind: Norm,
    presence: Presence,
    layer: usize,
    name: &str,
    width: usize,
) -> Result<Option<NormWeights>, LoadError> {
    match presence {
        Presence::Never => Ok(None),
        Presence::IfPresent if !tensors.has(&block_name(layer, name, "weight")) => Ok(None),
        _ => norm(tensors, kind, &alloc::format!("blk.{layer}.{name}"), width).map(Some),
    }
}

/// A layer's matrix.
pub(crate) fn block_linear(
    tensors: &mut Tensors<'_, '_>,
    layer: usize,
    name: &str,
    columns: usize,
    rows: usize,
    bias: Presence,
) -> Result<Linear, LoadError> {
    Ok(Linear {
        matrix: tensors.matrix(&block_name(layer, name, "weight"), columns, rows)?,
        bias: tensors.maybe_vector(bias, &block_name(layer, name, "bias"), &[rows as u64])?,
    })
}

/// A layer's matrix without a bias, alone over its input.
pub(crate) fn projection(
    tensors: &mut Tensors<'_, '_>,
    layer: usize,
    name: &str,
    (columns, rows): (usize, usize),
) -> Result<Projections, LoadError> {
    let linear = block_linear(tensors, layer, name, columns, rows, Presence::Never)?;
    Ok(Projections(alloc::vec![linear]))
}
