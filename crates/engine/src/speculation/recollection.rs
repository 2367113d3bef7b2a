//! A client's recent texts, to guess from: people ask about the same things again, and programs say the same things again.
//!
//! A text that has ended leaves its tokens and their index here, so that looking into it costs no more than looking into
//! the text itself. Nobody's texts are shown to another client, nor those of requests that keep to themselves.

use super::prompt_lookup::{Found, PromptLookup};
use crate::request::ClientId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Tokens that are kept in all: a megabyte with their indices.
const TOKENS: usize = 1 << 16;

/// Texts that are kept of one client.
const TEXTS: usize = 8;

/// Texts that have ended, the oldest first.
#[derive(Default)]
pub(crate) struct Recollection {
    texts: VecDeque<Text>,
    tokens: usize,
}

struct Text {
    client: ClientId,
    tokens: Vec<u32>,
    lookup: PromptLookup,
}

impl Recollection {
    /// Keeps a text, in the place of the oldest.
    pub(crate) fn keep(&mut self, client: ClientId, tokens: Vec<u32>, mut lookup: PromptLookup) {
        if tokens.len() > TOKENS / 2 {
            return;
        }
        lookup.index(&tokens);
        self.tokens += tokens.len();
        self.texts.push_back(Text {
            client,
            tokens,
            lookup,
        });
        let of_client = |text: &Text| text.client == client;
        if self.texts.iter().filter(|text| of_client(text)).count() > TEXTS
            && let Some(oldest) = self.texts.iter().position(of_client)
        {
            self.remove(oldest);
        }
        while self.tokens > TOKENS {
            self.remove(0);
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(text) = self.texts.remove(index) {
            self.tokens -= text.tokens.len();
        }
    }

    /// Forgets what a client wrote.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.texts.retain(|text| text.client != client);
        self.tokens = self.texts.iter().map(|text| text.tokens.len()).sum();
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The place in one of the client's texts that looks most like the end of `text`, the latest of equals.
    pub(crate) fn find(&self, client: ClientId, text: &[u32]) -> Option<Found<'_>> {
        let texts = self.texts.iter().filter(|text| text.client == client);
        let found = texts.filter_map(|other| other.lookup.find_elsewhere(&other.tokens, text));
        found.max_by_key(Found::length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ClientId = ClientId(1);

    fn kept(texts: &[(ClientId, &[u32])]) -> Recollection {
        let mut recollection = Recollection::default();
        for (client, tokens) in texts {
            recollection.keep(*client, tokens.to_vec(), PromptLookup::new());
        }
        recollection
    }

    #[test]
    fn only_a_clients_own_texts_are_found() {
        let recollection = kept(&[(ME, &[1, 2, 3, 4]), (ClientId(2), &[7, 1, 2, 3, 9])]);
        let found = recollection.find(ME, &[5, 2, 3]).unwrap();
        assert_eq!((found.length(), found.follows()), (2, &[4][..]));
        assert!(recollection.find(ClientId(3), &[5, 2, 3]).is_none());
        let theirs = recollection.find(ClientId(2), &[5, 2, 3]).unwrap();
        assert_eq!(theirs.follows(), [9]);
    }

    #[test]
    fn the_longest_match_wins_and_then_the_latest() {
        let texts: [(ClientId, &[u32]); 3] = [
            (ME, &[8, 1, 2, 3, 4]),
            (ME, &[1, 2, 3, 5]),
            (ME, &[9, 2, 3, 6]),
        ];
        let recollection = kept(&texts);
        let follows = |text: &[u32]| recollection.find(ME, text).unwrap().follows().to_vec();
        assert_eq!(follows(&[8, 1, 2, 3]), [4]);
        assert_eq!(follows(&[7, 1, 2, 3]), [5]);
        assert_eq!(follows(&[7, 2, 3]), [6]);
        assert!(recollection.find(ME, &[5]).is_none());
        assert!(recollection.find(ME, &[3, 6]).is_none(), "nothing follows");
    }

    #[test]
    fn what_is_kept_is_bounded_for_each_client_and_in_all() {
        let mut recollection = Recollection::default();
        for i in 0..20 {
            recollection.keep(ME, alloc::vec![i; 4], PromptLookup::new());
        }
        assert_eq!(recollection.texts.len(), TEXTS);
        for i in 0..40 {
            recollection.keep(
                ClientId(u64::from(i) + 2),
                alloc::vec![i; TOKENS / 8],
                PromptLookup::new(),
            );
            assert!(recollection.tokens <= TOKENS);
        }
        let sum: usize = recollection.texts.iter().map(|t| t.tokens.len()).sum();
        assert_eq!(recollection.tokens, sum);
        recollection.keep(ME, alloc::vec![1; TOKENS], PromptLookup::new());
        assert!(recollection.find(ME, &[1, 1]).is_none(), "too long to keep");
        recollection.keep(ME, alloc::vec![1; 9], PromptLookup::new());
        assert!(recollection.find(ME, &[1, 1]).is_some());
        recollection.forget(ME);
        assert!(recollection.find(ME, &[1, 1]).is_none());
    }
}
