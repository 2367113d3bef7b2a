//! Exercise 7.2: a checksum after a small change (RFC 1624).

/// The checksum of a header in which one 16-bit word was changed, from the checksum before. The header itself is not
/// needed.
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    // Your code here.
    checksum.wrapping_add(new).wrapping_sub(old)
}
