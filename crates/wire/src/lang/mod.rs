//! The one language inside: what is asked and what is answered, whatever dialect the client speaks.
//!
//! A dialect reads its JSON into a [`Generate`], [`Embed`] or [`Rerank`] and writes [`Event`]s as its own bytes. Nothing
//! here belongs to one dialect; what only one of them knows is an option here or stays in its folder.

mod event;
mod message;
mod request;

pub use event::{CallPart, Event, Finish, Shape, Timings, TokenLogprob, TokenLogprobs, Usage};
pub use message::{Image, Message, Part, Role, ToolCall, name_results};
pub use request::{
    Effort, Embed, Format, Generate, KeepAlive, Piece, Pooling, Prompt, Rerank, Sampling, Text,
    Thinking, Tool, ToolChoice, Tools,
};
