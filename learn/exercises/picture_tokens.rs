//! Exercise 5.5: what a picture costs.

/// Tokens of a picture of so many pixels. It is made larger until both sides are whole multiples of `patch * merge`; then
/// it is cut into patches of `patch` by `patch` pixels, of which `merge` by `merge` become one token.
pub fn picture_tokens(width: usize, height: usize, patch: usize, merge: usize) -> usize {
    // Your code here.
    width * height / (patch + merge)
}
