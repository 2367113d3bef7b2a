//! The `strata` program: each command is a module with its arguments and its `run`.

mod bench;
mod boot;
mod chart;
mod completions;
mod computing;
mod convert;
mod doctor;
mod embed;
mod failure;
mod fetching;
mod image;
mod imatrix;
mod inspect;
mod learn;
mod logits;
mod machine_limits;
mod memory;
mod pack;
mod packed;
mod part_file;
mod peers;
mod perplexity;
mod plan;
mod progress;
mod quantize;
mod relay;
mod rerank;
mod run;
mod sampling;
mod scorer;
mod serve;
mod server_client;
mod stop_signal;
mod store_commands;
mod suggestion;
mod synth;
mod template;
mod text_chunks;
mod tokenize;
mod transcribe;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use failure::{Failure, Kind};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "strata", version, about, after_help = failure::EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Serve(Box<serve::Arguments>),
    Relay(Box<relay::Arguments>),
    Peer(Box<peers::Arguments>),
    /// Download a model
    Pull(store_commands::TransferArguments),
    /// Upload a model to its registry
    Push(store_commands::TransferArguments),
    #[command(visible_alias = "ls")]
    List(store_commands::ListArguments),
    Ps(store_commands::PsArguments),
    Stop(store_commands::StopArguments),
    Show(store_commands::ShowArguments),
    Cp(store_commands::CopyArguments),
    Rm(store_commands::RemoveArguments),
    Create(store_commands::CreateArguments),
    Store(store_commands::StoreArguments),
    Inspect(inspect::Arguments),
    Tokenize(tokenize::EncodeArguments),
    Detokenize(tokenize::DecodeArguments),
    Template(template::Arguments),
    Logits(logits::Arguments),
    Perplexity(perplexity::Arguments),
    Embed(embed::Arguments),
    Rerank(rerank::Arguments),
    Transcribe(transcribe::Arguments),
    Bench(bench::Arguments),
    Plan(plan::Arguments),
    Convert(convert::Arguments),
    Quantize(quantize::Arguments),
    Imatrix(imatrix::Arguments),
    Synth(synth::Arguments),
    Pack(Box<pack::Arguments>),
    Image(image::Arguments),
    Boot(boot::Arguments),
    Doctor(doctor::Arguments),
    Learn(learn::Arguments),
    Completions(completions::CompletionArguments),
    Man(completions::ManArguments),
}

/// The command line, or how the program ends without running a command.
fn parse() -> Result<Arguments, ExitCode> {
    let words = packed::command_line().map_err(|failure| failure.report())?;
    Arguments::try_parse_from(words).map_err(|error| {
        if error.kind() == ErrorKind::InvalidSubcommand
            && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        {
            return unknown_command(word).report();
        }
        error.exit()
    })
}

fn unknown_command(word: &str) -> Failure {
    let program = Arguments::command();
    let names = program.get_subcommands().flat_map(|command| {
        std::iter::once(command.get_name()).chain(command.get_visible_aliases())
    });
    let names: Vec<&str> = names.chain(["help"]).collect();
    let failure = Failure::new(Kind::Usage, format_args!("unknown command '{word}'"));
    match suggestion::nearest(word, names) {
        Some(meant) => failure.hint(format_args!("did you mean `strata {meant}`?")),
        None => failure.hint("`strata help` lists the commands"),
    }
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let result = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Relay(arguments) => relay::run(*arguments),
        Command::Peer(arguments) => peers::run(&arguments),
        Command::Pull(arguments) => store_commands::pull(&arguments),
        Command::Push(arguments) => store_commands::push(&arguments),
        Command::List(arguments) => store_commands::list(&arguments),
        Command::Ps(arguments) => store_commands::ps(&arguments),
        Command::Stop(arguments) => store_commands::stop(&arguments),
        Command::Show(arguments) => store_commands::show(&arguments),
        Command::Cp(arguments) => store_commands::copy(&arguments),
        Command::Rm(arguments) => store_commands::remove(&arguments),
        Command::Create(arguments) => store_commands::create(&arguments),
        Command::Store(arguments) => store_commands::store(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Tokenize(arguments) => tokenize::encode(&arguments),
        Command::Detokenize(arguments) => tokenize::decode(&arguments),
        Command::Template(arguments) => template::run(&arguments),
        Command::Logits(arguments) => logits::run(&arguments),
        Command::Perplexity(arguments) => perplexity::run(&arguments),
        Command::Embed(arguments) => embed::run(&arguments),
        Command::Rerank(arguments) => rerank::run(&arguments),
        Command::Transcribe(arguments) => transcribe::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Quantize(arguments) => quantize::run(&arguments),
        Command::Imatrix(arguments) => imatrix::run(&arguments),
        Command::Synth(arguments) => synth::run(&arguments),
        Command::Pack(arguments) => pack::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Boot(arguments) => boot::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Learn(arguments) => learn::run(&arguments),
        Command::Completions(arguments) => {
            completions::completions(&arguments, Arguments::command())
        }
        Command::Man(arguments) => completions::man(&arguments, Arguments::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
