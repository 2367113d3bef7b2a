//! How texts share steps and pages: they are run as requests, and their steps are watched.

use super::{number, tokens};
use crate::http::Caller;
use crate::manager::Lease;
use crate::state::Server;
use std::future::poll_fn;
use strata::worker::{Heard, RequestHandle};
use strata_chat::json::Json;
use strata_chat::{Fault, failure, refusal};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{ClientId, EventKind, Request, RequestId, StepReport, StepSequence};
use strata_model::PAGE;
use strata_wire::lessons::PagesLesson;

/// Tokens of a text at most.
const MOST_PROMPT: usize = 512;

/// Steps that are remembered at most.
const MOST_STEPS: usize = 256;

/// A text at work.
struct Text {
    handle: RequestHandle,
    prompt: usize,
    /// What the engine calls it.
    id: Option<RequestId>,
    cached: usize,
    answer: String,
    ended: bool,
}

impl Text {
    /// Waits for the next thing to happen.
    async fn next(&mut self) -> Result<(), Fault> {
        let heard = poll_fn(|context| self.handle.poll_next(context)).await;
        let event = match heard {
            None => return Err(Fault::unloaded()),
            Some(Heard::Refused(error)) => return Err(refusal(&error)),
            Some(Heard::Event(event)) => event,
        };
        self.id = Some(event.request);
        match event.kind {
            EventKind::Started { cached_tokens } => self.cached = cached_tokens,
            EventKind::Token { text, .. } => self.answer.push_str(&text),
            EventKind::Finished { text, .. } => {
                self.answer.push_str(&text);
                self.ended = true;
                self.handle.end();
            }
            EventKind::Failed(error) => return Err(failure(&error)),
            _ => {}
        }
        Ok(())
    }
}

/// Runs the texts, each from when the one before it has its first token on.
pub(super) async fn answer(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    lesson: PagesLesson,
) -> Result<Json, Fault> {
    let model = &lease.served.model;
    let mut prompts = Vec::new();
    for text in lesson.texts {
        prompts.push(tokens(server, caller, lease, (text, true, MOST_PROMPT)).await?);
    }
    let watched = model.watch_steps(MOST_STEPS);
    let mut texts: Vec<Text> = Vec::new();
    for prompt in prompts {
        let request = Request {
            max_tokens: Some(lesson.max_tokens),
            sampling: SamplerSettings {
                temperature: 0.0,
                ..SamplerSettings::default()
            },
            ignore_end: true,
            client: ClientId(caller.client.number),
            prompt,
            ..Request::default()
        };
        let prompt = request.prompt.len();
        let before = texts.last().map(|text| &text.handle);
        texts.push(Text {
            handle: model.submit_after(before, request),
            prompt,
            id: None,
            cached: 0,
            answer: String::new(),
            ended: false,
        });
    }
    for text in &mut texts {
        while !text.ended {
            text.next().await?;
        }
    }
    let shown = texts.iter().map(|text| {
        Json::object([
            ("prompt_tokens", text.prompt.into()),
            ("cached_tokens", text.cached.into()),
            ("answer", text.answer.as_str().into()),
        ])
    });
    let steps = watched.steps();
    let steps = steps.iter().map(|step| told(step, &texts));
    Ok(Json::object([
        ("object", "lesson.pages".into()),
        ("model", lease.facts.name.as_str().into()),
        ("page_positions", PAGE.into()),
        ("texts", Json::array(shown)),
        ("steps", Json::array(steps)),
    ]))
}

/// A step, without what belongs to others.
fn told(step: &StepReport, texts: &[Text]) -> Json {
    let own = |sequence: &StepSequence| {
        let id = Some(sequence.request);
        texts.iter().position(|text| text.id == id)
    };
    let sequences = step.sequences.iter();
    let sequences = sequences.filter_map(|sequence| Some((own(sequence)?, sequence)));
    let sequences = sequences.map(|(text, sequence)| {
        let pages = sequence.pages.iter().map(|page| {
            Json::object([
                ("page", page.page.into()),
                ("filled", page.filled.into()),
                ("users", page.users.into()),
            ])
        });
        Json::object([
            ("text", text.into()),
            ("tokens", sequence.tokens.into()),
            ("drafts", sequence.drafts.into()),
            ("prefill", sequence.prefill.into()),
            ("computed", sequence.computed.into()),
            ("pages", Json::array(pages)),
        ])
    });
    let others = step.sequences.iter().filter(|one| own(one).is_none());
    let tokens: usize = others.map(|one| one.tokens + one.drafts).sum();
    Json::object([
        ("step", step.step.into()),
        ("ms", number(step.time.as_secs_f32() * 1000.0)),
        ("sequences", Json::array(sequences)),
        ("other_tokens", tokens.into()),
        ("free_pages", step.free_pages.into()),
        ("pages", step.pages.into()),
    ])
}
