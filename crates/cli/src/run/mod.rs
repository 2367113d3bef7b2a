//! `strata run`: a prompt answered, or a chat.

mod answer;
mod chat;
mod constraint;
mod markdown;
mod media;
mod screen;
mod speculation;

use crate::computing::{ComputeArguments, DeviceArguments};
use crate::failure::{Failure, Kind};
use crate::fetching::FetchArguments;
use crate::peers::PeerArguments;
use crate::sampling::{self, SamplingArguments};
use constraint::ConstraintArguments;
use screen::{Look, Screen, Thoughts};
pub(crate) use speculation::SpeculationArguments;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use strata::load::{AdapterFile, BUILT_IN};
use strata::{Format, Generate, Message, Model, Options, Prompt as Asked, Role, Runtime, Sampling};
use strata_chat::Thinking;
use strata_platform::Pool;

/// Run a model: answer a prompt, or chat
///
/// With a PROMPT, prints the answer. Without one, starts a chat on a terminal, or else reads the prompt from standard
/// input. The same model, prompt and --seed give the same answer on every machine.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  strata run                                       chat with the built-in model
  strata run tale \"Tell me a story about a fox.\"
  strata run llama3.2:1b                           download it first if needed
  strata run model.gguf --temp 0 -n 64 \"The capital of France is\"
  strata run model.gguf --format schema.json \"Describe a fox.\"
  strata run model.gguf --system \"Answer in one word.\" < question.txt
  strata run model.gguf \"Summarize this:\" - < article.txt
  strata run gemma3 \"What is this?\" photo.jpg     a model that sees")]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name, which is downloaded if needed
    #[arg(default_value = BUILT_IN)]
    model: PathBuf,
    /// The prompt; `-` stands for standard input, and paths of image and audio files for what is in them
    prompt: Vec<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template; special tokens in it are parsed
    #[arg(long)]
    raw: bool,
    /// Maximum number of tokens to generate [default: until the context is full]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Stop before this text; can be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Context length in tokens [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    /// LoRA adapter: a GGUF file or a PEFT folder, optionally with a scale, as in PATH=0.5
    #[arg(long, value_name = "PATH[=SCALE]")]
    lora: Option<String>,
    /// Projector that lets the model see images or hear audio [default: the model's own, or *mmproj*.gguf beside its file]
    #[arg(long, value_name = "FILE")]
    mmproj: Option<PathBuf>,
    /// Print settings and timings to standard error
    #[arg(long)]
    verbose: bool,
    /// Do not render Markdown
    #[arg(long)]
    plain: bool,
    /// Do not wrap lines at words
    #[arg(long)]
    nowordwrap: bool,
    /// Turn thinking on or off, for models that support it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", conflicts_with = "raw")]
    think: Option<bool>,
    /// Do not show the thinking
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
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    peers: PeerArguments,
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

/// What comes after a model.
enum Next {
    Done,
    /// A chat goes on with another.
    Load(PathBuf),
}

impl Arguments {
    fn thoughts(&self) -> Thoughts {
        if self.hidethinking {
            Thoughts::Hidden
        } else {
            Thoughts::Shown
        }
    }

    fn thinking(&self) -> Thinking {
        match self.think {
            None => Thinking::Default,
            Some(true) => Thinking::On { budget: None },
            Some(false) => Thinking::Off,
        }
    }

    /// How models are opened.
    pub(crate) fn options(&self) -> Options {
        let options = self.device.add_to(self.compute.options());
        let mut options = options.requests(1);
        if let Some(context) = self.ctx {
            options = options.context(context as usize);
        }
        if let Some(path) = &self.mmproj {
            options = options.projector(path);
        }
        self.speculation.add_to(options)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let sampling = arguments.sampling.sampling()?;
    if arguments.stop.iter().any(String::is_empty) {
        return Err(Failure::new(Kind::Usage, "--stop is empty"));
    }
    let prompt = match prompt(arguments) {
        Prompt::Given(text) if text.is_empty() => return Err(no_prompt()),
        prompt => prompt,
    };
    let format = arguments.constraint.format()?;
    let lora = arguments.lora.as_deref().map(AdapterFile::parse);
    let lora = lora.transpose()?;
    let runtime = arguments.compute.runtime()?;
    let path = match arguments.compute.quant {
        Some(_) => arguments.model.clone(),
        None => arguments.fetch.bring(&arguments.model)?,
    };
    let mut options = arguments.peers.add_to(arguments.options())?;
    if let Some(mix) = arguments.compute.quant {
        options = options.quantize(mix);
    }
    if let Some(AdapterFile { path, scale }) = lora {
        options = options.adapter(path, scale);
    }
    let mut run = ModelRun {
        path,
        options,
        first: true,
        sampling,
        format,
    };
    let mut lines = None;
    while let Next::Load(path) = run.run(arguments, &runtime, &prompt, &mut lines)? {
        run = ModelRun {
            path,
            options: arguments.options(),
            first: false,
            ..run
        };
    }
    Ok(())
}

/// What is done with one model.
struct ModelRun {
    path: PathBuf,
    options: Options,
    /// Whether it is the one that the command line names.
    first: bool,
    /// What the flags say of sampling.
    sampling: Sampling,
    format: Format,
}

impl ModelRun {
    fn run(
        &self,
        arguments: &Arguments,
        runtime: &Runtime,
        prompt: &Prompt,
        lines: &mut Option<chat::Lines>,
    ) -> Result<Next, Failure> {
        let (path, options) = (&self.path, self.options.clone());
        let model = arguments.compute.open_model(runtime, path, options)?;
        let request = self.request(arguments, &model);
        check(&model, path)?;
        if arguments.verbose {
            describe(&model, runtime, &request);
        }
        let system = arguments.system.as_deref().filter(|_| self.first);
        let opening = opening(system, &model);
        let text = match prompt {
            Prompt::Chat => {
                let topic = chat::Topic {
                    arguments,
                    path: &self.path,
                    model: &model,
                    flags: &self.sampling,
                    opening,
                };
                return chat::run(topic, request, lines);
            }
            Prompt::Given(text) => text.clone(),
            Prompt::Piped(words) => {
                let text = read_stdin()?;
                let word = |word: &String| match word.as_str() {
                    STDIN => text.clone(),
                    word => media::word(word),
                };
                words.iter().map(word).collect::<Vec<_>>().join(" ")
            }
        };
        let lost = |(_, medium): &(PathBuf, media::Medium)| !medium.reaches(&model);
        if let Some((path, medium)) = media::files(&text).find(lost) {
            return Err(media::refused(&path, medium));
        }
        let request = Generate {
            prompts: vec![asked(arguments, &model, opening, text)?],
            ..request
        };
        let look = Look::of_output(arguments.plain, !arguments.nowordwrap);
        let screen = Screen::new(look, arguments.thoughts());
        let read = answer::read_bytes();
        let answer = answer::answer(&model, &request, &|| false, screen)?;
        if arguments.verbose {
            let read = answer::read_bytes().saturating_sub(read);
            answer.report(&request, model.load_report(), read);
        } else if answer.is_full {
            note_full(model.context());
        }
        Ok(Next::Done)
    }

    /// What is asked with every prompt: all but the prompt itself.
    fn request(&self, arguments: &Arguments, model: &Model) -> Generate {
        let mut sampling = self.sampling.clone();
        sampling.seed = sampling
            .seed
            .or(model.profile().sampling.seed)
            .or_else(|| Some(sampling::random_seed()));
        Generate {
            sampling,
            max_tokens: arguments.max_tokens.map(|n| n as usize),
            stop: arguments.stop.clone(),
            format: self.format.clone(),
            thinking: arguments.thinking(),
            preset: false,
            // Each is counted.
            tokens: true,
            ..Generate::new("", Asked::Chat(Vec::new()))
        }
    }
}

/// Refuses a model that generates no text, and warns of a context that it was not trained for.
fn check(model: &Model, path: &Path) -> Result<(), Failure> {
    if model.profile().encoder {
        let sentence = format_args!(
            "{} is an encoder, which cannot generate text",
            path.display()
        );
        return Err(
            Failure::new(Kind::Usage, sentence).hint("use `strata embed` or `strata rerank`")
        );
    }
    let trained = model.facts().trained_context;
    if model.context() > trained {
        eprintln!(
            "note: the model was trained for a context of {trained} tokens; beyond it, answers get worse"
        );
    }
    Ok(())
}

fn describe(model: &Model, runtime: &Runtime, request: &Generate) {
    let machine = runtime.machine();
    eprintln!(
        "isa {}, threads {}, seed {}",
        machine.kernels.isa(),
        machine.pool.workers(),
        request.sampling.seed.unwrap_or_default()
    );
    eprintln!("{}", model.load_report().description);
}

/// What every conversation begins with: the system prompt that was asked for, or else the model's, and the model's
/// messages.
fn opening(system: Option<&str>, model: &Model) -> Vec<Message> {
    let profile = model.profile();
    let system = system.or(profile.system.as_deref());
    let system = system.filter(|text| !text.is_empty());
    let system = system.map(strata::system);
    system
        .into_iter()
        .chain(profile.messages.iter().cloned())
        .collect()
}

/// Whether a model is given texts as they are.
fn is_raw(arguments: &Arguments, model: &Model) -> bool {
    arguments.raw || model.profile().template.is_none()
}

/// A text as the model is asked: through its template, after the beginning of the conversation, or as it is.
fn asked(
    arguments: &Arguments,
    model: &Model,
    mut before: Vec<Message>,
    text: String,
) -> Result<Asked, Failure> {
    if is_raw(arguments, model) {
        return Ok(Asked::text(text));
    }
    before.push(said(model, text)?);
    Ok(Asked::Chat(before))
}

/// What the user says, with the images and the audio that it names where the model perceives them.
fn said(model: &Model, text: String) -> Result<Message, Failure> {
    let profile = model.profile();
    if profile.sight.is_some() || profile.ears.is_some() {
        return media::message(&text, |medium| medium.reaches(model));
    }
    Ok(Message::text(Role::User, text))
}

fn prompt(arguments: &Arguments) -> Prompt {
    match arguments.prompt.as_slice() {
        [] if std::io::stdin().is_terminal() => Prompt::Chat,
        [] => Prompt::Piped(vec![STDIN.into()]),
        words if words.iter().any(|word| word == STDIN) => Prompt::Piped(words.to_vec()),
        words => {
            let words: Vec<_> = words.iter().map(|word| media::word(word)).collect();
            Prompt::Given(words.join(" "))
        }
    }
}

fn no_prompt() -> Failure {
    Failure::new(Kind::Usage, "the prompt is empty")
        .hint("put it after the model: strata run tale \"Once upon a time\"")
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
    eprintln!("note: the context of {context} tokens is full; use --ctx for a larger one");
}
