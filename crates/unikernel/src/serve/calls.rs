//! What each call does.

use super::{Running, Server, Visit, Work};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use strata_chat::{
    Fault, FaultKind, Format, Generate, LoadedModel, ModelFacts, ModelProfile, Prepared, Slot,
    Timings, ToolChoice, prepare,
};
use strata_engine::EngineOptions;
use strata_weights::GgufSet;
use strata_wire::call::{Call, unknown_model};
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
        visit: &mut Visit,
        head: &Head,
        body: &[u8],
        now: u64,
    ) -> Option<Reply> {
        let dialect = Dialect::of_path(&head.target);
        let stamp = self.stamp(now);
        match self.settings.access.check(head) {
            Err(fault)
                if fault.kind == FaultKind::Unauthenticated
                    && (dialect::needs_no_key(head.path()) || head.method == "OPTIONS") => {}
            Err(fault) => return Some(dialect.fault(&fault, &stamp)),
            Ok(()) => {}
        }
        if head.method == "OPTIONS" {
            return Some(access::preflight());
        }
        let asked = HttpRequest {
            method: &head.method,
            target: &head.target,
            body,
        };
        let opened = dialect::open(&asked, &stamp, &mut self.responses.of(OWNER));
        let call = match opened {
            Ok(call) => call,
            Err(refused) => return Some(refused),
        };
        match call {
            Call::Generate(request, answer) => match self.generate(&request, &stamp, now) {
                Ok(running) => {
                    visit.work = Some(Work {
                        running,
                        events: Vec::new(),
                        answer,
                        bytes: Vec::new(),
                        begun: false,
                    });
                    None
                }
                Err(fault) => Some(answer.fault(&fault)),
            },
            call => {
                let made = self.quick(call, &stamp, now);
                Some(made.unwrap_or_else(|fault| dialect.fault(&fault, &stamp)))
            }
        }
    }

    fn generate(&mut self, request: &Generate, stamp: &Stamp, now: u64) -> Result<Running, Fault> {
        let prepared = self.ready(request, stamp)?;
        Running::begin(&mut self.engine, request, prepared, &self.profile, now)
    }

    fn ready(&mut self, request: &Generate, stamp: &Stamp) -> Result<Prepared, Fault> {
        self.find(Some(&request.model))?;
        let problem = if request.adapters.iter().any(|&(_, scale)| scale != 0.0) {
            "the server has no adapters"
        } else if request.format != Format::Text {
            "this machine cannot hold answers to a form: leave response_format out"
        } else if forces_calls(&request.tools.choice) {
            "this machine cannot force tools to be called: leave the choice to the model"
        } else {
            let seed = self.stamps.random();
            return prepare(request, &self.profile, stamp.context(seed));
        };
        Err(Fault::new(FaultKind::Unsupported, problem))
    }

    /// The model, if it goes by this name.
    fn find(&self, name: Option<&str>) -> Result<&ModelFacts, Fault> {
        let name = name.unwrap_or_default();
        if name.is_empty() || self.facts.is_called(name) {
            return Ok(&self.facts);
        }
        Err(unknown_model(name))
    }

    /// Calls that end with one reply.
    fn quick(&mut self, call: Call, stamp: &Stamp, now: u64) -> Result<Reply, Fault> {
        Ok(match call {
            Call::Ready => Reply::health("ready"),
            Call::Metrics => self.metrics(stamp, now),
            Call::Tokenize(request, write) => {
                self.find(request.model.as_deref())?;
                write(&self.profile.tokenize(&request))
            }
            Call::Detokenize(request, write) => {
                self.find(request.model.as_deref())?;
                write(&self.profile.detokenize(&request)?)
            }
            Call::Render(request, write) => write(&self.ready(&request, stamp)?.rendered()),
            Call::Models(write) => write(&Vec::from([self.facts.clone()])),
            Call::Model(name, write) => write(self.find(name.as_deref())?),
            Call::ModelInFull(name, write) => write(self.find(Some(&name))?),
            Call::Loaded(write) => write(&Vec::from([LoadedModel {
                facts: self.facts.clone(),
                bytes: self.facts.bytes,
                expires: None,
            }])),
            Call::Load(load, write) => {
                self.find(Some(&load.model))?;
                write(&Timings::default())
            }
            Call::Slots(write) => {
                let running = self.counters().running;
                let slot = |id| Slot {
                    id,
                    busy: id < running,
                    context: self.profile.context,
                    ..Slot::default()
                };
                write(&(0..self.facts.slots).map(slot).collect())
            }
            Call::Adapters(write) => write(&Vec::new()),
            Call::Stored(stored, write) => write(&self.responses.act(OWNER, &stored)?),
            call => {
                let refused = |call| Fault::new(FaultKind::Unsupported, why_not(&call));
                call.reply().map_err(refused)?
            }
        })
    }

    fn metrics(&self, stamp: &Stamp, now: u64) -> Reply {
        let engine = Measured {
            model: &self.facts.name,
            counters: self.counters(),
            adapters: AdapterUse::default(),
        };
        let mut out = String::new();
        metrics::write(&[engine], stamp.unix_seconds, &mut out);
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "# TYPE strata:http_requests_total counter\nstrata:http_requests_total {}\n\
             # TYPE strata:http_connections gauge\nstrata:http_connections {}\n\
             # TYPE strata:uptime_seconds gauge\nstrata:uptime_seconds {}\n",
            self.requests,
            // The one that asks is not in its place while it is looked after.
            self.clients() + 1,
            now as f64 / 1e9,
        );
        Reply::metrics(&out)
    }
}

/// Why a call cannot be done here.
fn why_not(call: &Call) -> &'static str {
    match call {
        Call::Embed(..) => "this machine writes texts: it makes no embeddings",
        Call::Rerank(..) => "this machine writes texts: it ranks no documents",
        Call::ScaleAdapters(..) => "this machine has no adapters",
        Call::SlotAction(..) => "this machine keeps no texts: it has no files",
        _ => "this machine has one model and no files: it cannot do that",
    }
}

fn forces_calls(choice: &ToolChoice) -> bool {
    match choice {
        ToolChoice::Required | ToolChoice::Named(_) => true,
        ToolChoice::Allowed { required, .. } => *required,
        _ => false,
    }
}

/// What clients are told of the model.
pub(super) fn facts(
    name: &str,
    file: &GgufSet<'_>,
    profile: &ModelProfile,
    options: &EngineOptions,
) -> ModelFacts {
    ModelFacts {
        context: profile.context,
        vocabulary: profile.tokenizer.vocab_size(),
        capabilities: profile.capabilities(),
        slots: options.requests,
        ..ModelFacts::of_file(name, file)
    }
}
