//! Where the program writes: the serial line, the screen, and a log that can be read again.

mod editor;
mod log;
pub mod screen;
pub mod serial;

pub use editor::{Editor, Key};
pub use log::Log;

#[cfg(target_arch = "x86_64")]
mod output;
#[cfg(target_arch = "x86_64")]
pub use output::{clear, read_byte, seize, show_on, with_log, write};

/// Writes a line to the console, as `println!` does elsewhere.
#[macro_export]
macro_rules! say {
    () => {
        $crate::console::write(format_args!("\n"))
    };
    ($($text:tt)*) => {
        $crate::console::write(format_args!("{}\n", format_args!($($text)*)))
    };
}
