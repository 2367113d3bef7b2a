//! Words to numbers and back: tokenizers and chat templates, in Jinja and in Go's language.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod gotemplate;
pub mod template;
pub mod tokenizer;
pub mod vocabulary;
