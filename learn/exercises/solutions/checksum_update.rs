//! Exercise 7.2: a checksum after a small change (RFC 1624).

/// The checksum of a header in which one 16-bit word was changed, from the checksum before. The header itself is not
/// needed.
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    // The complement of the checksum is the sum; take off the old word by adding its complement.
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
