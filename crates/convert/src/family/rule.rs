//! A tensor's names in a checkpoint and in GGUF, and how its rows and elements get from one to the other.

/// Whose heads a tensor's rows belong to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Heads {
    /// Queries'.
    Query,
    /// Keys' and values'.
    KeyValue,
}

/// Which of an item's rows, or columns, become a tensor's; another rule has the others.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// All.
    All,
    /// The first half.
    FirstHalf,
    /// The second half.
    SecondHalf,
    /// Those with even numbers.
    Even,
    /// Those with odd numbers.
    Odd,
}

/// How rows get from a checkpoint's tensor into GGUF's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they are.
    Same,
    /// From half-split rotary order to neighbouring pairs, head by head.
    Pairs(Heads),
    /// Rows and columns exchanged.
    Transposed,
    /// From (heads, q k v, size) to (q k v, heads, size).
    HeadsOfQkv,
    /// From groups of queries, a key and a value to all queries, all keys, all values.
    GroupsOfQkv,
    /// Tensors that differ in one number, one after the other.
    Stacked,
    /// A matrix of one row as a vector.
    Flat,
    /// Without dimensions of one.
    Squeezed,
    /// A vector as a matrix of one column.
    Column,
    /// A vector as a matrix with a row for each group of states.
    Groups,
    /// Some rows of each item.
    Rows(Share),
    /// Some columns of each row.
    Columns(Share),
    /// Items of (in, out) as (out, in), and some of the rows.
    Turned(Share),
    /// Items of (out, in) where `in` is the model's width, else of (in, out); and some of the rows.
    FromWidth(Share),
    /// Items of (out, in) where `out` is the model's width, else of (in, out).
    ToWidth,
    /// Rows of all experts, one after the other.
    Experts,
    /// The same, with each expert's rows and columns exchanged.
    ExpertsTurned,
    /// Keys from keys and values of all heads, with each head's rows and columns exchanged.
    LatentKeys,
    /// The values among them.
    LatentValues,
    /// From groups of a query, a key, values and gates to all queries, all keys, all values.
    StateQkv,
    /// The gates among them.
    StateGates,
    /// Value heads of one group from neighbours to as far apart as there are groups.
    Striding,
    /// The same behind all queries and keys.
    StridingBehindKeys,
    /// The same with columns.
    StridingColumns,
    /// Positions, whose first rows in some families stand for padding.
    Positions,
    /// Rows from this one on.
    PositionsFrom(usize),
    /// Some rows of 4-bit floats in blocks of 32, whose scales another rule has.
    Blocks(Share),
    /// Their scales.
    Scales,
    /// Another tensor once more, which is left out.
    Copy,
    /// A number that goes into an array of the metadata, with an element for each layer.
    Metadata,
}

/// Which part of a tensor's name a rule has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// All but `.weight` or `.bias`.
    Stem,
    /// All.
    Whole,
}

/// What is done to the elements.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// One is added to weights: the family's norms do so when they run, and GGUF stores the sum.
    PlusOne,
    /// x becomes −eˣ.
    Decay,
    /// x becomes 1 − x.
    OneMinus,
    /// They are multiplied by numbers of the config: keys, and places in lists.
    Times(&'static [(&'static str, Option<usize>)]),
    /// Rows are multiplied by the multipliers of what they make: gates, x, B, C and steps of a state space.
    StateMultipliers,
}

/// A tensor's two names. `#` stands for the layer and `@` for the number in a stack; `.weight` and `.bias` follow.
#[derive(Copy, Clone, Debug)]
pub struct Rule {
    /// In the checkpoint, without the model's prefix.
    pub from: &'static str,
    /// In GGUF.
    pub to: &'static str,
    /// Which part of the names these are.
    pub naming: Naming,
    /// How rows are moved.
    pub order: Order,
    /// What is done to the elements.
    pub change: Change,
}

pub(super) const fn same(from: &'static str, to: &'static str) -> Rule {
    ordered(from, to, Order::Same)
}

pub(super) const fn ordered(from: &'static str, to: &'static str, order: Order) -> Rule {
    Rule {
        from,
        to,
        naming: Naming::Stem,
        order,
        change: Change::Nothing,
    }
}

/// Names that are whole.
pub(super) const fn whole(from: &'static str, to: &'static str, order: Order) -> Rule {
    Rule {
        naming: Naming::Whole,
        ..ordered(from, to, order)
    }
}

pub(super) const fn exact(from: &'static str, to: &'static str) -> Rule {
    whole(from, to, Order::Squeezed)
}

/// Logarithms of decays.
pub(super) const fn decay(from: &'static str, to: &'static str, order: Order) -> Rule {
    Rule {
        change: Change::Decay,
        ..whole(from, to, order)
    }
}

pub(super) const fn shifted(from: &'static str, to: &'static str) -> Rule {
    Rule {
        change: Change::PlusOne,
        ..same(from, to)
    }
}
