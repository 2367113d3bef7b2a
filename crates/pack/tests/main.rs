//! Artifacts written, read, damaged, and read by programs that we did not write.

mod runs;
mod sample;
mod signatures;
mod snaps;
mod wrapped;
