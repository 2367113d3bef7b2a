//! GGUF: reader and writer.
