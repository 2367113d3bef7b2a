//! Peers over loopback: what a model of several machines computes, and what happens when something is wrong with them.

mod loss;
mod machines;
mod same_bytes;
mod strangers;
