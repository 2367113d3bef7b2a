//! The `strata` program: each command is a module with its arguments and its `run`.

mod chat_prompt;
mod failure;
mod inspect;
mod loaded_model;
mod machine;
mod memory;
mod model_file;
mod progress;
mod run;
mod sampling;
mod synth;
mod template;
mod tokenize;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "strata", version, about, after_help = failure::EXIT_CODES)]
/// Runs language models, and looks inside their files.
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Inspect(inspect::Arguments),
    Tokenize(tokenize::EncodeArguments),
    Detokenize(tokenize::DecodeArguments),
    Template(template::Arguments),
    Synth(synth::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Tokenize(arguments) => tokenize::encode(&arguments),
        Command::Detokenize(arguments) => tokenize::decode(&arguments),
        Command::Template(arguments) => template::run(&arguments),
        Command::Synth(arguments) => synth::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
