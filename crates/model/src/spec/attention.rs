//! Where attention's keys, values and gates come from, and what becomes of queries.

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
    /// The same, with a number for each head.
    Heads,
    /// The same, with a number for each head, of which softplus takes the place of the sigmoid.
    SoftplusHeads,
    /// The same as `Own`, with softplus.
    Softplus,
    /// Rows of `attn_q`: those of each head come after its queries.
    WithQueries,
}

impl AttnGate {
    /// Whether it has a number for each head, not for each value.
    pub fn by_head(self) -> bool {
        matches!(self, Self::Heads | Self::SoftplusHeads)
    }

    /// Whether it has a matrix.
    pub fn has_matrix(self) -> bool {
        !matches!(self, Self::Never | Self::WithQueries)
    }
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

/// What queries are multiplied by at positions past those of training: 1 + scale · ln(1 + ⌊(position + offset) / length⌋).
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Temperature {
    /// Nothing.
    Never,
    /// As `attention.temperature_scale` says, with the original context as the length.
    Metadata,
    /// So in layers that are not rotated.
    NopeLayers(TemperatureScale),
}

/// The numbers of a [`Temperature`].
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct TemperatureScale {
    /// What the logarithm is multiplied by.
    pub scale: f32,
    /// Positions between two steps.
    pub length: f32,
    /// Added to the position.
    pub offset: f32,
}

impl TemperatureScale {
    /// The factor at a position.
    pub fn at(&self, position: f32) -> f32 {
        let steps = libm::floorf((position + self.offset) / self.length);
        1.0 + self.scale * libm::log1pf(steps)
    }
}
