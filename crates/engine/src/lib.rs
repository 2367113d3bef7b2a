//! Requests in, text out.
//!
//! An [`Engine`] runs any number of [`Request`]s side by side through one model and tells what happens as
//! [`Event`]s. What a request gets never depends on the others.
//!
//! # How a token is chosen
//!
//! A [`Sampler`](sampling::Sampler) applies what its [`SamplerSettings`](sampling::SamplerSettings) turn on, always in
//! this order, which is llama.cpp's default; so are the definitions.
//!
//! 1. **logit bias**: added to the logits; minus infinity bans a token;
//! 2. **penalties**: repetition, then frequency and presence, over the latest tokens;
//! 3. **DRY**: against continuing a repeated run;
//! 4. **top-n-sigma**: within n standard deviations of the largest logit;
//! 5. **top-k**: the k likeliest;
//! 6. **typical**: those whose surprise is near the entropy;
//! 7. **top-p**: the likeliest, up to a total probability;
//! 8. **min-p**: those not too far under the likeliest;
//! 9. **XTC**: now and then without the top choices;
//! 10. **temperature**, fixed or following the entropy;
//! 11. **the draw**.
//!
//! Temperature 0 takes the likeliest token after step 3. Mirostat replaces steps 4 to 9 and comes after the temperature.
//! Each of the steps 4 to 9 looks at the softmax of what the one before it left. A token at minus infinity is no
//! candidate and counts nowhere.
//!
//! # The same choice everywhere
//!
//! Equal logits rank by the lower token; sums run in a fixed order; the exponential is our own and the logarithm
//! `libm`'s, never the platform's; and the random number of a token is a pure function of the seed and of the token's position in
//! the text ([`random`]). Logits with NaN or infinity, or without any allowed token, are an error.
//!
//! # Several tokens at a time
//!
//! A request can have tokens guessed ahead ([`Speculation`]): from its own text, or by a small draft model. The model
//! checks all guesses in one pass, each row of logits is sampled as in plain decoding, and what was chosen as guessed is
//! kept. Because a row does not depend on the batch and a choice only on its row, seed and position, the answer is
//! the same, only sooner; and guessing stops by itself where it does not pay. [`Usage`] tells how often it was right.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod active_sequence;
mod adapters;
mod batch;
mod beams;
mod cache;
mod chooser;
mod completion;
pub mod constraint;
pub mod counters;
mod encode;
mod engine;
mod exponential;
mod group;
mod guesses;
mod images;
mod inspect;
pub mod logprobs;
mod page_admission;
mod page_events;
#[cfg(test)]
mod page_mover;
mod page_store;
mod prefix_tree;
pub mod random;
mod request;
pub mod sampling;
mod scheduler;
mod session;
mod small_string;
mod speculation;
mod standing;
mod step;
pub mod stop;
mod submit;
mod watch;
mod writer;

pub use adapters::AdapterMismatch;
pub use constraint::{Constraint, ConstraintError, TokenMask};
pub use counters::{BUCKETS, Blocked, Counters, Histogram};
pub use engine::{Engine, EngineOptions};
pub use inspect::InspectError;
pub use page_events::{PageEvent, PageTeller};
pub use page_store::ModelDigest;
pub use request::{
    AdapterId, Choices, ClientId, Event, EventKind, FinishReason, Limits, Priority, Privacy,
    Request, RequestError, RequestId, Task, TokenLogprobs, Usage,
};
pub use session::{Completion, InferenceError, RestoreError, Session, run_inference};
pub use small_string::SmallString;
pub use speculation::{Speculation, VocabularyMismatch};
pub use standing::Standing;
pub use strata_model::{BatchError, EmbeddedRun, Grid, Pooling};
pub use submit::{MOST_CHOICES, SubmitError};
pub use watch::{StepPage, StepReport, StepSequence, StepWatcher};
