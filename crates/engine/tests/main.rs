//! All tests of this crate from outside that need no process of their own: one program links faster than many.

mod beams;
mod crowd;
mod determinism;
mod divided;
mod durable;
mod embeddings;
mod encoder_decoder;
#[path = "../../gpu/tests/lent.rs"]
mod lent;
mod limits;
mod llama_cpp;
mod looking;
mod mixer_kinds;
mod nextn;
mod oracle;
mod page_files;
mod perceiving;
mod recurrent;
mod recurrent_cache;
mod requests;
mod second_executor;
mod shelf;
mod speculation;
mod spelling;
mod stateful;
mod tale;
mod windows;
