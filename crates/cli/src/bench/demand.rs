//! What a token asks of the machine: bytes of weights to read, products to compute.

use strata_weights::GgufSet;

/// What computing a token takes, apart from its attention.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Demand {
    /// Bytes of weights that a token by itself reads.
    pub(super) bytes: f64,
    /// Operations of a prompt's token, of which no logits are wanted; a multiplication and an addition are two.
    pub(super) operations: f64,
}

impl Demand {
    pub(super) fn new(file: &GgufSet<'_>) -> Self {
        let metadata = file.metadata();
        let arch = metadata.str("general.architecture").ok().flatten();
        let number = |key: &str| {
            let key = format!("{}.{key}", arch?);
            metadata.u32(&key).ok().flatten().map(f64::from)
        };
        // Of a mixture of experts a token uses some.
        let used = match (number("expert_used_count"), number("expert_count")) {
            (Some(used), Some(count)) if count > 0.0 => used / count,
            _ => 1.0,
        };
        let mut demand = Self {
            bytes: 0.0,
            operations: 0.0,
        };
        // One row of the embedding is read, unless the table is the output's matrix as well.
        let untied = file.tensor("output.weight").is_some();
        // A state is read, too: four bytes for each of its numbers.
        let state = match (number("ssm.inner_size"), number("ssm.state_size")) {
            (Some(inner), Some(state)) => 4.0 * inner * state,
            _ => 0.0,
        };
        for tensor in file.tensors() {
            if tensor.name.ends_with(".ssm_a") {
                demand.bytes += state;
            }
            let share = match tensor.name {
                name if name.contains("_exps") => used,
                "token_embd.weight" if untied => 0.0,
                _ => 1.0,
            };
            demand.bytes += share * tensor.data.len() as f64;
            if tensor.name.starts_with("blk.") && tensor.dims.len() > 1 {
                let elements = tensor.dims.elements().unwrap_or(0);
                demand.operations += 2.0 * share * elements as f64;
            }
        }
        demand
    }
}
