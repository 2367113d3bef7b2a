//! The answers to one request, which end one by one.

use crate::beams::Search;
use crate::prefix_tree::Salt;
use crate::request::{Event, EventKind, Limits, RequestError, RequestId};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// A request's answers.
pub(crate) struct Group {
    /// Texts that have not ended.
    pub(crate) open: usize,
    /// Answers wanted.
    wanted: usize,
    /// What has happened to texts that are told of only when all have ended; none if they are told at once.
    held_back: Option<BTreeMap<usize, Vec<EventKind>>>,
    /// How likely each text was that has ended.
    ranks: Vec<(f64, usize)>,
    /// Under what its pages are kept, if they are for itself only.
    pub(crate) alone: Option<Salt>,
    /// The search that its texts are part of.
    pub(crate) search: Option<Search>,
    pub(crate) limits: Limits,
    pub(crate) submitted: Duration,
    pub(crate) started: bool,
    pub(crate) first_token: Option<Duration>,
    /// Tokens of the prompt that were cached for the first text.
    pub(crate) cached: usize,
    pub(crate) failed: bool,
}

impl Group {
    pub(crate) fn new(
        wanted: usize,
        generated: usize,
        limits: Limits,
        submitted: Duration,
    ) -> Self {
        Self {
            open: generated,
            wanted,
            held_back: (generated > wanted).then(BTreeMap::new),
            ranks: Vec::new(),
            alone: None,
            search: None,
            limits,
            submitted,
            started: false,
            first_token: None,
            cached: 0,
            failed: false,
        }
    }

    /// When it becomes urgent: three quarters of the way to where it fails.
    pub(crate) fn urgent(&self) -> Option<Duration> {
        let limits = [self.limits.deadline, self.limits.first_token];
        let limit = limits.into_iter().flatten().min()?;
        Some(self.submitted.saturating_add(limit / 4 * 3))
    }

    /// What limit it has exceeded, if any.
    pub(crate) fn exceeded(&self, now: Duration) -> Option<RequestError> {
        let passed = now.saturating_sub(self.submitted);
        match (self.limits.deadline, self.limits.first_token) {
            (Some(limit), _) if passed > limit => Some(RequestError::Deadline { limit }),
            (_, Some(limit)) if passed > limit && self.first_token.is_none() => {
                Some(RequestError::FirstToken { limit })
            }
            _ => None,
        }
    }

    /// Tells what happened to a text, now or when all have ended.
    pub(crate) fn tell(
        &mut self,
        request: RequestId,
        choice: usize,
        kind: EventKind,
        tell: &mut dyn FnMut(Event),
    ) {
        if let Some(kind) = self.pass(choice, kind) {
            tell(Event {
                request,
                choice,
                kind,
            });
        }
    }

    /// Ends the request with an error.
    pub(crate) fn fail(
        &mut self,
        request: RequestId,
        choice: usize,
        error: RequestError,
        tell: &mut dyn FnMut(Event),
    ) {
        if !self.failed {
            self.failed = true;
            tell(Event {
                request,
                choice,
                kind: EventKind::Failed(error),
            });
        }
    }

    /// Takes in what happened to a text; gives it back if it is to be told now.
    fn pass(&mut self, choice: usize, kind: EventKind) -> Option<EventKind> {
        match &mut self.held_back {
            None => Some(kind),
            Some(held) => {
                held.entry(choice).or_default().push(kind);
                None
            }
        }
    }

    /// Takes in that a text has ended, and how likely it was.
    pub(crate) fn end(&mut self, choice: usize, rank: f64) {
        self.open -= 1;
        self.ranks.push((rank, choice));
    }

    /// Once all have ended: what was held back of the best, with their numbers as answers.
    pub(crate) fn best(&mut self) -> impl Iterator<Item = (usize, EventKind)> {
        let mut held = self.held_back.take().unwrap_or_default();
        self.ranks
            .sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let best = self
            .ranks
            .iter()
            .take(self.wanted)
            .map(|&(_, choice)| choice);
        let events: Vec<Vec<EventKind>> = best
            .map(|choice| held.remove(&choice).unwrap_or_default())
            .collect();
        events
            .into_iter()
            .enumerate()
            .flat_map(|(answer, events)| events.into_iter().map(move |kind| (answer, kind)))
    }
}
