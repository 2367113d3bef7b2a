//! What the prefix tree keeps and gives up, told to those who choose among servers by what each of them knows.

use crate::engine::Engine;
use crate::request::{AdapterId, ClientId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Something that happened to a whole page of the prefix tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageEvent {
    /// A page is kept, and found by requests of the same client with the same adapter.
    Stored {
        /// Its name: of its tokens, those before it, the client and the adapter.
        hash: u64,
        /// The name of the page before it.
        parent: Option<u64>,
        /// Its tokens.
        tokens: Box<[u32]>,
        /// Who finds it.
        client: ClientId,
        /// With which adapter.
        adapter: Option<AdapterId>,
    },
    /// A page is not kept any more.
    Removed {
        /// Its name.
        hash: u64,
    },
}

/// Someone who is told, after each step in which something happened.
pub type PageTeller = Box<dyn FnMut(Vec<PageEvent>) + Send>;

impl Engine {
    /// Tells someone from now on what happens to pages; earlier ones are told no more. Without anyone, nothing is noted.
    pub fn tell_pages(&mut self, teller: PageTeller) {
        self.cache.tell_pages();
        self.page_teller = Some(teller);
    }

    pub(crate) fn tell_page_events(&mut self) {
        if let Some(teller) = &mut self.page_teller {
            let told = self.cache.take_told();
            if !told.is_empty() {
                teller(told);
            }
        }
    }
}
