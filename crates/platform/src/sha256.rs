//! SHA-256 (FIPS 180-4): by the `sha2` crate, which knows the processor's instructions for it, and in a bootable image,
//! where what that crate depends on would be a tenth of all code, by the few lines here.

#[cfg(not(strata_compact))]
use sha2::Digest;

/// A digest in the making.
#[derive(Clone, Default)]
pub struct Sha256 {
    #[cfg(not(strata_compact))]
    inner: sha2::Sha256,
    #[cfg(strata_compact)]
    inner: plain::Plain,
}

impl Sha256 {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.inner.update(bytes.as_ref());
    }

    /// The digest of all that was added.
    pub fn finalize(self) -> [u8; 32] {
        #[cfg(not(strata_compact))]
        return self.inner.finalize().into();
        #[cfg(strata_compact)]
        self.inner.finalize()
    }

    /// The digest of some bytes.
    pub fn digest(bytes: impl AsRef<[u8]>) -> [u8; 32] {
        let mut sum = Self::new();
        sum.update(bytes);
        sum.finalize()
    }
}

#[cfg(any(strata_compact, test))]
mod plain {
    /// The state after some whole blocks, and what came after them.
    #[derive(Clone)]
    pub(super) struct Plain {
        state: [u32; 8],
        block: [u8; 64],
        len: u64,
    }

    /// The cube roots of the first 64 primes: their fractions' first 32 bits.
    const ROUNDS: [u32; 64] = [
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2,
    ];

    impl Default for Plain {
        fn default() -> Self {
            Self {
                state: [
                    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                    0x1f83d9ab, 0x5be0cd19,
                ],
                block: [0; 64],
                len: 0,
            }
        }
    }

    impl Plain {
        pub(super) fn update(&mut self, mut bytes: &[u8]) {
            while !bytes.is_empty() {
                let held = (self.len % 64) as usize;
                let part = bytes.len().min(64 - held);
                self.block[held..held + part].copy_from_slice(&bytes[..part]);
                self.len = self.len.wrapping_add(part as u64);
                bytes = &bytes[part..];
                if held + part == 64 {
                    compress(&mut self.state, &self.block);
                }
            }
        }

        pub(super) fn finalize(mut self) -> [u8; 32] {
            let bits = self.len.wrapping_mul(8);
            self.update(&[0x80]);
            while self.len % 64 != 56 {
                self.update(&[0]);
            }
            self.update(&bits.to_be_bytes());
            let mut out = [0; 32];
            for (out, word) in out.as_chunks_mut().0.iter_mut().zip(self.state) {
                *out = word.to_be_bytes();
            }
            out
        }
    }

    fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
        let mut words = [0; 64];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for t in 16..64 {
            let (x, y) = (words[t - 15], words[t - 2]);
            let small = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
            let large = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
            let sum = small.wrapping_add(large).wrapping_add(words[t - 7]);
            words[t] = sum.wrapping_add(words[t - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        for (word, round) in words.into_iter().zip(ROUNDS) {
            let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let sum = h.wrapping_add(mixed).wrapping_add(choice);
            let first = sum.wrapping_add(round).wrapping_add(word);
            let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b) = (c, b, a);
            a = first.wrapping_add(mixed).wrapping_add(majority);
        }
        for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *old = old.wrapping_add(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn both_ways_give_the_same_digests() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| ((i * 37) >> 3) as u8).collect();
        for len in 0..bytes.len() {
            let mut sum = plain::Plain::default();
            for part in bytes[..len].chunks(len % 97 + 1) {
                sum.update(part);
            }
            assert_eq!(sum.finalize(), Sha256::digest(&bytes[..len]), "{len}");
        }
        assert_eq!(Sha256::digest(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
