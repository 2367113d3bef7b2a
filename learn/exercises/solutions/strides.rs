//! Exercise 1.2: where an element of a tensor lies.

/// The place in memory of an element, counted in elements. `dims` has the neighbours in memory first, as GGUF does;
/// `at` is the element's index in each direction, in the same order.
pub fn place(dims: &[usize], at: &[usize]) -> usize {
    let (mut place, mut step) = (0, 1);
    for (dim, at) in dims.iter().zip(at) {
        place += at * step;
        step *= dim;
    }
    place
}
