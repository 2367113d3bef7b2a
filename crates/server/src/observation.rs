//! What is seen of a request: a line in the log, and a span, once it is over.

use crate::log::{Log, LogLevel};
use crate::trace::{Context, Exporter, Phase, Span};
use hyper::StatusCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use strata_chat::json::Json;
use strata_chat::{Times, Usage};

/// Where what is seen goes.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    pub(crate) log: Log,
    pub(crate) traces: Option<Exporter>,
}

/// How a request ended.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With one reply.
    #[default]
    Answered,
    /// With an answer that is complete.
    Complete,
    /// With a failure after the answer had begun.
    Failed,
    /// The client went away.
    Canceled,
}

/// One request. When the last who knows of it lets go, it is over and is told.
pub(crate) struct Observation {
    observer: Arc<Observer>,
    pub(crate) start: Instant,
    since: SystemTime,
    id: String,
    method: String,
    route: &'static str,
    /// The span that the client says this belongs to.
    parent: Option<Context>,
    seen: Mutex<Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    status: u16,
    client: Option<String>,
    model: Option<String>,
    usage: Usage,
    /// Since the start.
    times: Times,
    outcome: Outcome,
    /// Nothing of it goes to a collector of traces.
    stays: bool,
}

impl Observation {
    pub(crate) fn new(
        observer: &Arc<Observer>,
        id: &str,
        (method, route): (&str, &'static str),
        parent: Option<Context>,
    ) -> Arc<Self> {
        Arc::new(Self {
            observer: Arc::clone(observer),
            start: Instant::now(),
            since: SystemTime::now(),
            id: id.into(),
            // Methods that nobody knows are no words for a log.
            method: match method {
                "GET" | "POST" | "HEAD" | "DELETE" | "OPTIONS" | "PUT" | "PATCH" => method.into(),
                _ => "_OTHER".into(),
            },
            route,
            parent,
            seen: Mutex::default(),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self, status: StatusCode) {
        self.seen().status = status.as_u16();
    }

    pub(crate) fn client(&self, name: Option<&str>) {
        self.seen().client = name.map(str::to_owned);
    }

    pub(crate) fn model(&self, name: &str) {
        self.seen().model = Some(name.into());
    }

    /// What it has taken so far, and when.
    pub(crate) fn progress(&self, usage: Usage, times: Times, outcome: Outcome) {
        let mut seen = self.seen();
        seen.usage = usage;
        seen.times = times;
        seen.outcome = outcome;
    }

    /// Tells nobody on another machine of it.
    pub(crate) fn keep_on_machine(&self) {
        self.seen().stays = true;
    }

    /// It failed after its answer had begun.
    pub(crate) fn failed(&self) {
        self.seen().outcome = Outcome::Failed;
    }

    /// Tokens of the texts that were embedded or ranked.
    pub(crate) fn embedded(&self, tokens: usize) {
        self.seen().usage.prompt_tokens = tokens;
    }

    fn line(&self, seen: &Seen, total: Duration) {
        let level = match (seen.status, self.route) {
            (500.., _) => LogLevel::Error,
            _ if seen.outcome == Outcome::Failed => LogLevel::Error,
            (400.., _) => LogLevel::Warn,
            (_, "/health" | "/v1/health" | "/ready" | "/metrics") => LogLevel::Debug,
            _ => LogLevel::Info,
        };
        let generated = seen.times.started.is_some() || seen.usage != Usage::default();
        let count = |n: usize| generated.then_some(n).into();
        let milliseconds = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
        let ended = match seen.outcome {
            Outcome::Answered | Outcome::Complete => None,
            Outcome::Failed => Some("failed"),
            Outcome::Canceled => Some("canceled"),
        };
        self.observer.log.say(
            level,
            "request",
            &[
                ("id", self.id.as_str().into()),
                ("client", seen.client.clone().into()),
                ("method", self.method.as_str().into()),
                ("route", self.route.into()),
                ("model", seen.model.clone().into()),
                ("status", answered(seen.status)),
                ("ended", ended.into()),
                ("prompt_tokens", count(seen.usage.prompt_tokens)),
                ("cached_tokens", count(seen.usage.cached_tokens)),
                ("completion_tokens", count(seen.usage.generated_tokens)),
                (
                    "first_token_ms",
                    seen.times.first_token.map(milliseconds).into(),
                ),
                ("ms", milliseconds(total).into()),
            ],
        );
    }

    fn span(&self, seen: &Seen, total: Duration) -> Span {
        let times = seen.times;
        let end = times.ended.unwrap_or(total);
        let mut phases = Vec::new();
        if let Some(started) = times.started {
            let first = times.first_token.unwrap_or(end);
            phases.push(Phase::new("queue", times.arrived, started));
            phases.push(Phase::new("prefill", started, first));
            if times.first_token.is_some() {
                phases.push(Phase::new("decode", first, end));
            }
        }
        let operation =
            match self.route {
                "/v1/chat/completions" | "/v1/messages" | "/api/chat" | "/v1/responses" => "chat",
                "/v1/completions" | "/completion" | "/completions" | "/infill"
                | "/api/generate" => "text_completion",
                "/v1/embeddings" | "/embedding" | "/embeddings" | "/api/embed"
                | "/api/embeddings" => "embeddings",
                _ => "",
            };
        let mut attributes = vec![
            ("http.request.method", Json::from(self.method.as_str())),
            ("http.route", self.route.into()),
            ("strata.request.id", self.id.as_str().into()),
        ];
        if seen.status > 0 {
            attributes.push(("http.response.status_code", answered(seen.status)));
        }
        if let Some(client) = &seen.client {
            attributes.push(("enduser.id", client.as_str().into()));
        }
        let mut name = format!("{} {}", self.method, self.route);
        if let (Some(model), false) = (&seen.model, operation.is_empty()) {
            name = format!("{operation} {model}");
            attributes.extend([
                ("gen_ai.operation.name", operation.into()),
                ("gen_ai.provider.name", "strata".into()),
                ("gen_ai.request.model", model.as_str().into()),
                ("gen_ai.response.model", model.as_str().into()),
                ("gen_ai.usage.input_tokens", seen.usage.prompt_tokens.into()),
                (
                    "gen_ai.usage.output_tokens",
                    seen.usage.generated_tokens.into(),
                ),
                (
                    "gen_ai.usage.cache_read.input_tokens",
                    seen.usage.cached_tokens.into(),
                ),
            ]);
        }
        let failed = match seen.outcome {
            Outcome::Failed => Some("failed".into()),
            Outcome::Canceled => Some("canceled".into()),
            _ if seen.status >= 500 => Some(seen.status.to_string()),
            _ => None,
        };
        Span {
            name,
            parent: self.parent,
            since: self.since,
            length: total,
            attributes,
            failed,
            phases,
        }
    }
}

/// A status, unless none was sent.
fn answered(status: u16) -> Json {
    Some(u32::from(status)).filter(|&status| status > 0).into()
}

impl Drop for Observation {
    fn drop(&mut self) {
        let total = self.start.elapsed();
        let mut seen = self.seen().clone();
        // It never came to a reply.
        if seen.status == 0 {
            seen.outcome = Outcome::Canceled;
        }
        self.line(&seen, total);
        let watches = matches!(
            self.route,
            "/health" | "/v1/health" | "/ready" | "/metrics" | "page"
        );
        let told = !watches && !seen.stays;
        if let Some(traces) = self.observer.traces.as_ref().filter(|_| told) {
            traces.export(self.span(&seen, total));
        }
    }
}
