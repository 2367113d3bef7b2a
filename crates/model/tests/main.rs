//! All tests of this crate from outside that need no process of their own: one program links faster than many.

mod adapters;
mod coverage;
mod determinism;
mod dispatches;
mod experts;
mod golden;
mod golden_audio;
mod golden_ctc;
mod golden_speech;
mod golden_states;
mod golden_vision;
mod layers;
mod loading;
mod observing;
mod oracle;
mod recurrent;
mod running;
mod sources;
mod stretches;
mod windows;
