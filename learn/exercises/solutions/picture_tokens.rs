//! Exercise 5.5: what a picture costs.

/// Tokens of a picture of so many pixels. It is made larger until both sides are whole multiples of `patch * merge`; then
/// it is cut into patches of `patch` by `patch` pixels, of which `merge` by `merge` become one token.
pub fn picture_tokens(width: usize, height: usize, patch: usize, merge: usize) -> usize {
    let side = patch * merge;
    width.div_ceil(side) * height.div_ceil(side)
}
