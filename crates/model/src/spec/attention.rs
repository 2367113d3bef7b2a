//! Where attention's keys, values and gates come from.

/// What keys and values are made from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A layer's input.
    Input,
    /// A short vector that is.
    Latent,
}

/// A gate whose sigmoid multiplies what goes into attention's last matrix.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AttnGate {
    /// None.
    Never,
    /// A matrix of its own, `attn_gate`.
    Own,
    /// Rows of `attn_q`: those of each head come after its queries.
    WithQueries,
}

/// The norm of values.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ValueNorm {
    /// None.
    Never,
    /// Every head by itself, without a weight. Layers without a matrix for values make them from their keys, before those
    /// are normed.
    Plain,
}
