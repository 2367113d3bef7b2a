//! Run language models in your own program: no daemon, no other language, the same bytes everywhere.
//!
//! ```no_run
//! use strata::{Model, Options, user};
//!
//! # fn main() -> Result<(), strata::Error> {
//! let model = Model::open("tale", Options::default().memory("6G"))?;
//! for delta in model.chat([user("Tell me a story about a fox.")]).temperature(0.0).stream()? {
//!     print!("{}", delta?.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] is a handle: clones lead to the same model, any number of threads can ask it at once, and requests share
//! its batches and its cache. [`Model::plan`] says what a model takes before anything is loaded. Requests are built
//! with [`Model::chat`] and [`Model::complete`]; an [`Answer`] is an iterator, an [`AsyncAnswer`] a `Stream`, and dropping
//! either cancels the request.
//!
//! The same request gives the same bytes through this library, the server, the program and the bare machine: they all go
//! through [`Model::generate`].
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(all(feature = "grammar", not(feature = "std")))]
extern crate std;

mod error;
mod generation;
pub mod load;
mod local_model;
pub mod slots;
mod vector_run;
pub use error::{Error, ErrorKind};
pub use generation::Generation;
pub use local_model::{CompileConstraint, LocalModel};
pub use strata_chat as chat_types;
pub use strata_chat::json::Json;
pub use strata_chat::{
    CallPart, Constraints, ContentPart, Effort, Event, Finish, Format, Generate, Message,
    ModelFacts, Pooling, Prompt, PromptPart, Role, Sampling, Segment, Thinking, Tool, ToolCall,
    ToolChoice, Transcribe, Transcript, Usage, Word,
};
pub use strata_engine::{Counters, Limits, Privacy};
pub use strata_model::KvType;
pub use vector_run::VectorRun;

#[cfg(feature = "std")]
mod answer;
#[cfg(feature = "std")]
mod device;
#[cfg(feature = "std")]
mod drafting;
#[cfg(feature = "std")]
mod ears;
#[cfg(feature = "std")]
mod embed;
#[cfg(feature = "std")]
mod events;
#[cfg(feature = "std")]
mod hearing;
#[cfg(feature = "std")]
mod lesson;
#[cfg(feature = "std")]
mod model;
#[cfg(feature = "std")]
mod open;
#[cfg(feature = "std")]
mod options;
#[cfg(feature = "std")]
mod parts;
#[cfg(feature = "std")]
mod peers;
#[cfg(feature = "std")]
mod plan;
#[cfg(feature = "std")]
mod projector;
#[cfg(feature = "std")]
mod request;
#[cfg(feature = "std")]
mod session;
#[cfg(feature = "std")]
mod sight;
#[cfg(feature = "std")]
mod size;
#[cfg(feature = "std")]
pub mod worker;

#[cfg(feature = "std")]
pub use strata_convert::Mix;
#[cfg(feature = "std")]
pub use strata_gpu::DeviceFacts;
#[cfg(feature = "std")]
pub use strata_peers::{Stopper as PeerStopper, Told as PeerTold};
#[cfg(feature = "std")]
pub use strata_speech::Limits as AudioLimits;
#[cfg(feature = "std")]
pub use {
    answer::{Answer, AsyncAnswer, Completion, Delta},
    device::{Device, DeviceLost, DevicePlan, GpuFacts, GpuLayers, gpus},
    embed::{Vectors, finish_embed, finish_rerank, take},
    events::Events,
    hearing::{Hearing, SpeechFacts, Transcriber},
    lesson::{Look, Seen, SeenRow, SeenShares, SeenSteps, SeenTensor},
    model::{Caller, Model},
    open::{Listeners, Runtime},
    options::{Drafts, Options, Stream},
    parts::{LoadReport, Parts},
    peers::{
        PeerError, PeerHost, PeerHostOptions, PeerKey, PeerPlan, PeerState, PeerStates, Peers,
    },
    plan::Plan,
    request::{Request, assistant, audio, image, system, tool_result, user},
    session::{Checkpoint, Session},
    sight::{Eyes, Glance},
    size::Size,
};
