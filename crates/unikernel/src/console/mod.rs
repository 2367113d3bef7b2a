//! Where the program writes: the serial line, the screen, and a log that can be read again.

mod editor;
mod log;
#[cfg(any(target_arch = "aarch64", test))]
pub mod pl011;
pub mod screen;
#[cfg(any(target_arch = "x86_64", test))]
pub mod serial;

pub use editor::{Editor, Key};
pub use log::Log;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod output;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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
