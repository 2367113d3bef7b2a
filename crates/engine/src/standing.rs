//! Where a request stands before its first token, for those who wait.

use crate::engine::Engine;
use crate::request::RequestId;

/// Where a request stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the queue.
    Queued {
        /// Sequences that are admitted before it, as things are now.
        ahead: usize,
    },
    /// Its prompt is being computed.
    Prefill {
        /// Tokens computed, or found in the cache.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// Tokens are being generated.
    Decode,
}

impl Engine {
    /// Where a request stands; `None` if it is not here, or not any more.
    pub fn standing(&self, request: RequestId) -> Option<Standing> {
        let mut of_request = self.active.iter().filter(|one| one.request == request);
        let first = of_request.find(|one| !one.parked)?;
        let done = first.held.sequence.len();
        Some(match self.scheduler.ahead(first.id, self.now()) {
            Some(ahead) => Standing::Queued { ahead },
            None if done < first.prompt => Standing::Prefill {
                done,
                total: first.prompt,
            },
            None => Standing::Decode,
        })
    }
}
