//! Tokenizers over a GGUF vocabulary.
