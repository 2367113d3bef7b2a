//! All tests of this crate from outside that need no process of their own: one program links faster than many.

mod differential;
mod grammars;
mod hostile_steps;
mod limits;
mod mask_time;
mod model_answers;
mod schemas;
mod support;
