//! Exercise 7.1: the four indices in an address.

/// The entries of an address in the tables of levels 4, 3, 2 and 1.
pub fn indices(address: u64) -> [usize; 4] {
    [39, 30, 21, 12].map(|shift| (address >> shift & 511) as usize)
}
