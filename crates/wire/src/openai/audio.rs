//! `/v1/audio/transcriptions` and `/v1/audio/translations`: forms with a file, answered in one of five ways or as events.

use crate::answer::{Framing, Reply};
use crate::call::{Call, TranscriptWriter};
use crate::multipart::{self, Field};
use crate::openai::errors;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{Fault, Segment, Transcribe, Transcript};

/// How a transcript is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Text,
    Srt,
    VerboseJson,
    Vtt,
}

impl Format {
    fn of(field: &Field<'_>) -> Result<Self, Fault> {
        Ok(match &*field.text()? {
            "json" => Self::Json,
            "text" => Self::Text,
            "srt" => Self::Srt,
            "verbose_json" => Self::VerboseJson,
            "vtt" => Self::Vtt,
            _ => return Err(field.refused("must be json, text, srt, verbose_json or vtt")),
        })
    }
}

struct Writer {
    format: Format,
    stream: bool,
    written: bool,
}

pub(super) fn transcribe(body: &[u8]) -> Result<Call, Fault> {
    open(body, false)
}

pub(super) fn translate(body: &[u8]) -> Result<Call, Fault> {
    open(body, true)
}

fn open(body: &[u8], translate: bool) -> Result<Call, Fault> {
    let mut request = Transcribe {
        translate,
        ..Transcribe::default()
    };
    let (mut format, mut stream, mut file) = (Format::Json, false, None);
    for field in multipart::parse(body)? {
        match field.name {
            "file" => file = Some(field.value),
            "model" => request.model = field.text()?,
            "language" if !translate => {
                let language = field.text()?;
                request.language = Some(language).filter(|language| !language.is_empty());
            }
            "prompt" => request.prompt = Some(field.text()?),
            "response_format" => format = Format::of(&field)?,
            "temperature" => {
                let number = field.text()?.trim().parse::<f32>().ok();
                let number = number.filter(|number| (0.0..=1.0).contains(number));
                let problem = "must be a number from 0 to 1";
                request.temperature = Some(number.ok_or_else(|| field.refused(problem))?);
            }
            "timestamp_granularities[]" | "timestamp_granularities" if !translate => {
                match &*field.text()? {
                    "word" => request.words = true,
                    "segment" => {}
                    _ => return Err(field.refused("must be word or segment")),
                }
            }
            "stream" => {
                stream = match &*field.text()?.to_ascii_lowercase() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(field.refused("must be true or false")),
                }
            }
            _ => return Err(field.refused("is not supported here")),
        }
    }
    let file = file.filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| multipart::refused("file", "an audio file is needed"))?;
    if request.words && format != Format::VerboseJson {
        let problem = "words have times only in verbose_json";
        return Err(multipart::refused("timestamp_granularities", problem));
    }
    if stream && format != Format::Json {
        return Err(multipart::refused("stream", "events need the format json"));
    }
    request.audio = file.into();
    let writer = Writer {
        format,
        stream,
        written: false,
    };
    Ok(Call::Transcribe(Box::new(request), Box::new(writer)))
}

/// What it took: seconds of sound.
fn usage(transcript: &Transcript) -> Json {
    let seconds = transcript.duration as i64 + i64::from(transcript.duration % 1.0 > 0.0);
    Json::object([("type", "duration".into()), ("seconds", Json::Int(seconds))])
}

fn event(value: &Json, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    value.write(out);
    out.extend_from_slice(b"\n\n");
}

impl TranscriptWriter for Writer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn segment(&mut self, segment: &Segment, out: &mut Vec<u8>) {
        // The text as a whole begins without a space.
        let text = if self.written {
            segment.text.as_str()
        } else {
            segment.text.trim_start()
        };
        self.written = true;
        let delta = Json::object([
            ("type", "transcript.text.delta".into()),
            ("delta", text.into()),
        ]);
        event(&delta, out);
    }

    fn done(&mut self, transcript: &Transcript, out: &mut Vec<u8>) {
        let done = Json::object([
            ("type", "transcript.text.done".into()),
            ("text", transcript.text().into()),
            ("usage", usage(transcript)),
        ]);
        event(&done, out);
    }

    fn failed(&mut self, fault: &Fault, out: &mut Vec<u8>) {
        event(&errors::document(fault), out);
    }

    fn reply(&self, transcript: &Transcript) -> Reply {
        let typed = |content_type, text: &str| Reply {
            content_type,
            ..Reply::text(text)
        };
        match self.format {
            Format::Json => Reply::json(&Json::object([
                ("text", transcript.text().into()),
                ("usage", usage(transcript)),
            ])),
            Format::Text => Reply::text(&(transcript.text() + "\n")),
            Format::Srt => Reply::text(&transcript.srt()),
            Format::Vtt => typed("text/vtt; charset=utf-8", &transcript.vtt()),
            Format::VerboseJson => {
                let mut document = transcript.json();
                document.push("usage", usage(transcript));
                Reply::json(&document)
            }
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }
}
