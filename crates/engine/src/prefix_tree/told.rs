//! What happens to whole pages, for those who choose among servers by what each of them knows.

use super::{Node, NodeId, PrefixTree, Salt};
use crate::page_events::PageEvent;
use alloc::vec::Vec;
use core::mem;
use strata_model::PAGE;

impl PrefixTree {
    /// Notes from now on what happens.
    pub(crate) fn tell(&mut self) {
        self.told.get_or_insert_default();
    }

    /// What has happened since the last call.
    pub(crate) fn take_told(&mut self) -> Vec<PageEvent> {
        self.told.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Notes a page, and gives its name.
    pub(super) fn tell_stored(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
    ) -> u64 {
        let parent = parent.map(|parent| self.node(parent).hash);
        let hash = name(parent.unwrap_or_else(|| root(salt)), tokens);
        if let Some(told) = &mut self.told
            && tokens.len() == PAGE
            && is_told(salt)
        {
            told.push(PageEvent::Stored {
                hash,
                parent,
                tokens: tokens.into(),
                client: salt.client,
                adapter: salt.adapter,
            });
        }
        hash
    }

    pub(super) fn tell_removed(&mut self, node: &Node) {
        if let Some(told) = &mut self.told
            && node.tokens.len() == PAGE
            && is_told(node.salt)
        {
            told.push(PageEvent::Removed { hash: node.hash });
        }
    }
}

/// Whether anyone may know of its pages. Nobody else can use those that are for one request only.
fn is_told(salt: Salt) -> bool {
    salt.alone.is_none() && !salt.privacy.never_off_machine
}

/// What the names of a salt's pages begin with.
fn root(salt: Salt) -> u64 {
    let adapter = salt.adapter.map_or(0, |adapter| adapter.0.wrapping_add(1));
    let apart = u64::from(salt.privacy.never_to_disk);
    let seed = mixed(salt.client.0 ^ apart.rotate_right(1)) ^ mixed(adapter).rotate_left(21);
    mixed(seed ^ (salt.source as u64).rotate_left(42))
}

/// A name for tokens after those that `before` is the name of.
fn name(before: u64, tokens: &[u32]) -> u64 {
    let add = |name: u64, token: &u32| mixed(name ^ u64::from(*token)).wrapping_add(name);
    tokens.iter().fold(mixed(before), add)
}

/// The mixing of splitmix64.
fn mixed(number: u64) -> u64 {
    let state = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
