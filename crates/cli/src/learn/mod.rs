//! `strata learn`: the book, read in a browser without a network, and five demonstrations in the terminal.

mod book;
mod demo;
mod markdown;
mod reader;
mod show;

use crate::failure::Failure;

/// Read the book of how all this works, or watch a part of it at work
///
/// Without a name the book is served to a browser on this machine, until Ctrl-C: nothing is loaded from elsewhere. With a
/// name the built-in model shows in the terminal what happens inside it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata learn
  strata learn attention --layer 3 --head 5
  strata learn sampling --prompt \"The cat sat on the\"
  strata learn batching | less")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    demo: Option<demo::Demo>,
    /// Port to serve the book on [default: 11435, or another if that is taken]
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.demo {
        Some(demo) => demo.run(),
        None => reader::serve(arguments.port),
    }
}
