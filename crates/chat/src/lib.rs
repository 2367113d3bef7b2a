//! Conversations with a model: requests in, events out.
//!
//! This is the language that programs, servers and every dialect share: [`Message`]s, tools and a [`Generate`] request
//! go in; [`Event`]s and [`Fault`]s come out. [`prepare`] turns a request into the engine's, through the model's chat
//! template; [`AnswerStream`] turns the engine's events into thinking, text and tool calls. Nothing here knows HTTP or
//! any vendor's JSON.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer_parser;
mod answer_stream;
pub mod budgets;
mod constraints;
mod embedding;
mod event;
mod fault;
pub mod json;
mod media;
mod message;
mod model_facts;
mod model_profile;
pub mod parameters;
mod prepare;
mod progress;
pub mod prompt;
mod rank_prompt;
mod request;
mod sampling;
mod shorten;
mod slot;
mod splitter;
mod thinking;
mod tokens;
pub mod tools;
mod transcript;

pub use answer_parser::{AnswerParser, AnswerToken};
pub use answer_stream::{AnswerStream, Arrival, Times, failure, refusal};
pub use constraints::Constraints;
pub use embedding::{Embed, Embeddings, Pooling, Ranking, Rerank};
pub use event::{CallPart, Event, Finish, Timings, TokenLogprob, TokenLogprobs, Usage};
pub use fault::{Fault, FaultKind};
pub use media::{Ears, MediaPart, Senses, Sight};
pub use message::{Audio, ContentPart, Image, ImageUrl, Message, Role, ToolCall, name_results};
pub use model_facts::{AdapterFacts, Capability, LoadedModel, ModelFacts};
pub use model_profile::ModelProfile;
pub use prepare::{Prepared, RequestContext, prepare};
pub use progress::Progress;
pub use prompt::RenderedPrompt;
pub use rank_prompt::{RankPrompt, rank_score};
pub use request::{Format, Generate, KeepAlive, Prompt, PromptPart};
pub use sampling::{Sampling, TokenOrText};
pub use shorten::{prompt_room, shorten};
pub use slot::{Slot, SlotAction, SlotOutcome};
pub use splitter::{AnswerPart, SplitOptions, Splitter};
pub use thinking::{Effort, Thinking, ThinkingMarks};
pub use tokens::{Detokenize, TokenPiece, Tokenize, Tokenized, TokenizerFacts};
pub use tools::choice::{Tool, ToolChoice, Tools};
pub use tools::grammar::{AnswerConstraint, CallGrammar};
pub use tools::schemas::ArgumentSchemas;
pub use transcript::{Segment, Transcribe, Transcript, Word};
