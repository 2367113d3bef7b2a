//! The integer instructions of vector units, as functions of one lane.

// ANCHOR: instructions
/// Multiplies four unsigned bytes by four signed ones and adds all products to a sum: `vpdpbusd` of AVX-VNNI and
/// AVX-512, four products in one instruction for each lane.
pub fn dot_accumulate(sum: i32, a: [u8; 4], b: [i8; 4]) -> i32 {
    let products = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(b));
    sum + products.sum::<i32>()
}

/// Multiplies likewise, and adds the products in pairs to 16 bits: `vpmaddubsw` of AVX2. What does not fit is clipped.
pub fn multiply_pairs(a: [u8; 4], b: [i8; 4]) -> [i16; 2] {
    let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
    [0, 2].map(|i| (product(i) + product(i + 1)).clamp(-32768, 32767) as i16)
}

/// Adds a pair of 16-bit numbers to 32 bits: `vpmaddwd` with ones.
pub fn add_pair(sum: i32, pair: [i16; 2]) -> i32 {
    sum + i32::from(pair[0]) + i32::from(pair[1])
}
// ANCHOR_END: instructions

// ANCHOR: dot_narrow
/// 32 products of quants from 0 to 15 with signed bytes, by the AVX2 way: many pairs are added in 16 bits, and only
/// their sum is widened.
pub fn dot_narrow(a: &[u8; 32], b: &[i8; 32]) -> i32 {
    let mut narrow = [0i16; 2];
    for (a, b) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
        let pairs = multiply_pairs(*a, *b);
        narrow = [narrow[0] + pairs[0], narrow[1] + pairs[1]];
    }
    add_pair(0, narrow)
}

/// The same by the short way.
pub fn dot_wide(a: &[u8; 32], b: &[i8; 32]) -> i32 {
    let quads = a.as_chunks().0.iter().zip(b.as_chunks().0);
    quads.fold(0, |sum, (a, b)| dot_accumulate(sum, *a, *b))
}
// ANCHOR_END: dot_narrow
