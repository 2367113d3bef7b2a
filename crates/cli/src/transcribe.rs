//! `strata transcribe`: speech as text.

use crate::failure::{Failure, Kind};
use crate::progress::bar;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use strata::{AudioLimits, Hearing, Transcribe, Transcriber, Transcript};

/// Transcribe speech
#[derive(clap::Args)]
#[command(after_help = "\
Reads WAV, FLAC, MP3 and Ogg Vorbis. With --format text, prints each piece of text as soon as it is heard.

Examples:
  strata transcribe whisper-small.gguf talk.mp3
  strata transcribe whisper-small.gguf talk.mp3 --format srt > talk.srt
  strata transcribe openai/whisper-small interview.wav --language de --translate
  strata transcribe ./wav2vec2-base-960h talk.wav --words --format json")]
pub(crate) struct Arguments {
    /// The model: a .gguf file or Hugging Face folder of Whisper, Wav2Vec2 or HuBERT, or a file of whisper.cpp
    model: PathBuf,
    /// The audio file
    file: PathBuf,
    /// How to print what is said
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
    /// Language that is spoken, such as en [default: detected]
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// Translate into English
    #[arg(long)]
    translate: bool,
    /// Text that came before, or names and words to expect
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// How freely to choose words, from 0 to 1 [default: 0, and more where the text reads badly]
    #[arg(long, value_name = "T", value_parser = temperature)]
    temperature: Option<f32>,
    /// Give each word its time; needs --format json
    #[arg(long)]
    words: bool,
    /// Number of worker threads [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// How a transcript is printed.
#[derive(Copy, Clone, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The text alone
    #[default]
    Text,
    /// SubRip subtitles
    Srt,
    /// WebVTT subtitles
    Vtt,
    /// Everything, as JSON
    Json,
}

fn temperature(text: &str) -> Result<f32, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1".into())
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.words && arguments.format != Format::Json {
        let sentence = "--words needs --format json";
        return Err(Failure::new(Kind::Usage, sentence));
    }
    let limits = AudioLimits::default();
    let path = &arguments.file;
    let io = |error| Failure::io(path.display(), &error);
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    if bytes > limits.bytes as u64 {
        let sentence = format_args!(
            "{} has {bytes} bytes; {} are allowed",
            path.display(),
            limits.bytes
        );
        return Err(Failure::new(Kind::Usage, sentence));
    }
    let request = Transcribe {
        audio: std::fs::read(path).map_err(io)?.into(),
        language: arguments.language.clone(),
        translate: arguments.translate,
        prompt: arguments.prompt.clone(),
        temperature: arguments.temperature,
        words: arguments.words,
        ..Transcribe::default()
    };
    let threads = arguments.threads.map(usize::from);
    let transcriber = Transcriber::open(&arguments.model, threads)?;
    let shown = bar(0, "hearing {wide_bar} {pos}/{len} s");
    let mut printed = Ok(());
    let text = arguments.format == Format::Text;
    let transcript = transcriber.transcribe(&request, limits, &mut |event| {
        match event {
            Hearing::Segment(segment) if text => {
                shown.suspend(|| printed = writeln!(std::io::stdout(), "{}", segment.text.trim()));
            }
            Hearing::Progress(done, all) => {
                shown.set_length(all.ceil() as u64);
                shown.set_position(done as u64);
            }
            _ => {}
        }
        match &printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    shown.finish_and_clear();
    printed.map_err(|error| Failure::stdout(&error))?;
    let transcript = transcript?;
    print(&transcript, arguments.format).map_err(|error| Failure::stdout(&error))
}

fn print(transcript: &Transcript, format: Format) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match format {
        // It was printed as it came.
        Format::Text => {}
        Format::Srt => out.write_all(transcript.srt().as_bytes())?,
        Format::Vtt => out.write_all(transcript.vtt().as_bytes())?,
        Format::Json => {
            let mut bytes = Vec::new();
            transcript.json().write(&mut bytes);
            bytes.push(b'\n');
            out.write_all(&bytes)?;
        }
    }
    out.flush()
}
