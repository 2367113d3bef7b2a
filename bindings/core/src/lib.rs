//! What the bindings of all languages share: a model's requests and answers as JSON.
//!
//! A request is the body of one of the server's routes, read by the same code; its answer is a [`JsonStream`] of the
//! documents that the server would send. Streams are pulled: [`JsonStream::next`] waits, [`JsonStream::poll_next`] wakes a
//! task, and [`JsonStream::descriptor`] wakes an event loop. Any thread may cancel one at any time.
#![forbid(unsafe_code)]

mod image_urls;
mod info;
mod jobs;
mod load;
mod model;
mod options;
mod pace;
mod request;
mod session;
mod signal;
mod source;
mod speech;
mod stream;
mod tools;

pub use info::{adapters, info, plan, set_adapters};
pub use load::{load, open};
pub use model::Model;
pub use request::{milliseconds, request};
pub use session::SharedSession;
pub use strata::{Error, ErrorKind, Json};
pub use stream::{JsonStream, Next};
pub use tools::chat_with_tools;

/// What this build can do, by name. Bindings check it together with the ABI's number.
pub const FEATURES: &[&str] = &[
    "adapters",
    "chat",
    "completions",
    "constraints",
    "embeddings",
    "grammars",
    "image_urls",
    "images",
    "peers",
    "plan",
    "rerank",
    "sessions",
    "tale",
    "tokenize",
    "tools",
    "transcriptions",
];

/// Checks that this build can do all that is named, with spaces between the names.
pub fn require(names: &str) -> Result<(), Error> {
    let missing: Vec<&str> = names
        .split_whitespace()
        .filter(|name| !FEATURES.contains(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("this build of the library has no {}", missing.join(", "));
    let error = Error::new(ErrorKind::Unsupported, what);
    Err(error.with_hint("use the library that came with the package"))
}

/// The version of the library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
