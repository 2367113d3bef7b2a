//! What each call does.

use super::models::change_to;
use super::{Client, PendingAnswer, PendingVectors, Server, attest};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::time::Duration;
use strata::{LocalModel, VectorRun};
use strata_chat::json::Json;
use strata_chat::{Embed, Embeddings, Fault, FaultKind, LoadedModel, Timings};
use strata_wire::budgets::Budgets;
use strata_wire::call::{Call, ReplyWriter, unknown_encoding};
use strata_wire::dialect::{self, HttpRequest};
use strata_wire::http::Head;
use strata_wire::metrics::{self, AdapterUse, Measured};
use strata_wire::{Dialect, Reply, Stamp, access};

/// There is one key, so all stored answers have one owner.
pub(super) const OWNER: &str = "";

impl Server {
    /// Does what a request asks for; nothing is given back if the answer is in the making.
    pub(super) fn call(
        &mut self,
        client: &mut Client,
        head: &Head,
        body: &[u8],
        now: u64,
    ) -> Option<Reply> {
        let dialect = Dialect::of(&head.target, head.anthropic);
        let stamp = self.stamp(now);
        client.id = Some(dialect.request_id(&stamp));
        match self.settings.access.check(head) {
            Err(fault)
                if fault.kind == FaultKind::Unauthenticated
                    && (dialect::needs_no_key(&head.method, head.path())
                        || head.path() == attest::PATH) => {}
            Err(fault) => return Some(dialect.fault(&fault, &stamp)),
            Ok(()) => {}
        }
        if head.method == "OPTIONS" {
            return Some(access::preflight(head.asked_headers.as_deref()));
        }
        if head.path() == attest::PATH {
            let made = self.attest(head, now);
            return Some(made.unwrap_or_else(|fault| dialect.fault(&fault, &stamp)));
        }
        if let Some(encoding) = &head.encoding
            && !encoding.eq_ignore_ascii_case("identity")
        {
            return Some(dialect.fault(&unknown_encoding(encoding), &stamp));
        }
        let asked = HttpRequest {
            method: &head.method,
            target: &head.target,
            body,
            anthropic: head.anthropic,
        };
        let opened = dialect::open(&asked, &stamp, &mut self.responses.of(OWNER));
        let call = match opened {
            Ok(call) => call,
            Err(refused) => return Some(refused),
        };
        match call {
            Call::Generate(request, mut writer) => {
                let found = self.models.answering(&request.model, now);
                let found = found.map(|loaded| writer.answered_by(&loaded.model.facts.name));
                match found.and_then(|()| self.generate(&request, &stamp, now)) {
                    Ok(generation) => {
                        client.answer = Some(PendingAnswer {
                            generation,
                            writer,
                            events: Vec::new(),
                            bytes: Vec::new(),
                            begun: false,
                        });
                        None
                    }
                    Err(fault) => Some(writer.fault(&fault)),
                }
            }
            Call::Embed(request, write) => match self.embed(request, write, dialect, now) {
                Ok(vectors) => {
                    client.vectors = Some(vectors);
                    None
                }
                Err(fault) => Some(dialect.fault(&fault, &stamp)),
            },
            call => {
                let made = self.quick(call, &stamp, now);
                Some(made.unwrap_or_else(|fault| dialect.fault(&fault, &stamp)))
            }
        }
    }

    /// Hands texts to be embedded to the engine.
    fn embed(
        &mut self,
        request: Embed,
        write: ReplyWriter<Embeddings>,
        dialect: &'static Dialect,
        now: u64,
    ) -> Result<PendingVectors, Fault> {
        let LocalModel {
            engine,
            profile,
            facts,
        } = &mut self.models.answering(&request.model, now)?.model;
        let run = VectorRun::start(engine, profile, &facts.name, request)?;
        self.models.begin();
        Ok(PendingVectors {
            run,
            write,
            dialect,
            since: now,
        })
    }

    /// Calls that end with one reply.
    fn quick(&mut self, call: Call, stamp: &Stamp, now: u64) -> Result<Reply, Fault> {
        let models = &mut self.models;
        Ok(match call {
            Call::Health if self.settings.guessable => Reply::json(&Json::object([
                ("status", "ok".into()),
                ("random_numbers", "guessable".into()),
            ])),
            Call::Ready => self.ready(),
            Call::Metrics => self.metrics(stamp, now),
            Call::Tokenize(request, write) => {
                let profile = &models
                    .answering(request.model.as_deref().unwrap_or(""), now)?
                    .model
                    .profile;
                write(&profile.tokenize(&request)?)
            }
            Call::Detokenize(request, write) => {
                let profile = &models
                    .answering(request.model.as_deref().unwrap_or(""), now)?
                    .model
                    .profile;
                write(&profile.detokenize(&request)?)
            }
            Call::Tokenizer(write) => {
                let LocalModel { profile, facts, .. } = &models.answering("", now)?.model;
                write(&profile.tokenizer_facts(facts.template.clone()))
            }
            Call::Render(request, write) => {
                let loaded = models.answering(&request.model, now)?;
                let context = stamp.context(self.stamps.random());
                write(&loaded.prepare(&request, context)?.rendered())
            }
            Call::RenderEach(request, write) => {
                let context = stamp.context(stamp.seed());
                let loaded = models.answering(&request.model, now)?;
                write(&loaded.prepare(&request, context)?.prompts)
            }
            Call::Models(write) => write(&self.models.facts()),
            Call::Model(name, write) => write(self.models.known(name.as_deref().unwrap_or(""))?),
            Call::ModelInFull(name, write) => write(self.models.known(&name)?),
            Call::Loaded(write) => {
                let loaded = self.facts().map(|facts| LoadedModel {
                    facts: facts.clone(),
                    bytes: facts.bytes,
                    expires: None,
                });
                write(&loaded.into_iter().collect())
            }
            Call::Load(load, write) => {
                models.answering(&load.model, now)?;
                write(&Timings::default())
            }
            Call::Slots(write) => write(&models.answering("", now)?.slots.list()),
            Call::SlotAction(action, write) => write(&self.act_on_slot(action, now)?),
            Call::Adapters(write) => write(&Vec::new()),
            Call::Stored(stored, write) => write(&self.responses.act(OWNER, &stored)?),
            call => {
                let refused = |call| Fault::new(FaultKind::Unsupported, why_not(&call));
                call.reply().map_err(refused)?
            }
        })
    }

    /// Whether the machine answers requests, and if not, why.
    fn ready(&self) -> Reply {
        let (status, reason) = match (self.models.coming(), &self.failing) {
            (Some(coming), _) => ("loading", change_to(coming)),
            (None, Some(why)) => ("failing", why.clone()),
            (None, None) => return Reply::health("ready"),
        };
        let document = Json::object([
            ("status", status.into()),
            ("reason", reason.as_str().into()),
        ]);
        Reply::with_status(503, &document)
    }

    fn metrics(&self, stamp: &Stamp, now: u64) -> Reply {
        let engines = self.models.loaded().map(|loaded| Measured {
            model: &loaded.model.facts.name,
            counters: loaded.model.engine.counters(),
            adapters: AdapterUse::default(),
        });
        let mut out = String::new();
        metrics::write(engines.as_slice(), stamp.unix_seconds, &mut out);
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "# TYPE strata:http_requests_total counter\nstrata:http_requests_total {}\n\
             # TYPE strata:http_connections gauge\nstrata:http_connections {}\n",
            self.requests,
            // The one that asks is not in its place while it is looked after.
            self.clients() + 1,
        );
        Budgets::BARE_METAL.write(&mut out);
        let uptime = Duration::from_nanos(now);
        metrics::write_uptime(uptime, &mut out);
        let started = stamp.unix_seconds.saturating_sub(uptime.as_secs());
        Reply::metrics(&out, started)
    }
}

/// Why a call cannot be done here.
fn why_not(call: &Call) -> &'static str {
    match call {
        Call::Rerank(..) => "this machine writes texts: it ranks no documents",
        Call::Transcribe(..) => "this machine hears nothing: `strata serve --speech` does",
        Call::ScaleAdapters(..) => "this machine has no adapters",
        Call::Lesson(..) => "this machine gives no lessons: `strata serve` does",
        _ => "this machine has no files but those of its models: it cannot do that",
    }
}
