//! Moving bits within a row's block. Words are little-endian; a word's bytes are four neighbouring columns.

/// The k-th word.
#[inline(always)]
pub(super) fn word(bytes: &[u8], k: usize) -> u32 {
    bytes
        .as_chunks::<4>()
        .0
        .get(k)
        .map_or(0, |&word| u32::from_le_bytes(word))
}

/// Overwrites the k-th word.
#[inline(always)]
pub(super) fn set_word(bytes: &mut [u8], k: usize, value: u32) {
    if let Some(word) = bytes.as_chunks_mut::<4>().0.get_mut(k) {
        *word = value.to_le_bytes();
    }
}

/// Swaps bit p of word g with bit g of word p, in each byte, for 8 words: planes of single bits become words that hold
/// all 8 columns of a byte's place. Its own inverse.
#[inline(always)]
pub(super) fn transpose_bits(bytes: &mut [u8; 32]) {
    let words: [u32; 8] = core::array::from_fn(|g| word(bytes, g));
    for p in 0..8 {
        let column = (0..8).fold(0, |out, g| out | (words[g] >> p & 0x0101_0101) << g);
        set_word(bytes, p, column);
    }
}

/// For each half of 128 columns, 32 bytes with 2 bits of columns i, i+32, i+64 and i+96 become 8 words, each of 16
/// neighbouring columns.
#[inline(always)]
pub(super) fn gather_crumbs(bytes: &mut [u8; 64]) {
    for half in bytes.as_chunks_mut::<32>().0 {
        let words: [u32; 8] = core::array::from_fn(|k| word(half, k));
        for group in 0..8 {
            let (plane, first) = (group / 2, group % 2 * 4);
            let packed = (0..4).fold(0, |out, g| {
                out | (words[first + g] >> (2 * plane) & 0x0303_0303) << (2 * g)
            });
            set_word(half, group, packed);
        }
    }
}

/// Undoes [`gather_crumbs`].
#[inline(always)]
pub(super) fn scatter_crumbs(bytes: &mut [u8; 64]) {
    for half in bytes.as_chunks_mut::<32>().0 {
        let words: [u32; 8] = core::array::from_fn(|k| word(half, k));
        for k in 0..8 {
            let (side, g) = (k / 4, k % 4);
            let bytes = (0..4).fold(0, |out, plane| {
                out | (words[2 * plane + side] >> (2 * g) & 0x0303_0303) << (2 * plane)
            });
            set_word(half, k, bytes);
        }
    }
}

/// For each 64 columns, 32 bytes with column i below and i+32 above become two groups of 16 bytes, each of 32
/// neighbouring columns: i below and i+16 above. Its own inverse.
#[inline(always)]
pub(super) fn swap_nibbles(bytes: &mut [u8; 128]) {
    for pair in bytes.as_chunks_mut::<32>().0 {
        let words: [u32; 8] = core::array::from_fn(|k| word(pair, k));
        for k in 0..4 {
            let (a, b) = (words[k], words[k + 4]);
            set_word(pair, k, a & 0x0f0f_0f0f | (b & 0x0f0f_0f0f) << 4);
            set_word(pair, k + 4, a >> 4 & 0x0f0f_0f0f | b & 0xf0f0_f0f0);
        }
    }
}

/// Bit 4g + c becomes bit 8c + g: the bits of column 4g + c to byte c.
#[inline(always)]
pub(super) fn gather_fifth_bits(bits: u32) -> u32 {
    (0..4).fold(0, |out, c| {
        let mut b = bits >> c & 0x1111_1111;
        b = (b | b >> 3) & 0x0303_0303;
        b = (b | b >> 6) & 0x000f_000f;
        b = (b | b >> 12) & 0xff;
        out | b << (8 * c)
    })
}

/// Undoes [`gather_fifth_bits`].
#[inline(always)]
pub(super) fn scatter_fifth_bits(bits: u32) -> u32 {
    (0..4).fold(0, |out, c| {
        let mut b = bits >> (8 * c) & 0xff;
        b = (b | b << 12) & 0x000f_000f;
        b = (b | b << 6) & 0x0303_0303;
        b = (b | b << 3) & 0x1111_1111;
        out | b << c
    })
}

/// Takes `n` times A bytes that are followed by `n` times B bytes, and puts them in turns: A, B, A, B …
#[inline(always)]
pub(super) fn interleave<const A: usize, const B: usize>(bytes: &mut [u8], n: usize) {
    let mut copy = [0; MAX];
    let copy = &mut copy[..bytes.len()];
    copy.copy_from_slice(bytes);
    let (a, b) = copy.split_at(n * A);
    let pairs = a.as_chunks::<A>().0.iter().zip(b.as_chunks::<B>().0);
    for (out, (a, b)) in bytes.chunks_exact_mut(A + B).zip(pairs) {
        out[..A].copy_from_slice(a);
        out[A..].copy_from_slice(b);
    }
}

/// Undoes [`interleave`].
pub(super) fn separate<const A: usize, const B: usize>(bytes: &mut [u8], n: usize) {
    let mut copy = [0; MAX];
    let copy = &mut copy[..bytes.len()];
    copy.copy_from_slice(bytes);
    let (a, b) = bytes.split_at_mut(n * A);
    let pairs = a
        .as_chunks_mut::<A>()
        .0
        .iter_mut()
        .zip(b.as_chunks_mut::<B>().0);
    for (pair, (a, b)) in copy.chunks_exact(A + B).zip(pairs) {
        a.copy_from_slice(&pair[..A]);
        b.copy_from_slice(&pair[A..]);
    }
}

/// No block is longer.
const MAX: usize = 256;

/// Applies `f` to the word at byte `at`, if the block is that long.
#[inline(always)]
pub(super) fn map_word(block: &mut [u8], at: usize, f: impl Fn(u32) -> u32) {
    if let Some(word) = block
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut::<4>())
    {
        *word = f(u32::from_le_bytes(*word)).to_le_bytes();
    }
}

/// Applies `f` to the N bytes at `at`, if the block is that long.
#[inline(always)]
pub(super) fn edit<const N: usize>(block: &mut [u8], at: usize, f: impl Fn(&mut [u8; N])) {
    if let Some(bytes) = block
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut::<N>())
    {
        f(bytes);
    }
}
