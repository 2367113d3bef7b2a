//! Audio files, resampling and spectrograms, against libsndfile and transformers.

mod decoding;
mod hostile;
mod resampling;
mod spectrograms;
mod vectors;
