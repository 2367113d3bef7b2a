//! Requests: the body of one of the server's routes, read by the same code, answered by one model.

use crate::image_urls;
use crate::jobs;
use crate::model::TextModel;
use crate::session::SessionRun;
use crate::source::{Answer, Source, VectorRun, text};
use crate::speech;
use crate::stream::{Ending, JsonStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strata::chat_types::{Embeddings, Fault, FaultKind, Ranking};
use strata::{Caller, Error, ErrorKind, Generate, finish_embed, finish_rerank};
use strata_wire::call::Call;
use strata_wire::dialect::{DIALECTS, HttpRequest};
use strata_wire::{AnswerWriter, Reply, Stamp, StampSource};

/// Asks a model what the server is asked at a path, such as `/v1/chat/completions`, with a JSON body; without one it is
/// asked with `GET`. Never waits for the model: what is wrong with the body is an error at once, all else the stream's.
pub fn request(model: &crate::Model, path: &str, body: &[u8]) -> Result<JsonStream, Error> {
    if speech::hears(path) {
        return speech::request(model, path, body);
    }
    let model = model.text_model()?;
    let stamp = stamp();
    let call = read(path, body, &stamp)?;
    let stream = JsonStream::new(Some(model.clone()));
    work(model, &stream, move |model| answer(model, call, &stamp))?;
    Ok(stream)
}

/// What a source or an ending is.
pub(crate) enum Outcome {
    Begun(Source),
    Ended(Ending),
}

/// Does something for a stream on another thread.
pub(crate) fn work(
    model: &TextModel,
    stream: &JsonStream,
    act: impl FnOnce(&TextModel) -> Result<Outcome, Error> + Send + 'static,
) -> Result<(), Error> {
    let (model, shared) = (model.clone(), stream.shared());
    let job = move || {
        if shared.is_canceled() {
            return;
        }
        let done = catch_unwind(AssertUnwindSafe(|| act(&model)));
        match done.unwrap_or_else(|_| Err(panicked())) {
            Ok(Outcome::Begun(source)) => shared.begin(source),
            Ok(Outcome::Ended(ending)) => shared.end(Ok(ending)),
            Err(error) => shared.end(Err(error)),
        }
    };
    jobs::run(job).map_err(|error| Error::io("a thread for the request", &error))
}

fn panicked() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the request could not be made ready: this is a bug",
    )
}

/// Reads a request as the server does.
pub(crate) fn read(path: &str, body: &[u8], stamp: &Stamp) -> Result<Call, Error> {
    let request = HttpRequest {
        method: if body.is_empty() { "GET" } else { "POST" },
        target: path,
        body,
        anthropic: false,
    };
    let mut dialects = DIALECTS.iter();
    let found = dialects.find_map(|dialect| dialect.open(&request, stamp, &mut ()));
    let nothing = || {
        Err(Fault::new(
            FaultKind::NotFound,
            format!("there is nothing at {path}"),
        ))
    };
    Ok(found.unwrap_or_else(nothing)?)
}

/// A name and a moment for a request.
pub(crate) fn stamp() -> Stamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    stamps().stamp(now.unwrap_or_default())
}

fn stamps() -> &'static StampSource {
    static STAMPS: OnceLock<StampSource> = OnceLock::new();
    STAMPS.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        StampSource::new(since.map_or(0, |since| since.as_nanos() as u64))
    })
}

/// Does what a request asks for.
fn answer(model: &TextModel, call: Call, stamp: &Stamp) -> Result<Outcome, Error> {
    let profile = model.profile();
    let reply = match call {
        Call::Generate(request, writer) => return generate(model, *request, writer, stamp, None),
        Call::Embed(request, write) => {
            let vectors = model.start_embed(&request, 0)?;
            let (owner, name) = (strata::Model::clone(model), named(&request.model, model));
            let run = VectorRun::new(
                vectors,
                Box::new(move |rows, lengths| {
                    let embeddings = finish_embed(&request, owner.profile(), rows, lengths)?;
                    Ok(write(&Embeddings {
                        model: name,
                        ..embeddings
                    }))
                }),
            );
            return Ok(Outcome::Begun(Source::Vectors(Box::new(run))));
        }
        Call::Rerank(request, write) => {
            let vectors = model.start_rerank(&request, 0)?;
            let (tokens, name) = (vectors.tokens(), named(&request.model, model));
            let run = VectorRun::new(
                vectors,
                Box::new(move |rows, _| {
                    Ok(write(&Ranking {
                        model: name,
                        ..finish_rerank(rows.to_vec(), tokens)
                    }))
                }),
            );
            return Ok(Outcome::Begun(Source::Vectors(Box::new(run))));
        }
        Call::Tokenize(request, write) => write(&profile.tokenize(&request)?),
        Call::Detokenize(request, write) => write(&profile.detokenize(&request)?),
        Call::Tokenizer(write) => write(&profile.tokenizer_facts(model.facts().template.clone())),
        Call::Render(request, write) => {
            let prepared = model.prepare(&request, stamp.context(stamps().random()))?;
            write(&prepared.rendered())
        }
        Call::RenderEach(request, write) => {
            let prepared = model.prepare(&request, stamp.context(stamp.seed()))?;
            write(&prepared.prompts)
        }
        Call::Models(write) => write(&vec![model.facts().clone()]),
        Call::Model(_, write) => write(model.facts()),
        Call::ModelInFull(_, write) => write(model.facts()),
        Call::Adapters(write) => write(&model.worker().adapters().facts()),
        Call::ScaleAdapters(given, write) => {
            model.worker().adapters().scale(&given)?;
            write(&())
        }
        call => other(call)?,
    };
    Ok(Outcome::Ended(Ending::Document(text(&reply))))
}

fn other(call: Call) -> Result<Reply, Error> {
    let what = "this needs `strata serve`: a model alone keeps no answers, files or other models";
    call.reply()
        .map_err(|_| Error::new(ErrorKind::Unsupported, what))
}

/// The model as a request calls it, or as it is called where the request does not say.
fn named(asked: &str, model: &strata::Model) -> String {
    let name = if asked.is_empty() {
        &model.facts().name
    } else {
        asked
    };
    name.into()
}

/// Hands a request for text to the engine.
pub(crate) fn generate(
    model: &TextModel,
    mut request: Generate,
    mut writer: Box<dyn AnswerWriter>,
    stamp: &Stamp,
    session: Option<SessionRun>,
) -> Result<Outcome, Error> {
    if writer.detached().is_some() {
        let what = "background: nothing runs on without its caller here; leave it out";
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    image_urls::fetch(model.web.as_deref(), &mut request)?;
    let context = model.context();
    request.context = request.context.map(|asked| asked.min(context));
    let mut prepared = model.prepare(&request, stamp.context(stamps().random()))?;
    if let Some(session) = &session {
        for one in &mut prepared.requests {
            session.constraints().apply(one);
        }
    }
    writer.answered_by(&model.facts().name);
    let events = model.start(&request, prepared, Caller::default());
    Ok(Outcome::Begun(Source::Answer(Box::new(Answer {
        events,
        writer,
        bytes: Vec::new(),
        session,
        tools: None,
    }))))
}

/// How long a duration of milliseconds is; negative ones have no end.
pub fn milliseconds(time: i64) -> Option<Duration> {
    u64::try_from(time).ok().map(Duration::from_millis)
}
