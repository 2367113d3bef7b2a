//! Families of audio towers as data.

/// How positions of the encoder become positions of the text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum AudioMerge {
    /// So many in a row are averaged before the last norm; what is left over at the end goes no further.
    Mean(usize),
    /// So many in a row lie one behind the other in a longer vector, filled up with zeros at the end.
    /// `clip.audio.projector.stack_factor` is their number.
    Stack,
}

/// What of a window that is not full of sound is heeded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Heed {
    /// The sound alone: positions see no silence behind it, which gets no positions either.
    Sound,
    /// All of it.
    Window,
}

/// A step from merged positions to embeddings.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum AudioStep {
    /// A norm by the root mean square, with this epsilon.
    Rms(&'static str, f32),
    /// A matrix, and its bias if it has one.
    Linear(&'static str),
    /// GELU with the error function.
    Gelu,
    /// The first half of a vector times SiLU of the second.
    SwiGlu,
}

/// A family of audio towers.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct AudioTowerSpec {
    /// The projector's type.
    pub name: &'static str,
    /// How positions are merged.
    pub merge: AudioMerge,
    /// What of a window is heeded.
    pub heed: Heed,
    /// From merged positions to embeddings.
    pub projector: &'static [AudioStep],
}

impl AudioTowerSpec {
    /// The family of a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        super::families::ALL.iter().find(|spec| spec.name == name)
    }

    /// The names of all families.
    pub fn names() -> impl Iterator<Item = &'static str> {
        super::families::ALL.iter().map(|spec| spec.name)
    }
}
