//! Slots, as clients of llama-server know them: places for texts that run, each with the text that was there last.
//!
//! The engine has no places: texts share its pages, and what was computed of them is found by their tokens. A slot
//! remembers whose text it held, so that it can be saved to a file and brought back later.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use strata_chat::{Fault, FaultKind, Slot};
use strata_engine::{
    AdapterId, ClientId, Engine, Event, EventKind, Request, RequestId, Session, Task,
};

/// The slots of an engine.
pub struct Slots {
    places: Vec<SlotState>,
    /// Texts that wait for the engine.
    waiting: BTreeMap<RequestId, SlotText>,
    context: usize,
    uses: u64,
}

#[derive(Clone, Debug, Default)]
struct SlotState {
    busy: Option<RequestId>,
    text: SlotText,
    prompt_tokens: usize,
    used: u64,
}

/// A text and whose it is.
#[derive(Clone, Debug, Default)]
pub struct SlotText {
    tokens: Vec<u32>,
    client: ClientId,
    adapter: Option<AdapterId>,
    /// What the adapter is called.
    label: Option<String>,
}

impl Slots {
    /// So many places for texts of so many positions.
    pub fn new(places: usize, context: usize) -> Self {
        Self {
            places: vec![SlotState::default(); places.max(1)],
            waiting: BTreeMap::new(),
            context,
            uses: 0,
        }
    }

    /// A request was taken by the engine.
    pub fn expect(&mut self, id: RequestId, text: SlotText) {
        self.waiting.insert(id, text);
    }

    /// Something happened to a request.
    pub fn hear(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Started { .. } => self.begin(event.request),
            EventKind::Token { token, .. } if event.choice == 0 => {
                if let Some(place) = self.place_of(event.request) {
                    place.text.tokens.push(*token);
                }
            }
            EventKind::Finished { .. } if event.choice == 0 => self.end(event.request),
            EventKind::Failed(_) => self.end(event.request),
            _ => {}
        }
    }

    /// A request is over.
    pub fn end(&mut self, id: RequestId) {
        self.waiting.remove(&id);
        if let Some(place) = self.place_of(id) {
            place.busy = None;
        }
    }

    fn place_of(&mut self, id: RequestId) -> Option<&mut SlotState> {
        self.places.iter_mut().find(|place| place.busy == Some(id))
    }

    /// Gives a text the free place whose text it goes on from, or the one that was used longest ago.
    fn begin(&mut self, id: RequestId) {
        let Some(text) = self.waiting.remove(&id) else {
            return;
        };
        self.uses += 1;
        let free = self.places.iter_mut().filter(|place| place.busy.is_none());
        // The last of equals is taken, and the first place shall be.
        let chosen = free.rev().max_by_key(|place| {
            let same = place.text.client == text.client && place.text.adapter == text.adapter;
            let pairs = place.text.tokens.iter().zip(&text.tokens);
            let shared = pairs.take_while(|(a, b)| same && a == b).count();
            (shared, core::cmp::Reverse(place.used))
        });
        if let Some(place) = chosen {
            *place = SlotState {
                busy: Some(id),
                prompt_tokens: text.tokens.len(),
                text,
                used: self.uses,
            };
        }
    }

    /// What clients are told.
    pub fn list(&self) -> Vec<Slot> {
        let numbered = self.places.iter().enumerate();
        let slot = |(id, place): (usize, &SlotState)| Slot {
            id,
            busy: place.busy.is_some(),
            prompt_tokens: place.prompt_tokens,
            generated_tokens: place.text.tokens.len() - place.prompt_tokens,
            context: self.context,
        };
        numbered.map(slot).collect()
    }

    /// The adapters of texts that run, and of those that wait.
    pub fn adapters(&self) -> [Vec<String>; 2] {
        let busy = self.places.iter().filter(|place| place.busy.is_some());
        let running = busy.filter_map(|place| place.text.label.clone());
        let waiting = self.waiting.values().filter_map(|text| text.label.clone());
        let sorted = |names: BTreeSet<String>| names.into_iter().collect();
        [sorted(running.collect()), sorted(waiting.collect())]
    }

    /// The bytes of a slot's text, with what was computed of it, unless that has more than `most`, and how many tokens it
    /// has.
    pub fn save(
        &self,
        engine: &mut Engine,
        (slot, client): (usize, ClientId),
        most: usize,
    ) -> Result<(Vec<u8>, usize), Fault> {
        let place = self.find(slot, client)?;
        let bytes = place.text.session().save_within(engine, most);
        Ok((bytes, place.text.tokens.len()))
    }

    /// Puts a saved text into a slot and what was computed of it into the cache; says how many tokens it has.
    pub fn restore(
        &mut self,
        engine: &mut Engine,
        (slot, client): (usize, ClientId),
        bytes: &[u8],
    ) -> Result<usize, Fault> {
        let place = self.places.get(slot).ok_or_else(|| no_slot(slot))?;
        if place.busy.is_some() {
            return Err(busy(slot));
        }
        let settings = Request {
            client,
            ..Request::default()
        };
        let session = Session::restore(engine, settings, bytes).map_err(Fault::bad_request)?;
        self.uses += 1;
        let tokens = session.tokens().to_vec();
        self.places[slot] = SlotState {
            busy: None,
            prompt_tokens: tokens.len(),
            text: SlotText {
                tokens,
                client,
                ..SlotText::default()
            },
            used: self.uses,
        };
        Ok(self.places[slot].text.tokens.len())
    }

    /// Forgets a slot's text, and what was computed for its client; says how many tokens it had.
    pub fn erase(
        &mut self,
        engine: &mut Engine,
        (slot, client): (usize, ClientId),
    ) -> Result<usize, Fault> {
        let text = self.find(slot, client)?.text.clone();
        // Texts that run stand on what is kept.
        if !engine.is_idle() {
            return Err(busy(slot));
        }
        text.session().forget(engine);
        self.places[slot] = SlotState::default();
        Ok(text.tokens.len())
    }

    /// A slot that is free and holds a text of this client, or none. What others had is no more than an empty place.
    fn find(&self, slot: usize, client: ClientId) -> Result<&SlotState, Fault> {
        let place = self.places.get(slot).ok_or_else(|| no_slot(slot))?;
        if place.busy.is_some() {
            return Err(busy(slot));
        }
        if place.text.tokens.is_empty() || place.text.client != client {
            return Err(Fault::bad_request(format_args!("slot {slot} has no text")));
        }
        Ok(place)
    }
}

impl SlotText {
    /// The text of a request that is to go on; what is only to be embedded has no place.
    pub fn of(request: &Request, label: Option<String>) -> Option<Self> {
        // What must not be on a disk must not be saved either.
        let goes_on = request.task == Task::Generate && !request.privacy.never_to_disk;
        goes_on.then(|| Self {
            tokens: request.prompt.clone(),
            client: request.client,
            adapter: request.adapter,
            label,
        })
    }

    fn session(&self) -> Session {
        Session::open(Request {
            prompt: self.tokens.clone(),
            client: self.client,
            adapter: self.adapter,
            ..Request::default()
        })
    }
}

fn no_slot(slot: usize) -> Fault {
    let problem = format_args!("there is no slot {slot}; GET /slots lists those there are");
    Fault::new(FaultKind::NotFound, problem)
}

fn busy(slot: usize) -> Fault {
    let kind = FaultKind::Unavailable {
        retry_after: core::time::Duration::from_secs(1),
    };
    Fault::new(
        kind,
        format_args!("slot {slot} cannot be touched while texts run"),
    )
}
