//! Layers of one model over several machines.
//!
//! The *head* has the embeddings, the first layers and the logits, and runs the engine; each *peer* has some of the layers
//! after those, with their pages and recurrent states. The head is connected with each: a step's residual stream goes to
//! one after the other and comes back, one message in each direction. Streams are f32 as they are, and each machine
//! computes what it would compute if it had all layers, so the bytes of answers are the same.
//!
//! | file | what |
//! |---|---|
//! | [`key`](PeerKey), `handshake` | who is allowed, and the keys of a connection |
//! | `channel` | encrypted frames over TCP |
//! | `message` | what is said in them, and the parser of that |
//! | `link` | the head's side of one connection, which comes back after a loss |
//! | `executor` | the model of all machines, for the engine |
//! | `listen`, `session` | the peer's side |
//! | `share` | which machine has which layers |
//!
//! A peer that is lost takes its pages and states with it: what was computed of all sequences is void. The requests that
//! run fail, the cache is emptied, and as soon as the peer is back others are served.
#![forbid(unsafe_code)]

mod channel;
mod error;
mod executor;
mod handshake;
mod key;
mod link;
mod listen;
mod message;
mod pieces;
mod session;
mod share;
mod state;

pub use error::PeerError;
pub use executor::{Overlap, PeeredExecutor};
pub use key::PeerKey;
pub use link::{Link, ask};
pub use listen::{Layers, Listener, Stopper, Told};
pub use message::{Assignment, Facts, Message, PROTOCOL, Taken};
pub use share::{Machine, Uneven, share};
pub use state::{PeerState, PeerStates};
