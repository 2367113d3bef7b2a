//! Words to numbers and back: tokenizers and chat templates.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod template;
pub mod tokenizer;
pub mod vocabulary;
