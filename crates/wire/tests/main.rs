//! Each dialect, from the bytes of a request to the bytes of its answer.

mod anthropic;
mod llama_server;
mod ollama;
mod openai;
mod pairs;
