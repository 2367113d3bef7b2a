//! How families vary rotary positions, and what images see of each other.

/// The RoPE of layers with a window.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum WindowRope {
    /// That of the other layers.
    Same,
    /// The same with a base of its own, where the file has `rope.freq_base_swa`.
    Based,
    /// Without scaling.
    Unscaled {
        /// The base where the file has no `rope.freq_base_swa`; if none, that of the other layers.
        base: Option<f32>,
    },
}

/// How YaRN bounds the pairs between those that are stretched and those that are not.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum YarnRange {
    /// Rounded outwards to whole pairs.
    Rounded,
    /// As the formula has it.
    Exact,
}

/// What a pair of dimensions turns by where images have positions of their own: time, row or column.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RopeAxes {
    /// Positions have one axis.
    One,
    /// The first pairs turn by time, those after them by the row, the last by the column
    /// (`rope.dimension_sections`).
    Sections,
    /// The same numbers of pairs, but the axes take turns: time, row, column, and time again where the row's or the column's
    /// pairs are used up.
    Interleaved,
}

/// The layers in which positions of an image see those that come later, if the image's tower says that they may.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ImageLayers {
    /// All.
    All,
    /// Those with windows.
    Windowed,
}
