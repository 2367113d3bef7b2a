//! The library as a program sees it, on the built-in model.

mod adapters;
mod answers;
mod audio;
mod chat;
mod constraints;
mod devices;
mod errors;
mod images;
mod lifetime;
mod loading;
mod perceiving;
mod sessions;
mod sources;
mod support;
mod together;
mod tools;
mod vectors;
