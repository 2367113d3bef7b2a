//! A place behind the cache for pages that it has no room for, which outlives the process.
//!
//! What comes out of a store is not trusted: a page is used only if it names the model, the client and the tokens that
//! it was asked for under, has the size of a page, and its checksum is right. So it is with recurrent states, which have
//! names of their own: not every page has one.

use crate::prefix_tree::Salt;
use alloc::vec::Vec;
use strata_model::{KvType, PageLayout};
use strata_platform::Sha256;

/// Names a model's weights: its file's digest.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ModelDigest(pub [u8; 32]);

/// Names a page: a digest of the model, the client, and all tokens up to its last.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageKey(pub(crate) [u8; 32]);

const MAGIC: &[u8; 8] = b"STRATAKV";
const VERSION: u32 = 1;
const CHECKSUM: usize = 32;
/// The magic, the version and the key.
const HEADER: usize = MAGIC.len() + 4 + 32;

impl PageKey {
    /// What stands before the first page of a client's texts. Pages of requests that keep to themselves have no name;
    /// nor have those that must not be written to a disk, and those of adapters, whose numbers mean something else in the
    /// next process.
    pub(crate) fn root(model: ModelDigest, layout: &PageLayout, salt: Salt) -> Option<Self> {
        if salt.alone.is_some() || salt.adapter.is_some() || salt.privacy.never_to_disk {
            return None;
        }
        let mut hash = Sha256::new();
        hash.update(MAGIC);
        hash.update(VERSION.to_le_bytes());
        hash.update(model.0);
        hash.update([kind_number(layout.kind())]);
        hash.update((layout.page_bytes() as u64).to_le_bytes());
        if layout.is_recurrent() {
            hash.update((layout.state_bytes() as u64).to_le_bytes());
        }
        hash.update(salt.client.0.to_le_bytes());
        if salt.source > 0 {
            hash.update((salt.source as u64).to_le_bytes());
        }
        Some(Self(hash.finalize()))
    }

    /// The page of `tokens` after this one.
    pub(crate) fn child(&self, tokens: &[u32]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        for token in tokens {
            hash.update(token.to_le_bytes());
        }
        Self(hash.finalize())
    }

    /// The recurrent state after this page.
    pub(crate) fn state(&self) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        // No tokens have so many bytes.
        hash.update(b"state");
        Self(hash.finalize())
    }
}

/// A number for each type, that no later version gives another.
pub(crate) fn kind_number(kind: KvType) -> u8 {
    match kind {
        KvType::F32 => 0,
        KvType::F16 => 1,
        KvType::Q8_0 => 2,
    }
}

/// Writes a page or a state, which `write` adds, so that [`open`] can check it.
pub(crate) fn seal(key: &PageKey, write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&key.0);
    write(out);
    let checksum: [u8; CHECKSUM] = Sha256::digest(&*out);
    out.extend_from_slice(&checksum);
}

/// What was sealed under this key, if it is whole and of this size.
pub(crate) fn open<'b>(key: &PageKey, size: usize, sealed: &'b [u8]) -> Option<&'b [u8]> {
    let (body, checksum) = sealed.split_last_chunk::<CHECKSUM>()?;
    let content = body.get(HEADER..).filter(|content| content.len() == size)?;
    let header = body[..MAGIC.len()] == *MAGIC
        && body[MAGIC.len()..][..4] == VERSION.to_le_bytes()
        && body[MAGIC.len() + 4..HEADER] == key.0;
    let whole = header && Sha256::digest(body) == *checksum;
    whole.then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_mover::tiny_config;
    use crate::request::{AdapterId, ClientId, Privacy};

    const SALT: Salt = Salt {
        client: ClientId(1),
        adapter: None,
        alone: None,
        source: 0,
        privacy: Privacy {
            never_to_disk: false,
            never_off_machine: false,
        },
    };

    fn layout(kind: KvType) -> PageLayout {
        let mut config = tiny_config();
        for layer in &mut config.layers {
            if let Some(attention) = layer.mixer.attention_mut() {
                attention.head_size = 32;
            }
        }
        PageLayout::new(&config, kind)
    }

    #[test]
    fn names_differ_by_model_client_type_and_every_token() {
        let model = ModelDigest([1; 32]);
        let root = |model, kind, salt| PageKey::root(model, &layout(kind), salt).unwrap();
        let first = root(model, KvType::F16, SALT);
        let other = Salt {
            client: ClientId(2),
            ..SALT
        };
        let source = Salt { source: 3, ..SALT };
        let keys = [
            first,
            root(model, KvType::F16, source),
            root(ModelDigest([2; 32]), KvType::F16, SALT),
            root(model, KvType::Q8_0, SALT),
            root(model, KvType::F16, other),
            first.child(&[1, 2]),
            first.child(&[1, 3]),
            first.child(&[1]).child(&[2]),
            first.state(),
            first.child(&[1, 2]).state(),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|b| a != b));
        }
        let adapted = Salt {
            adapter: Some(AdapterId(1)),
            ..SALT
        };
        assert_eq!(PageKey::root(model, &layout(KvType::F16), adapted), None);
        let privacy = Privacy {
            never_to_disk: true,
            ..Privacy::default()
        };
        let private = Salt { privacy, ..SALT };
        assert_eq!(PageKey::root(model, &layout(KvType::F16), private), None);
    }

    #[test]
    fn a_page_with_any_byte_changed_is_not_opened() {
        let (key, page) = (PageKey([7; 32]), [9u8; 50]);
        let mut sealed = Vec::new();
        seal(&key, |out| out.extend_from_slice(&page), &mut sealed);
        assert_eq!(open(&key, 50, &sealed), Some(&page[..]));
        for at in 0..sealed.len() {
            sealed[at] ^= 1;
            assert_eq!(open(&key, 50, &sealed), None, "byte {at}");
            sealed[at] ^= 1;
            assert_eq!(open(&key, 50, &sealed[..at]), None);
        }
        assert_eq!(open(&PageKey([8; 32]), 50, &sealed), None);
        assert_eq!(open(&key, 49, &sealed), None);
    }
}
