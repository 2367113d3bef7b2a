//! Exercise 7.1: the four indices in an address.

/// The entries of an address in the tables of levels 4, 3, 2 and 1.
pub fn indices(address: u64) -> [usize; 4] {
    // Your code here.
    [address as usize; 4]
}
