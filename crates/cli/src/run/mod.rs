//! `strata run`: a prompt answered, or a chat.

mod answer;
mod chat;
mod constraint;
mod guessing;
mod markdown;
mod screen;
mod story;

use crate::chat_template::{Asked, ChatTemplate};
use crate::computing::{ComputeArguments, open_as};
use crate::failure::{Failure, Kind};
use crate::fetching::FetchArguments;
use crate::sampling::SamplingArguments;
use answer::Speaker;
use constraint::ConstraintArguments;
pub(crate) use guessing::SpeculationArguments;
use screen::{Look, Screen, Thoughts};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata::load::AdapterFile;
use strata::load::Machine;
use strata::load::Preset;
use strata::load::{BUILT_IN, ModelFile};
use strata::load::{CheckedModel, TokenizerUse};
use strata_chat::{Message, Role, Sampling, Thinking, prompt};
use strata_constrain::Grammar;
use strata_engine::{AdapterId, Engine, EngineOptions, FinishReason};
use strata_model::Model;
use strata_platform::Pool;
use strata_tokenizer::Tokenizer;

/// Answer a prompt, or chat
///
/// With a PROMPT the answer goes to standard output. Without one a terminal opens a chat, and anything else is read as
/// the prompt. The same model, prompt and --seed give the same answer on every machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata run                                       chat with the built-in model
  strata run tale \"Tell me a story about a fox.\"
  strata run llama3.2:1b                           fetch it first if it is not here
  strata run model.gguf --temp 0 -n 64 \"The capital of France is\"
  strata run model.gguf --format schema.json \"Describe a fox.\"
  strata run model.gguf --system \"Answer in one word.\" < question.txt
  strata run model.gguf \"Summarize this:\" - < article.txt")]
pub(crate) struct Arguments {
    /// The model's file or folder, or its name, under which it is fetched if it is not here; `tale` is built in
    #[arg(default_value = BUILT_IN)]
    model: PathBuf,
    /// What to answer; `-` stands for what is on standard input
    prompt: Vec<String>,
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
    /// Show answers as they are, also on a terminal: no styles for their markdown
    #[arg(long)]
    plain: bool,
    /// Leave long lines to the terminal
    #[arg(long)]
    nowordwrap: bool,
    /// Ask a model that can think to do so, or not to
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", conflicts_with = "raw")]
    think: Option<bool>,
    /// Show only the answer of a model that thinks
    #[arg(long)]
    hidethinking: bool,
    #[command(flatten)]
    sampling: SamplingArguments,
    #[command(flatten)]
    constraint: ConstraintArguments,
    #[command(flatten)]
    speculation: SpeculationArguments,
    #[command(flatten)]
    fetch: FetchArguments,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// The word that stands for standard input.
const STDIN: &str = "-";

/// Where prompts come from.
enum Prompt {
    Given(String),
    /// Words with standard input among them, which may take its time: it is read when the model is there.
    Piped(Vec<String>),
    Chat,
}

/// How a prompt becomes tokens.
enum Style<'t> {
    /// Through the model's template.
    Chat(ChatTemplate<'t>),
    /// As it is.
    Raw,
}

/// What comes after a model.
enum Next {
    Done,
    /// A chat goes on with another.
    Load(PathBuf),
}

impl Arguments {
    fn thoughts(&self) -> Thoughts {
        match self.hidethinking {
            true => Thoughts::Hidden,
            false => Thoughts::Shown,
        }
    }

    fn thinking(&self) -> Thinking {
        match self.think {
            None => Thinking::Default,
            Some(true) => Thinking::On { budget: None },
            Some(false) => Thinking::Off,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let nothing = Sampling::default();
    arguments.sampling.settings(&nothing, &nothing)?;
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
    let model = match arguments.compute.quant {
        Some(_) => arguments.model.clone(),
        None => arguments.fetch.bring(&arguments.model)?,
    };
    let mut next = Next::Load(model);
    let mut first = true;
    while let Next::Load(model) = next {
        let task = Task {
            model: &model,
            first,
            prompt: &prompt,
            grammar: grammar.as_ref(),
            lora: lora.as_ref().filter(|_| first),
        };
        next = task.run(arguments, &machine)?;
        first = false;
    }
    Ok(())
}

/// What is done with one model.
struct Task<'t> {
    model: &'t Path,
    /// Whether it is the one that the command line names.
    first: bool,
    prompt: &'t Prompt,
    grammar: Option<&'t Grammar>,
    lora: Option<&'t AdapterFile>,
}

impl Task<'_> {
    fn run(&self, arguments: &Arguments, machine: &Machine) -> Result<Next, Failure> {
        let nothing = Sampling::default();
        let context = arguments.ctx.map(|ctx| ctx as usize);
        let quant = arguments.compute.quant.filter(|_| self.first);
        let file = open_as(self.model, quant)?;
        let checked = CheckedModel::new(&file, context, TokenizerUse::Required)?;
        let preset = checked.preset();
        let parameters = preset.map(|preset| preset.parameters.clone());
        let parameters = parameters.unwrap_or_default();
        let mut sampling = arguments
            .sampling
            .settings(&nothing, &parameters.sampling)?;
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
                let (draft, kv) = guess.load(file, &mut needs, &arguments.compute, machine)?;
                (Some(draft), Some(kv))
            }
            None => (None, None),
        };
        let (loaded, kv) = arguments.compute.load(checked, needs, machine)?;
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
            eprintln!("{}", loaded.description("weights", &kv));
            if let (Some(draft), Some(kv)) = (&draft, &draft_kv) {
                eprintln!("{}", draft.description("draft weights", kv));
            }
        }
        let options = EngineOptions {
            context: loaded.context,
            batch: arguments.compute.batch.into(),
            requests: 1,
            max_draft: guess.guesses(),
            ..EngineOptions::default()
        };
        machine.settle();
        let executor = Box::new(machine.executor(&loaded.model, kv, options.limits()));
        let engine = Engine::new(executor, loaded.shared_tokenizer()?, options);
        let mut engine = guess.engine(engine, draft.as_ref().zip(draft_kv), machine)?;
        let own = own_adapter(preset)?;
        let adapter = match self.lora.or(own.as_ref()) {
            Some(file) => Some(add_adapter(&mut engine, file, &loaded.model)?),
            None => None,
        };
        let style = match &loaded.template {
            Some(text) if !arguments.raw => Style::Chat(ChatTemplate::new(text, tokenizer)?),
            _ => Style::Raw,
        };
        let constraint = match self.grammar {
            Some(grammar) => Some(constraint::compile(grammar, tokenizer)?),
            None => None,
        };
        let mut speaker = Speaker {
            engine,
            constraint,
            model: self.model,
            tokenizer,
            sampling,
            adapter,
            max_tokens: arguments
                .max_tokens
                .map(|n| n as usize)
                .or(parameters.max_tokens),
            stop: match arguments.stop.is_empty() {
                true => parameters.stop,
                false => arguments.stop.clone(),
            },
            context: loaded.context,
            verbose: arguments.verbose,
            speculation: guess.speculation(),
            streams: loaded.model.streamed_bytes() > 0,
        };
        let system = arguments.system.as_deref().filter(|_| self.first);
        let opening = opening(system, preset);
        let text = match self.prompt {
            Prompt::Chat => {
                let topic = chat::Topic {
                    arguments,
                    model: self.model,
                    file: &file,
                    template: loaded.template.as_ref(),
                    opening,
                    first: self.first,
                };
                return chat::run(&mut speaker, &style, topic);
            }
            Prompt::Given(text) => text.clone(),
            Prompt::Piped(words) => {
                let text = read_stdin()?;
                let word = |word: &String| match word.as_str() {
                    STDIN => text.clone(),
                    word => word.to_owned(),
                };
                words.iter().map(word).collect::<Vec<_>>().join(" ")
            }
        };
        let look = Look::of_output(arguments.plain, !arguments.nowordwrap);
        let screen = Screen::new(look, arguments.thoughts());
        let answer = match &style {
            Style::Raw => speaker.answer(raw(tokenizer, &text), "", &|| false, screen),
            Style::Chat(template) => {
                let beginning = speaker.beginning(&text).to_owned();
                let messages = [opening, vec![Message::text(Role::User, text)]].concat();
                let prompt = template.encode(&messages, arguments.thinking())?;
                speaker.answer(prompt, &beginning, &|| false, screen)
            }
        }?;
        if answer.reason == Some(FinishReason::ContextFull) && !arguments.verbose {
            note_full(loaded.context);
        }
        Ok(Next::Done)
    }
}

/// What every conversation begins with: the system prompt that was asked for, or else the model's, and the model's
/// messages.
fn opening(system: Option<&str>, preset: Option<&Preset>) -> Vec<Message> {
    let system = system.or_else(|| preset?.system.as_deref());
    let system = system.filter(|text| !text.is_empty());
    let system = system.map(|text| Message::text(Role::System, text));
    let messages = preset.map_or(&[][..], |preset| &preset.messages);
    system.into_iter().chain(messages.iter().cloned()).collect()
}

/// The adapter of a model of the store.
fn own_adapter(preset: Option<&Preset>) -> Result<Option<AdapterFile>, Failure> {
    match preset.map_or(&[][..], |preset| &preset.adapters) {
        [] => Ok(None),
        [path] => Ok(Some(AdapterFile {
            path: path.clone(),
            scale: 1.0,
        })),
        _ => {
            let sentence = "the model has several adapters, and one at a time can be used";
            Err(Failure::new(Kind::BadModel, sentence))
        }
    }
}

/// A text to be continued as it is.
fn raw(tokenizer: &Tokenizer, text: &str) -> Asked {
    Asked {
        tokens: prompt::raw(tokenizer, text),
        ..Asked::default()
    }
}

fn add_adapter(
    engine: &mut Engine,
    file: &AdapterFile,
    model: &Model,
) -> Result<AdapterId, Failure> {
    let adapter = Arc::new(file.load(model)?);
    let added = engine.add_adapter(adapter, file.scale);
    added.map_err(|error| Failure::new(Kind::BadModel, error))
}

fn prompt(arguments: &Arguments) -> Prompt {
    match arguments.prompt.as_slice() {
        [] if std::io::stdin().is_terminal() => Prompt::Chat,
        [] => Prompt::Piped(vec![STDIN.into()]),
        words if words.iter().any(|word| word == STDIN) => Prompt::Piped(words.to_vec()),
        words => Prompt::Given(words.join(" ")),
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
