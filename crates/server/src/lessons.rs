//! The lessons of the page, told by the engines that answer requests.
//!
//! A lesson is bounded before it begins: its prompt is one small batch, its texts are short requests like any other, and
//! lessons come one at a time. Of other clients' requests it tells how many tokens they had in a batch, and no more.

mod sharing;

use crate::http::Caller;
use crate::manager::Lease;
use crate::state::Server;
use std::sync::Arc;
use std::time::Duration;
use strata::{Look, Seen, SeenRow};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind, ModelProfile};
use strata_engine::sampling::{Candidate, Sampler, Stage};
use strata_model::RowFormat;
use strata_wire::lessons::{Lesson, PromptLesson};
use tokio::sync::oneshot;

/// Tokens of a prompt at most: it is computed in one step, for which all others wait.
const MOST_PROMPT: usize = 64;

/// Candidates that are told of each sampler.
const MOST_CANDIDATES: usize = 12;

/// Values of a row that are told.
const MOST_VALUES: usize = 64;

/// How long a lesson waits for others before it is refused.
const TURN: Duration = Duration::from_secs(30);

/// Gives a lesson.
pub(crate) async fn answer(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    lesson: Lesson,
) -> Result<Json, Fault> {
    let turn = tokio::time::timeout(TURN, server.lessons.acquire()).await;
    let Ok(Ok(_turn)) = turn else {
        let kind = FaultKind::Unavailable {
            retry_after: Duration::from_secs(5),
        };
        return Err(Fault::new(kind, "other lessons are being given"));
    };
    match lesson {
        Lesson::Prompt(lesson) => prompt(server, caller, lease, *lesson).await,
        Lesson::Pages(lesson) => sharing::answer(server, caller, lease, lesson).await,
    }
}

/// The tokens of a text, which must not be too many.
async fn tokens(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    (text, add_special, most): (String, bool, usize),
) -> Result<Vec<u32>, Fault> {
    let profile = Arc::clone(lease.served.model.profile());
    let tokenize = move || {
        let request = strata_chat::Tokenize {
            model: None,
            text,
            add_special,
            parse_special: true,
        };
        let pieces = profile.tokenize(&request)?.pieces;
        Ok(pieces.iter().map(|piece| piece.token).collect::<Vec<u32>>())
    };
    let effort = caller.large.effort();
    let tokens = server.preparation.run(effort, tokenize).await?;
    if tokens.len() > most {
        let problem = format_args!(
            "the text has {} tokens, and a lesson takes {most} at most",
            tokens.len()
        );
        return Err(Fault::bad_request(problem));
    }
    Ok(tokens)
}

/// What the model makes of a prompt.
async fn prompt(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    lesson: PromptLesson,
) -> Result<Json, Fault> {
    let model = &lease.served.model;
    let text = (lesson.prompt, lesson.add_special, MOST_PROMPT);
    let tokens = tokens(server, caller, lease, text).await?;
    let profile = model.profile();
    let seed = lesson.sampling.seed.unwrap_or(0);
    let settings = profile.sampling_settings(&lesson.sampling, seed);
    let vocabulary = profile.tokenizer.vocab_size();
    let look = Look {
        prompt: tokens.clone(),
        head: Some(lesson.head),
        row: lesson.row.clone(),
    };
    let (reply, done) = oneshot::channel();
    model.look_then(look, move |seen| {
        let _ = reply.send(seen);
    });
    let seen = done.await.map_err(|_| Fault::unloaded())??;
    // Models may have more rows of logits than tokens.
    let mut sampler = Sampler::new(settings, seen.logits.len()).map_err(Fault::bad_request)?;
    sampler.prime(&tokens);
    let (stages, choice) = sampler
        .stages(&seen.logits)
        .map_err(|error| Fault::new(FaultKind::InvalidModel, error))?;
    let (layer, head) = lesson.head;
    let rows = seen.attention.iter().map(|row| {
        Json::object([
            ("first", row.first.into()),
            ("shares", Json::array(row.shares.iter().map(|&x| number(x)))),
        ])
    });
    let attention = Json::object([
        ("layer", layer.into()),
        ("head", head.into()),
        (
            "heads",
            Json::array(seen.heads.iter().map(|&count| count.into())),
        ),
        ("rows", Json::array(rows)),
    ]);
    let pieces = tokens
        .iter()
        .map(|&token| Json::object([("id", token.into()), ("piece", spelt(profile, token))]));
    let chosen = Json::object([
        ("id", choice.token.into()),
        ("piece", spelt(profile, choice.token)),
        ("probability", number(choice.probability)),
    ]);
    Ok(Json::object([
        ("object", "lesson.prompt".into()),
        ("model", lease.facts.name.as_str().into()),
        ("tokens", Json::array(pieces)),
        ("vocabulary", vocabulary.into()),
        ("attention", attention),
        (
            "samplers",
            Json::array(stages.iter().map(|one| stage(one, profile, &seen.logits))),
        ),
        ("chosen", chosen),
        (
            "row",
            match (&seen.row, &lesson.row) {
                (Some(row), Some((tensor, index))) => quantized(row, tensor, *index),
                _ => Json::Null,
            },
        ),
        ("tensors", tensors(&seen)),
    ]))
}

/// What a sampler left.
fn stage(stage: &Stage, profile: &ModelProfile, logits: &[f32]) -> Json {
    let candidate = |one: &Candidate| {
        let logit = logits.get(one.token as usize).copied();
        Json::object([
            ("id", one.token.into()),
            ("piece", spelt(profile, one.token)),
            ("logit", number(logit.unwrap_or_default())),
            ("probability", number(one.probability)),
        ])
    };
    let top = stage.candidates.iter().take(MOST_CANDIDATES);
    Json::object([
        ("name", stage.name.into()),
        ("left", stage.candidates.len().into()),
        ("top", Json::array(top.map(candidate))),
    ])
}

/// A row of weights in several formats.
fn quantized(row: &SeenRow, tensor: &str, index: usize) -> Json {
    let some = |values: &[f32]| {
        let shown = values.iter().take(MOST_VALUES);
        Json::array(shown.map(|&value| number(value)))
    };
    // Embeddings are looked up, and multiply nothing.
    let product = |values: &[f32]| {
        let multiplied = !row.input.is_empty();
        let product = multiplied.then(|| RowFormat::product(values, &row.input));
        product.map_or(Json::Null, |product| number(product as f32))
    };
    let formats = row.formats.iter().map(|format| {
        Json::object([
            ("type", format.ty.name().into()),
            ("bits", number(format.bits)),
            ("error", number(format.error(&row.values) as f32)),
            ("values", some(&format.values)),
            ("product", product(&format.values)),
        ])
    });
    let size = RowFormat::product(&row.values, &row.values) / row.values.len().max(1) as f64;
    Json::object([
        ("tensor", tensor.into()),
        ("row", index.into()),
        ("columns", row.values.len().into()),
        ("type", row.ty.name().into()),
        ("size", number(size.sqrt() as f32)),
        ("values", some(&row.values)),
        ("input", some(&row.input)),
        ("product", product(&row.values)),
        ("formats", Json::array(formats)),
    ])
}

fn tensors(seen: &Seen) -> Json {
    Json::array(seen.tensors.iter().map(|tensor| {
        Json::object([
            ("name", tensor.name.as_str().into()),
            ("rows", tensor.rows.into()),
            ("columns", tensor.columns.into()),
            ("type", tensor.ty.name().into()),
        ])
    }))
}

/// A token's text, or its bytes where they are only a piece of a character.
fn spelt(profile: &ModelProfile, token: u32) -> Json {
    let bytes = profile.tokenizer.token_bytes(token).unwrap_or_default();
    match str::from_utf8(&bytes) {
        Ok(text) => text.into(),
        Err(_) => Json::array(bytes.iter().map(|&byte| u32::from(byte).into())),
    }
}

/// A number with five digits, which is more than anyone sees.
fn number(x: f32) -> Json {
    let short = format!("{x:.4e}").parse::<f64>();
    short.map_or(Json::Null, Json::from)
}
