//! Who is computed next: a plan of tokens for each step.
//!
//! It knows nothing of models: sequences have tokens to compute, steps take time, memory is had or not. So it is tested by
//! simulation, with a clock that is only a number.
//!
//! - Sequences that have one token to compute, because they wait for the next, are all in every step.
//! - What is left of the step's tokens goes to longer pieces, of prompts mostly. How many tokens that is follows from
//!   how long steps [have taken](step_time), so that a step ends within the target.
//! - Clients take turns: each is charged for its tokens, and who was charged least comes first. Among one client's
//!   sequences the order is that of arrival, with a head start for the urgent ones. The first gets half of the room, the
//!   second half of the rest and so on, so that a short prompt does not wait for a long one.
//! - Where memory ends, the sequence of the lowest priority that came last gives its pages back and waits. The best-placed
//!   sequence is never the one, so something always gets on; and whoever waits longest is admitted before those that came
//!   later, so nobody waits for ever.

mod sequence;
mod step_time;
#[cfg(test)]
mod tests;

use crate::counters::Blocked;
use crate::request::ClientId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
pub(crate) use sequence::{ScheduledSequence, SequenceId};
pub(crate) use step_time::StepTime;

/// Tokens of prompts in a step, at least: waiting sequences get on, however many others are running.
const LEAST_CHUNK: usize = 8;

/// Tokens in a step as long as it is not known how long one takes.
const FIRST_STEP: usize = 32;

/// Where nobody waits for a next token, steps may be this many times as long.
const IDLE_STRETCH: u32 = 4;

/// How often a sequence gives its place to one of a higher priority.
const MOST_DISPLACED: u8 = 2;

/// The memory that sequences compute in.
pub(crate) trait Pages {
    /// Finds what is cached of a sequence and takes room for the rest; afterwards there must be room for
    /// `headroom` sequences to grow. Gives the tokens left to compute, or nothing and takes nothing.
    fn admit(&mut self, sequence: SequenceId, headroom: usize) -> Option<usize>;

    /// Tokens of an admitted sequence that must be computed together now, if any must.
    fn fewest(&mut self, sequence: SequenceId) -> usize {
        let _ = sequence;
        0
    }

    /// Makes room for that many tokens more of an admitted sequence.
    fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> bool;

    /// Takes all memory from a sequence.
    fn release(&mut self, sequence: SequenceId);
}

/// What a sequence gets of a step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) sequence: SequenceId,
    pub(crate) tokens: usize,
}

/// What a step can have.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Room {
    /// Tokens.
    pub(crate) tokens: usize,
    /// Admitted sequences.
    pub(crate) sequences: usize,
    /// Time.
    pub(crate) target: Duration,
}

/// What a client has used, in tokens that count less the higher the priority.
#[derive(Clone, Debug, Default)]
struct Account {
    charged: u64,
    sequences: usize,
}

/// Plans steps.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// In the order of their names.
    sequences: Vec<ScheduledSequence>,
    accounts: BTreeMap<ClientId, Account>,
    time: StepTime,
    /// Sequences that had to give their memory back.
    preemptions: u64,
    /// Why the last step admitted no more.
    blocked: Option<Blocked>,
    shares: Vec<Share>,
    order: Vec<SequenceId>,
}

impl Scheduler {
    /// Takes a sequence; names must ascend.
    pub(crate) fn add(&mut self, sequence: ScheduledSequence) {
        debug_assert!(
            self.sequences
                .last()
                .is_none_or(|last| last.id < sequence.id)
        );
        // A client that comes back is not owed for the time that it was away.
        let floor = self.accounts.values().map(|account| account.charged).min();
        let account = self.accounts.entry(sequence.client).or_default();
        if account.sequences == 0 {
            account.charged = account.charged.max(floor.unwrap_or(0));
        }
        account.sequences += 1;
        self.sequences.push(sequence);
    }

    /// Forgets a sequence. Its memory is not touched.
    pub(crate) fn remove(&mut self, id: SequenceId) {
        let Some(index) = self.index(id) else { return };
        let sequence = self.sequences.remove(index);
        if let Some(account) = self.accounts.get_mut(&sequence.client) {
            account.sequences -= 1;
            if account.sequences == 0 {
                self.accounts.remove(&sequence.client);
            }
        }
    }

    /// Says how many tokens a sequence has to compute now.
    pub(crate) fn set_pending(&mut self, id: SequenceId, tokens: usize) {
        if let Some(index) = self.index(id) {
            self.sequences[index].pending = tokens;
        }
    }

    /// Says that a sequence's memory was taken from it.
    pub(crate) fn set_waiting(&mut self, id: SequenceId) {
        if let Some(index) = self.index(id) {
            self.sequences[index].admitted = false;
        }
    }

    /// Takes in how long a step took.
    pub(crate) fn learn(&mut self, tokens: usize, time: Duration) {
        self.time.learn(tokens, time);
    }

    /// How long steps take.
    pub(crate) fn time(&self) -> &StepTime {
        &self.time
    }

    /// Sequences that had to give their memory back so far.
    pub(crate) fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// What those that wait were not admitted for, in the last step.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    /// How many sequences wait for admission.
    pub(crate) fn waiting(&self) -> usize {
        self.sequences
            .iter()
            .filter(|sequence| !sequence.admitted)
            .count()
    }

    /// How many sequences are admitted.
    pub(crate) fn admitted(&self) -> usize {
        self.sequences.len() - self.waiting()
    }

    fn index(&self, id: SequenceId) -> Option<usize> {
        self.sequences
            .binary_search_by_key(&id, |sequence| sequence.id)
            .ok()
    }

    /// Plans a step.
    pub(crate) fn plan(&mut self, now: Duration, room: Room, pages: &mut dyn Pages) -> &[Share] {
        self.shares.clear();
        self.blocked = None;
        self.decodes(room, pages);
        let decoding = self.shares.len();
        let budget = self.budget(decoding, room);
        let mut left = budget
            .saturating_sub(decoding)
            .max(LEAST_CHUNK)
            .min(room.tokens.saturating_sub(decoding));
        let mut order = self.order_of_turns(now);
        let mut open = true;
        let mut behind = order.len();
        for id in order.drain(..) {
            behind -= 1;
            if left == 0 {
                break;
            }
            let Some(index) = self.index(id) else {
                continue;
            };
            if !self.sequences[index].admitted {
                open = open && self.admit(index, decoding, room, pages);
                if !open {
                    continue;
                }
            }
            let pending = self.sequences[index].pending;
            // Those behind get something too.
            let most = if behind > 0 {
                left.div_ceil(2).max(LEAST_CHUNK)
            } else {
                left
            };
            let mut tokens = pending.min(most).min(left);
            let fewest = pages.fewest(id);
            if tokens < fewest {
                // What cannot be cut may take longer than steps should, and waits where a batch has no room for it.
                let given: usize = self.shares.iter().map(|share| share.tokens).sum();
                tokens = if given + fewest <= room.tokens {
                    fewest
                } else {
                    0
                };
            }
            if tokens > 0 && self.secure(id, tokens, pages) {
                left = left.saturating_sub(tokens);
                self.give(id, tokens);
            }
        }
        self.order = order;
        self.top_up(decoding, left, pages);
        &self.shares
    }

    /// The sequence whose turn it is, where sequences are computed whole or not at all.
    pub(crate) fn next_whole(&mut self, now: Duration) -> Option<SequenceId> {
        let order = self.order_of_turns(now);
        let first = order.first().copied();
        self.order = order;
        first
    }

    /// Plans a step of whole sequences, of those that go together.
    pub(crate) fn plan_whole(
        &mut self,
        now: Duration,
        room: usize,
        together: &dyn Fn(SequenceId) -> bool,
    ) -> &[Share] {
        self.shares.clear();
        let mut left = room;
        let order = self.order_of_turns(now);
        for &id in order.iter().filter(|&&id| together(id)) {
            let Some(index) = self.index(id) else {
                continue;
            };
            let tokens = self.sequences[index].pending;
            if tokens <= left {
                left -= tokens;
                self.give(id, tokens);
            } else {
                // What does not fit comes first in the next step.
                break;
            }
        }
        self.order = order;
        &self.shares
    }

    /// Gives what those behind could not use to those before them.
    fn top_up(&mut self, decoding: usize, mut left: usize, pages: &mut dyn Pages) {
        for at in decoding..self.shares.len() {
            let Share { sequence, tokens } = self.shares[at];
            let Some(index) = self.index(sequence) else {
                continue;
            };
            let more = left.min(self.sequences[index].pending - tokens);
            // Tokens that a constraint forced came after admission, which reserved pages for the prompt.
            if more == 0 || !pages.reserve(sequence, tokens + more) {
                continue;
            }
            left -= more;
            self.shares[at].tokens += more;
            self.charge(index, more);
        }
    }

    /// Gives each sequence that waits for its next token one, the best-placed first.
    fn decodes(&mut self, room: Room, pages: &mut dyn Pages) {
        let mut order = core::mem::take(&mut self.order);
        order.clear();
        let decodes = |sequence: &&ScheduledSequence| sequence.admitted && sequence.pending == 1;
        order.extend(
            self.sequences
                .iter()
                .filter(decodes)
                .map(|sequence| sequence.id),
        );
        order.sort_unstable_by_key(|&id| {
            core::cmp::Reverse(self.index(id).map(|index| self.sequences[index].rank()))
        });
        for id in order.drain(..) {
            let admitted = self
                .index(id)
                .is_some_and(|index| self.sequences[index].admitted);
            if admitted && self.shares.len() < room.tokens && self.secure(id, 1, pages) {
                self.give(id, 1);
            }
        }
        self.order = order;
    }

    /// Tokens in a step, so that it ends in time.
    fn budget(&self, decoding: usize, room: Room) -> usize {
        let asked = self.sequences.iter().filter(|sequence| sequence.admitted);
        let target = asked
            .filter_map(|sequence| sequence.target)
            .fold(room.target, Duration::min);
        let target = match decoding {
            0 => target.saturating_mul(IDLE_STRETCH),
            _ => target,
        };
        let within = if room.target == Duration::MAX {
            usize::MAX
        } else if self.time.is_known() {
            self.time.tokens_within(target)
        } else {
            FIRST_STEP
        };
        within.min(room.tokens)
    }

    /// Sequences with more than one token to compute, and those that wait, in the order of their turns.
    fn order_of_turns(&mut self, now: Duration) -> Vec<SequenceId> {
        let mut order = core::mem::take(&mut self.order);
        order.clear();
        let wants = |sequence: &&ScheduledSequence| {
            sequence.pending > 1 || (!sequence.admitted && sequence.pending > 0)
        };
        order.extend(
            self.sequences
                .iter()
                .filter(wants)
                .map(|sequence| sequence.id),
        );
        order.sort_unstable_by_key(|&id| {
            let index = self.index(id);
            index.map(|index| self.turn(&self.sequences[index], now))
        });
        order
    }

    /// Whose turn it is: the least comes first.
    fn turn(&self, sequence: &ScheduledSequence, now: Duration) -> impl Ord + use<> {
        let charged = self.accounts.get(&sequence.client).map_or(0, |a| a.charged);
        (charged, sequence.client, sequence.place(now))
    }

    /// How many waiting sequences have their turn before this one; `None` if it does not wait.
    pub(crate) fn ahead(&self, id: SequenceId, now: Duration) -> Option<usize> {
        let own = self.sequences.get(self.index(id)?)?;
        let turn = self.turn(own, now);
        let waits = |one: &&ScheduledSequence| !one.admitted && one.pending > 0;
        let before = self.sequences.iter().filter(waits);
        let before = before.filter(|one| self.turn(one, now) < turn).count();
        (!own.admitted).then_some(before)
    }

    /// Admits a waiting sequence if there is a place, time and memory for it. If not, nobody after it is admitted either:
    /// what becomes free is for this one.
    fn admit(&mut self, index: usize, decoding: usize, room: Room, pages: &mut dyn Pages) -> bool {
        let (id, priority) = (self.sequences[index].id, self.sequences[index].priority);
        if decoding > 0 && self.time.is_known() && self.time.tokens_within(room.target) <= decoding
        {
            self.blocked = Some(Blocked::Time);
            return false;
        }
        if self.admitted() >= room.sequences {
            // One that waits for others has no need of its place.
            let lower = |sequence: &ScheduledSequence| {
                sequence.pending == 0
                    || (sequence.priority < priority && sequence.displaced < MOST_DISPLACED)
            };
            let Some(victim) = self.victim(lower) else {
                self.blocked = Some(Blocked::Slots);
                return false;
            };
            self.sequences[victim].displaced += u8::from(self.sequences[victim].pending > 0);
            self.preempt(victim, pages);
        }
        let pending = loop {
            match pages.admit(id, self.admitted()) {
                Some(pending) => break pending,
                // Those that wait for others, perhaps for this one, give way.
                None => match self.victim(|sequence| sequence.pending == 0) {
                    Some(idle) => self.preempt(idle, pages),
                    None => {
                        self.blocked = Some(Blocked::Memory);
                        return false;
                    }
                },
            }
        };
        self.sequences[index].admitted = true;
        self.sequences[index].pending = pending;
        true
    }

    /// Makes room for a sequence's tokens, at the cost of worse-placed sequences if need be.
    fn secure(&mut self, id: SequenceId, tokens: usize, pages: &mut dyn Pages) -> bool {
        loop {
            if pages.reserve(id, tokens) {
                return true;
            }
            let Some(index) = self.index(id) else {
                return false;
            };
            let rank = self.sequences[index].rank();
            match self.victim(|sequence| sequence.pending == 0 || sequence.rank() < rank) {
                Some(victim) => self.preempt(victim, pages),
                // It waits for a better-placed sequence to end, and gives way itself when one needs its pages.
                None => return false,
            }
        }
    }

    /// The worst-placed admitted sequence of some that has no share of this step yet.
    fn victim(&self, of: impl Fn(&ScheduledSequence) -> bool) -> Option<usize> {
        let candidates = self.sequences.iter().enumerate().filter(|(_, sequence)| {
            sequence.admitted
                && of(sequence)
                && self
                    .shares
                    .iter()
                    .all(|share| share.sequence != sequence.id)
        });
        candidates
            .min_by_key(|(_, sequence)| (sequence.pending > 0, sequence.rank()))
            .map(|(index, _)| index)
    }

    fn preempt(&mut self, index: usize, pages: &mut dyn Pages) {
        let sequence = &mut self.sequences[index];
        sequence.admitted = false;
        pages.release(sequence.id);
        self.preemptions += 1;
    }

    fn give(&mut self, id: SequenceId, tokens: usize) {
        let Some(index) = self.index(id) else { return };
        self.charge(index, tokens);
        self.shares.push(Share {
            sequence: id,
            tokens,
        });
    }

    fn charge(&mut self, index: usize, tokens: usize) {
        let sequence = &self.sequences[index];
        if let Some(account) = self.accounts.get_mut(&sequence.client) {
            // A token of high priority counts as one, of normal as two, of low as four.
            let weight = 4 >> sequence.priority as u64;
            account.charged = account.charged.saturating_add(tokens as u64 * weight);
        }
    }
}
