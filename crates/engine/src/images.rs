//! Images and audio in a prompt: what the cache knows their positions by, and runs of positions that are computed in one batch.
//!
//! The tokens at an image's positions are placeholders, alike for all images, and so it is with audio. The prefix tree therefore
//! sees numbers made from the digest of pixels or samples in their place. They have the highest bit set, which no token has, and 31 bits each, from
//! another part of the digest at each of four positions in a row.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_model::EmbeddedRun;

/// The images and the audio of a sequence, in the order of their positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images(Arc<[EmbeddedRun]>);

impl Images {
    pub(crate) fn new(runs: &[EmbeddedRun]) -> Self {
        Self(runs.into())
    }

    /// The positions whose embeddings are given.
    pub(crate) fn runs(&self) -> &[EmbeddedRun] {
        &self.0
    }

    /// What the cache knows a sequence of these tokens by.
    pub(crate) fn keys<'t>(&self, tokens: &'t [u32]) -> Cow<'t, [u32]> {
        if self.0.is_empty() {
            return Cow::Borrowed(tokens);
        }
        let mut keys: Vec<u32> = tokens.to_vec();
        for run in &*self.0 {
            let Some(places) = keys.get_mut(run.range()) else {
                break;
            };
            for (index, key) in places.iter_mut().enumerate() {
                *key = position_key(&run.digest, index);
            }
        }
        Cow::Owned(keys)
    }

    /// The run whose positions must be computed together and of which a batch that ends at `end` would have only some.
    pub(crate) fn cut_at(&self, computed: usize, end: usize) -> Option<&EmbeddedRun> {
        let cut = |run: &&EmbeddedRun| {
            run.mutual && run.start < end && end < run.range().end && computed < run.range().end
        };
        self.0.iter().find(cut)
    }
}

/// A number for a position of an image.
fn position_key(digest: &[u8; 32], index: usize) -> u32 {
    let word = &digest[index % 4 * 8..][..8];
    let word = word
        .iter()
        .fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    // The finalizer of SplitMix64: positions of one image differ.
    let mut x = word ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    1 << 31 | (x ^ x >> 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn run(start: usize, len: usize, digest: u8) -> EmbeddedRun {
        EmbeddedRun {
            start,
            len,
            rows: vec![0.0; len].into(),
            digest: [digest; 32],
            mutual: true,
            grid: None,
        }
    }

    #[test]
    fn other_pixels_have_other_keys_and_text_keeps_its_own() {
        let tokens = vec![7; 20];
        let of = |digest| Images::new(&[run(3, 8, digest)]).keys(&tokens).into_owned();
        let (one, other) = (of(1), of(2));
        assert_eq!(one, of(1));
        assert_eq!((&one[..3], &one[11..]), (&tokens[..3], &tokens[11..]));
        for position in 3..11 {
            assert!(one[position] >= 1 << 31);
            assert_ne!(one[position], other[position]);
            assert!(!one[3..position].contains(&one[position]));
        }
        assert!(matches!(Images::default().keys(&tokens), Cow::Borrowed(_)));
    }

    #[test]
    fn a_batch_that_would_cut_an_image_is_noticed() {
        let images = Images::new(&[run(3, 8, 1)]);
        let cut = |computed, end| images.cut_at(computed, end).map(|run| run.start);
        assert_eq!(cut(0, 3), None);
        assert_eq!(cut(0, 4), Some(3));
        assert_eq!(cut(5, 10), Some(3));
        assert_eq!(cut(0, 11), None);
        assert_eq!(cut(11, 12), None);
    }
}
