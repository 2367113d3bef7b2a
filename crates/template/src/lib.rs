//! Chat templates: [Jinja](jinja), as `transformers` runs it, and [Go's `text/template`](go), as Ollama does.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod go;
pub mod jinja;
