//! Requests: bodies of the server's routes, read and written by the same code.

use crate::host::Host;
use crate::model::Opened;
use crate::vectors::{Heard, VectorRun};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use strata::{Error, ErrorKind, Generation, Json, LocalModel};
use strata_chat::{Arrival, Event, Fault, FaultKind};
use strata_platform::Clock;
use strata_wire::call::Call;
use strata_wire::dialect::{DIALECTS, HttpRequest};
use strata_wire::{AnswerWriter, Framing};

/// What comes next of a request.
pub(crate) enum Next {
    Document(String),
    Pending,
    End,
    Failed(Error),
}

/// A request on its way.
pub(crate) struct Running {
    number: u32,
    work: Option<Work>,
    bytes: Vec<u8>,
    documents: VecDeque<String>,
    failure: Option<Error>,
}

/// What the engine does for a request.
enum Work {
    Text(Generation, Box<dyn AnswerWriter>),
    Vectors(Box<VectorRun>),
}

/// An error as JSON.
pub(crate) fn failure(code: &str, message: &str) -> String {
    Json::object([("code", code.into()), ("message", message.into())]).text()
}

fn elapsed() -> Duration {
    Duration::from_nanos(Host.now_ns())
}

impl Opened {
    /// Starts a request; gives its number.
    pub(crate) fn request(&mut self, path: &str, body: &[u8]) -> Result<u32, Error> {
        let stamp = self
            .stamps
            .stamp(Duration::from_millis(Host::unix_milliseconds()));
        let request = HttpRequest {
            method: if body.is_empty() { "GET" } else { "POST" },
            target: path,
            body,
            anthropic: false,
        };
        let mut dialects = DIALECTS.iter();
        let call = dialects.find_map(|dialect| dialect.open(&request, &stamp, &mut ()));
        let nothing = || {
            Err(Fault::new(
                FaultKind::NotFound,
                "there is nothing at this path",
            ))
        };
        let call = call.unwrap_or_else(nothing)?;
        let mut running = Running {
            number: self.last + 1,
            work: None,
            bytes: Vec::new(),
            documents: VecDeque::new(),
            failure: None,
        };
        let profile = &self.model.profile;
        let reply = match call {
            Call::Generate(mut request, mut writer) => {
                let context = stamp.context(self.stamps.random());
                let asked = core::mem::take(&mut request.adapters);
                let mut compile = |constraint: &_| self.grammars.compile(constraint);
                let mut prepared = self.model.prepare_with(&request, context, &mut compile)?;
                let adapter = self.adapters.choose(&mut self.model.engine, &asked)?;
                for one in &mut prepared.requests {
                    one.adapter = adapter;
                }
                let arrival = Arrival {
                    at: elapsed(),
                    ..Arrival::default()
                };
                writer.answered_by(&self.model.facts.name);
                let generation = self.model.start(&request, prepared, arrival)?;
                running.work = Some(Work::Text(generation, writer));
                None
            }
            Call::Embed(request, write) => {
                let LocalModel {
                    engine,
                    profile,
                    facts,
                } = &mut self.model;
                let run = VectorRun::start(engine, profile, &facts.name, request, write)?;
                running.work = Some(Work::Vectors(Box::new(run)));
                None
            }
            Call::Tokenize(request, write) => Some(write(&profile.tokenize(&request)?)),
            Call::Detokenize(request, write) => Some(write(&profile.detokenize(&request)?)),
            Call::Model(_, write) => Some(write(&self.model.facts)),
            Call::Models(write) => Some(write(&alloc::vec![self.model.facts.clone()])),
            call => Some(call.reply().map_err(|_| {
                let what =
                    "this is not there in WebAssembly: use `strata serve` or another binding";
                Error::new(ErrorKind::Unsupported, what)
            })?),
        };
        if let Some(reply) = reply {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            running.documents.push_back(text);
        }
        self.last += 1;
        self.running.push(running);
        Ok(self.last)
    }

    /// Computes a step, and says whether anything is under way.
    pub(crate) fn step(&mut self) -> bool {
        let Self { model, running, .. } = self;
        if !running.iter().any(|one| one.work.is_some()) {
            return false;
        }
        let mut heard = Vec::new();
        model.engine.step(&mut |event| heard.push(event));
        let now = elapsed();
        for event in heard {
            let mut event = Some(event);
            for one in running.iter_mut() {
                let Some(given) = event.take() else {
                    break;
                };
                event = one.hear(given, now);
            }
        }
        running.iter().any(|one| one.work.is_some())
    }

    pub(crate) fn next(&mut self, number: u32) -> Next {
        let place = self.running.iter().position(|one| one.number == number);
        let Some(place) = place else {
            return Next::End;
        };
        let one = &mut self.running[place];
        if let Some(document) = one.documents.pop_front() {
            return Next::Document(document);
        }
        if one.work.is_some() {
            return Next::Pending;
        }
        let over = self.running.swap_remove(place);
        over.failure.map_or(Next::End, Next::Failed)
    }

    pub(crate) fn cancel(&mut self, number: u32) {
        if let Some(place) = self.running.iter().position(|one| one.number == number) {
            let over = self.running.swap_remove(place);
            let engine = &mut self.model.engine;
            match over.work {
                Some(Work::Text(generation, _)) => generation.cancel(engine),
                Some(Work::Vectors(run)) => run.cancel(engine),
                None => {}
            }
        }
    }
}

impl Running {
    /// Takes an event of the engine; gives it back if it is another's.
    fn hear(&mut self, event: strata_engine::Event, now: Duration) -> Option<strata_engine::Event> {
        let (generation, writer) = match &mut self.work {
            None => return Some(event),
            Some(Work::Text(generation, writer)) => (generation, writer),
            Some(Work::Vectors(run)) => match run.hear(event) {
                Heard::Another(event) => return Some(event),
                Heard::More => return None,
                Heard::End(answer) => {
                    match answer {
                        Ok(document) => self.documents.push_back(document),
                        Err(fault) => self.failure = Some(fault.into()),
                    }
                    self.work = None;
                    return None;
                }
            },
        };
        let mut events = Vec::new();
        let other = generation.push(event, now, &mut events);
        let over = generation.has_ended();
        for event in events {
            match event {
                Event::Failed(fault) => self.failure = Some(fault.into()),
                event => writer.event(&event, &mut self.bytes),
            }
        }
        let framing = writer.framing();
        if over {
            self.work = None;
        }
        if (framing != Framing::Whole || over) && self.failure.is_none() {
            self.split(framing);
        }
        other
    }

    /// Takes the documents out of the bytes of a body.
    fn split(&mut self, framing: Framing) {
        let bytes = core::mem::take(&mut self.bytes);
        let text = String::from_utf8_lossy(&bytes);
        match framing {
            Framing::Whole => self.documents.push_back(text.into_owned()),
            Framing::Events => {
                let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
                let data = data.filter(|data| *data != "[DONE]");
                self.documents.extend(data.map(String::from));
            }
            Framing::Lines => self.documents.extend(text.lines().map(String::from)),
        }
    }
}
