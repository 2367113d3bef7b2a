//! Layers after the last, which predict tokens after the next (`nextn`, multi-token prediction).

/// What a family's layers after the last are. Models run without them; they draft.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nextn {
    /// They are left out: nothing here computes them.
    Skipped,
    /// One layer that reads states after the last norm, the model's and then its own.
    Normed,
}
