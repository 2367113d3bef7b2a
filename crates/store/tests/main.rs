//! All tests of this crate from outside that need no process of their own: one program links faster than many.

mod elsewhere;
mod full_disk;
mod hostile;
mod killed;
mod login;
mod loopback;
mod pull;
mod store;
