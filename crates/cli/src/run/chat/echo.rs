//! The terminal while an answer is shown: what is typed ahead waits unseen for the next prompt.
//!
//! Windows echoes keys only while a program reads them, so there is nothing to do there.
#![cfg(unix)]

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io;

/// Keys are not echoed as long as it lives.
pub(super) struct Unechoed {
    /// How the terminal was set; `None` where standard input is none.
    before: Option<Termios>,
}

impl Unechoed {
    pub(super) fn new() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_flags.remove(LocalFlags::ECHO);
            // Keys that are there already stay.
            let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, &quiet);
        }
        Self { before }
    }
}

impl Drop for Unechoed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}
