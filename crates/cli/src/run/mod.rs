//! `strata run`: a prompt answered, or a chat.

mod answer;
mod chat;
mod constraint;
mod guessing;
mod story;

use crate::adapter_file::AdapterFile;
use crate::chat_template::ChatTemplate;
use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::loaded_model::{CheckedModel, Words};
use crate::model_file::{BUILT_IN, ModelFile};
use crate::sampling::SamplingArguments;
use answer::Speaker;
use constraint::ConstraintArguments;
pub(crate) use guessing::SpeculationArguments;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;
use strata_engine::{AdapterId, Engine, EngineOptions, FinishReason};
use strata_model::Model;
use strata_platform::Pool;
use strata_service::prompt;
use strata_wire::lang::{Message, Role};

/// Answer a prompt, or chat
///
/// With a PROMPT the answer goes to standard output. Without one a terminal opens a chat, and anything else is read as
/// the prompt. The same model, prompt and --seed give the same answer on every machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata run                                       chat with the built-in model
  strata run tale \"Tell me a story about a fox.\"
  strata run model.gguf --temp 0 -n 64 \"The capital of France is\"
  strata run model.gguf --format schema.json \"Describe a fox.\"
  strata run model.gguf --system \"Answer in one word.\" < question.txt")]
pub(crate) struct Arguments {
    /// The model's file, or `tale` for the built-in model
    #[arg(default_value = BUILT_IN)]
    model: PathBuf,
    /// What to answer; `-` reads standard input
    prompt: Option<String>,
    /// What the model is told before the conversation
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the model's chat template; control tokens in it are read as such
    #[arg(long)]
    raw: bool,
    /// Tokens to generate at most [default: as many as the context has room for]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// End the answer before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Tokens of prompt and answer together [default: the model's context, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// A LoRA adapter, as a GGUF file or a PEFT folder, perhaps with its strength: PATH or PATH=0.5
    #[arg(long, value_name = "PATH[=SCALE]")]
    lora: Option<String>,
    /// Tell on standard error what ran and how fast
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    sampling: SamplingArguments,
    #[command(flatten)]
    constraint: ConstraintArguments,
    #[command(flatten)]
    speculation: SpeculationArguments,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// Where prompts come from.
enum Prompt {
    Given(String),
    /// On standard input, which may take its time: it is read when the model is there.
    Piped,
    Chat,
}

/// How a prompt becomes tokens.
enum Style<'t> {
    /// Through the model's template.
    Chat(ChatTemplate<'t>),
    /// As it is.
    Raw,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut sampling = arguments.sampling.settings()?;
    if arguments.stop.iter().any(String::is_empty) {
        return Err(Failure::new(Kind::Usage, "--stop has an empty text"));
    }
    let prompt = match prompt(arguments) {
        Prompt::Given(text) if text.is_empty() => return Err(no_prompt()),
        prompt => prompt,
    };
    let grammar = arguments.constraint.grammar()?;
    let lora = arguments.lora.as_deref().map(AdapterFile::parse);
    let lora = lora.transpose()?;
    let machine = arguments.compute.machine()?;
    let context = arguments.ctx.map(|ctx| ctx as usize);
    let file = ModelFile::open_as(&arguments.model, arguments.compute.quant)?;
    let checked = CheckedModel::new(&file, context, Words::Required)?;
    let guess = &arguments.speculation;
    let draft_file = guess.draft.as_deref().map(ModelFile::open).transpose()?;
    let mut needs = guess.needs(
        &checked,
        arguments.compute.batch.into(),
        arguments.compute.kv.into(),
        machine.pool.workers(),
    );
    let (draft, draft_kv) = match &draft_file {
        Some(file) => {
            let (draft, kv) = guess.load(file, &mut needs, &arguments.compute, &machine)?;
            (Some(draft), Some(kv))
        }
        None => (None, None),
    };
    let (loaded, kv) = checked.load(
        needs,
        arguments.compute.stream,
        &arguments.compute,
        &machine,
    )?;
    let tokenizer = loaded.tokenizer()?;
    arguments.sampling.add_breakers(&mut sampling, tokenizer);
    let trained = loaded.model.config().context;
    if loaded.context > trained {
        eprintln!(
            "note: the model was trained for {trained} positions; past them its answers get worse"
        );
    }
    if arguments.verbose {
        eprintln!(
            "isa {}, threads {}, seed {}",
            machine.kernels.isa(),
            machine.pool.workers(),
            sampling.seed
        );
        loaded.describe("weights", &kv);
        if let (Some(draft), Some(kv)) = (&draft, &draft_kv) {
            draft.describe("draft weights", kv);
        }
    }
    let options = EngineOptions {
        context: loaded.context,
        batch: arguments.compute.batch.into(),
        requests: 1,
        ..EngineOptions::default()
    };
    let engine = Engine::new(&loaded.model, tokenizer, machine.compute(), kv, options);
    let mut engine = guess.engine(engine, draft.as_ref().zip(draft_kv))?;
    let adapter = match &lora {
        Some(file) => Some(add_adapter(&mut engine, file, &loaded.model)?),
        None => None,
    };
    let style = match &loaded.template {
        Some(source) if !arguments.raw => Style::Chat(ChatTemplate::new(source, tokenizer)?),
        _ => Style::Raw,
    };
    let constraint = match &grammar {
        Some(grammar) => Some(constraint::compile(grammar, tokenizer)?),
        None => None,
    };
    let mut speaker = Speaker {
        engine,
        adapter,
        constraint,
        model: &arguments.model,
        tokenizer,
        sampling,
        max_tokens: arguments.max_tokens.map(|n| n as usize),
        stop: arguments.stop.clone(),
        context: loaded.context,
        verbose: arguments.verbose,
        speculation: guess.speculation(),
        streams: loaded.model.streamed_bytes() > 0,
    };
    let system = arguments.system.as_deref();
    let text = match prompt {
        Prompt::Chat => return chat::run(&mut speaker, &style, system),
        Prompt::Given(text) => text,
        Prompt::Piped => read_stdin()?,
    };
    let answer = match &style {
        Style::Raw => speaker.answer(prompt::raw(tokenizer, &text), "", &|| false),
        Style::Chat(template) => {
            let beginning = speaker.beginning(&text).to_owned();
            let prompt = template.encode(&opening(system, text))?;
            speaker.answer(prompt, &beginning, &|| false)
        }
    }?;
    if answer.reason == Some(FinishReason::ContextFull) && !arguments.verbose {
        note_full(loaded.context);
    }
    Ok(())
}

fn add_adapter(
    engine: &mut Engine<'_>,
    file: &AdapterFile,
    model: &Model<'_>,
) -> Result<AdapterId, Failure> {
    let adapter = Arc::new(file.load(model)?);
    let added = engine.add_adapter(adapter, file.scale);
    added.map_err(|error| Failure::new(Kind::BadModel, error))
}

/// The first messages of a conversation.
fn opening(system: Option<&str>, user: String) -> Vec<Message> {
    let system = system.map(|text| Message::text(Role::System, text));
    let user = Message::text(Role::User, user);
    system.into_iter().chain([user]).collect()
}

fn prompt(arguments: &Arguments) -> Prompt {
    match arguments.prompt.as_deref() {
        Some("-") => Prompt::Piped,
        Some(text) => Prompt::Given(text.to_owned()),
        None if std::io::stdin().is_terminal() => Prompt::Chat,
        None => Prompt::Piped,
    }
}

fn no_prompt() -> Failure {
    Failure::new(Kind::Usage, "the prompt is empty")
        .hint("give it after the model: strata run tale \"Once upon a time\"")
}

/// Standard input without the newline that ends its last line.
fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::io("standard input", &error))?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.is_empty() {
        return Err(no_prompt());
    }
    Ok(text)
}

fn note_full(context: usize) {
    eprintln!("note: the context of {context} tokens is full; --ctx sets its size");
}
