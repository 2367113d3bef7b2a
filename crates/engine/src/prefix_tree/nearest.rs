//! The child of a node that a sequence has most in common with.

use super::{Children, NodeId};
use core::ops::Bound;

/// The child that has most tokens in common with some, if any, and how many.
pub(super) fn nearest(children: &Children, tokens: &[u32]) -> Option<(NodeId, usize)> {
    let from = (Bound::Included(tokens), Bound::Unbounded);
    let to = (Bound::Unbounded, Bound::Excluded(tokens));
    let after = children.range::<[u32], _>(from).next();
    let before = children.range::<[u32], _>(to).next_back();
    let common = |known: &[u32]| known.iter().zip(tokens).take_while(|(a, b)| a == b).count();
    let after = after.map(|(known, &node)| (node, common(known)));
    let before = before.map(|(known, &node)| (node, common(known)));
    let best = match (after, before) {
        (Some(a), Some(b)) if b.1 > a.1 => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    };
    best.filter(|&(_, len)| len > 0)
}
