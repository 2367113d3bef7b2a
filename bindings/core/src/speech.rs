//! Speech: audio files that are asked about, and transcripts on their way.

use crate::model::Model;
use crate::request::{read, stamp};
use crate::source::{split, text};
use crate::stream::{Ending, JsonStream, Shared};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use strata::chat_types::Fault;
use strata::chat_types::json::JsonPath;
use strata::{AudioLimits, Error, ErrorKind, Hearing, Json, Transcribe, Transcriber};
use strata_wire::Framing;
use strata_wire::call::{Call, TranscriptWriter};

/// Where OpenAI's clients send speech.
const ROUTES: [&str; 2] = ["/v1/audio/transcriptions", "/v1/audio/translations"];

/// Separates the fields of forms. Values with it in them are refused.
const BOUNDARY: &str = "--strata-2f1c9d04b7e8";

/// Whether a path is one for speech.
pub(crate) fn hears(path: &str) -> bool {
    ROUTES.contains(&path)
}

/// Where a request's sound is.
enum Sound {
    /// In the form that was sent.
    Sent,
    /// In a file.
    File(String),
    /// In the request, as base64.
    Data(String),
}

/// Transcribes an audio file on a thread of its own. The body is OpenAI's form, or an object of its fields, whose `file` is a
/// path or a `data:` URL.
pub(crate) fn request(model: &Model, path: &str, body: &[u8]) -> Result<JsonStream, Error> {
    let transcriber = model.speech()?.clone();
    let (form, sound) = if body.starts_with(b"--") {
        (body.to_vec(), Sound::Sent)
    } else {
        form(body)?
    };
    let Call::Transcribe(request, writer) = read(path, &form, &stamp())? else {
        let what = "speech is no speech: this is a bug";
        return Err(Error::new(ErrorKind::Internal, what));
    };
    let stream = JsonStream::new(None);
    let shared = stream.shared();
    let work = move || {
        let run = || transcribe(&transcriber, *request, sound, writer, &shared);
        let bug = || {
            let what = "the transcription broke off: this is a bug";
            Err(Error::new(ErrorKind::Internal, what))
        };
        shared.end(catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| bug()));
    };
    let thread = std::thread::Builder::new().name("hear".into()).spawn(work);
    thread.map_err(|error| Error::io("a thread for the transcription", &error))?;
    Ok(stream)
}

/// The form of an object, but for its sound, which it would only copy.
fn form(body: &[u8]) -> Result<(Vec<u8>, Sound), Error> {
    let Json::Object(fields) = Json::parse(body)? else {
        return Err(Fault::bad_request("the request must be a JSON object").into());
    };
    let mut file = String::new();
    let mut form = Vec::new();
    let mut add = |name: &str, value: &str| {
        let line = format!("{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        form.extend(line.bytes().chain(value.bytes()).chain(*b"\r\n"));
    };
    for (name, value) in fields {
        let refused = |problem: &str| {
            let path = JsonPath::root().field(&name);
            Error::from(Fault::field(&path, format_args!("{problem}")))
        };
        if name == "file" {
            file = JsonPath::root().field(&name).string(value)?;
            continue;
        }
        let values = match value {
            Json::Null => continue,
            Json::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let value = match value {
                Json::String(text) => text,
                value @ (Json::Bool(_) | Json::Int(_) | Json::Float(_)) => value.text(),
                _ => return Err(refused("must be a text, a number, or a list of them")),
            };
            if name.contains(['"', '\r', '\n']) || value.contains(BOUNDARY) {
                return Err(refused("is not supported here"));
            }
            add(&name, &value);
        }
    }
    // A form without sound is refused: some stands for what is read later.
    let placeholder = if file.is_empty() { "" } else { "sound" };
    add("file", placeholder);
    form.extend(format!("{BOUNDARY}--\r\n").bytes());
    let sound = match file.strip_prefix("data:") {
        None => Sound::File(file),
        Some(rest) => match rest.split_once(";base64,") {
            Some((_, data)) => Sound::Data(data.to_owned()),
            None => {
                let path = JsonPath::root().field("file");
                return Err(Fault::field(&path, format_args!("must have ;base64, in it")).into());
            }
        },
    };
    Ok((form, sound))
}

impl Sound {
    /// The bytes of the file, unless they are where they belong.
    fn read(self, limits: AudioLimits) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Self::Sent => Ok(None),
            Self::Data(data) => {
                let bytes = STANDARD.decode(data);
                let bad = |error| {
                    let what = format!("file is not base64: {error}");
                    Error::new(ErrorKind::InvalidArgument, what)
                };
                bytes.map(Some).map_err(bad)
            }
            Self::File(path) => {
                let io = |error: std::io::Error| Error::io(&path, &error);
                let size = std::fs::metadata(&path).map_err(io)?.len();
                if size > limits.bytes as u64 {
                    let what = format!("{path} has {size} bytes; {} are allowed", limits.bytes);
                    return Err(Error::new(ErrorKind::InvalidArgument, what));
                }
                std::fs::read(&path).map(Some).map_err(io)
            }
        }
    }
}

/// Does what a request for speech asks for. What is heard goes to the stream at once if it was asked for so.
fn transcribe(
    transcriber: &Transcriber,
    mut request: Transcribe,
    sound: Sound,
    mut writer: Box<dyn TranscriptWriter>,
    shared: &Shared,
) -> Result<Ending, Error> {
    let limits = AudioLimits::default();
    if let Some(bytes) = sound.read(limits)? {
        request.audio = bytes.into();
    }
    let framing = writer.framing();
    let mut bytes = Vec::new();
    let transcript = transcriber.transcribe(&request, limits, &mut |event| {
        if shared.is_canceled() {
            return ControlFlow::Break(());
        }
        if framing != Framing::Whole
            && let Hearing::Segment(segment) = event
        {
            writer.segment(segment, &mut bytes);
            tell(shared, framing, &mut bytes);
        }
        ControlFlow::Continue(())
    })?;
    if framing != Framing::Whole {
        writer.done(&transcript, &mut bytes);
        tell(shared, framing, &mut bytes);
        return Ok(Ending::Told);
    }
    let reply = writer.reply(&transcript);
    let words = text(&reply);
    // Subtitles and plain text are a document too.
    let is_json = reply.content_type.starts_with("application/json");
    Ok(Ending::Document(if is_json {
        words
    } else {
        Json::object([("text", words.into())]).text()
    }))
}

/// Gives the stream what was written.
fn tell(shared: &Shared, framing: Framing, bytes: &mut Vec<u8>) {
    let mut documents = VecDeque::new();
    split(framing, false, bytes, &mut documents);
    for document in documents {
        shared.add(document);
    }
}

/// What is known of a model for speech, in the words of other models.
pub(crate) fn facts(model: &Transcriber) -> Json {
    let facts = model.facts();
    Json::object([
        ("name", model.name().into()),
        ("family", facts.family.into()),
        ("context", facts.context.into()),
        ("trained_context", facts.context.into()),
        ("embedding", facts.width.into()),
        ("vocabulary", facts.vocabulary.into()),
        ("capabilities", Json::array(["transcription".into()])),
        ("adapters", Json::array([])),
    ])
}
