//! What a client has of a stream, so that the same stream from another replica goes on where the first broke off.
//!
//! Streams are passed on in whole events. The same request with the same stamp makes the same events on every replica,
//! choice by choice; only how choices take turns may differ. So a replayed stream is skipped event by event in each
//! choice's lane, and what is skipped must be what was delivered.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use strata_wire::Framing;

/// Bytes of an event at most.
const LONGEST: usize = 64 << 20;

/// Cuts a body into whole events.
#[derive(Debug)]
pub(super) struct EventCutter {
    end: &'static [u8],
    rest: Vec<u8>,
    /// Where the end of an event may begin that was not found yet.
    looked: usize,
}

/// An event is longer than any that a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl EventCutter {
    pub(super) fn new(framing: Framing) -> Self {
        Self {
            end: match framing {
                Framing::Events => b"\n\n",
                Framing::Whole | Framing::Lines => b"\n",
            },
            rest: Vec::new(),
            looked: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.rest.len() + bytes.len() > LONGEST {
            return Err(TooLong);
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole event, with its end.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let unseen = &self.rest[self.looked..];
        let Some(at) = unseen.windows(self.end.len()).position(|w| w == self.end) else {
            self.looked = self.rest.len().saturating_sub(self.end.len() - 1);
            return None;
        };
        let length = self.looked + at + self.end.len();
        self.looked = 0;
        let rest = self.rest.split_off(length);
        Some(std::mem::replace(&mut self.rest, rest))
    }
}

/// Events that a client has, by lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered(BTreeMap<u64, Lane>);

#[derive(Clone, Debug, Default)]
struct Lane {
    events: usize,
    hash: DefaultHasher,
}

/// What to do with an event of a replayed stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Replayed {
    /// The client has it.
    Skip,
    /// It is new.
    Deliver,
    /// It is not what the client has: the replicas do not answer alike.
    Differs,
}

impl Delivered {
    /// Notes an event that goes to the client.
    pub(super) fn note(&mut self, event: &[u8]) {
        if let Some(lane) = lane(event) {
            let lane = self.0.entry(lane).or_default();
            lane.events += 1;
            compared(event, &mut lane.hash);
        }
    }

    /// Looks at an event of a stream that is replayed; `self` is what came of it so far, `client` what the client has,
    /// and has more of if the event is to be delivered.
    pub(super) fn replay(&mut self, event: &[u8], client: &mut Self) -> Replayed {
        let Some(lane) = lane(event) else {
            // Where the request stands is news until the answer goes on.
            return Replayed::Skip;
        };
        let had = client.0.entry(lane).or_default();
        let own = self.0.entry(lane).or_default();
        own.events += 1;
        compared(event, &mut own.hash);
        if own.events > had.events {
            *had = own.clone();
            Replayed::Deliver
        } else if own.events < had.events || own.hash.finish() == had.hash.finish() {
            Replayed::Skip
        } else {
            Replayed::Differs
        }
    }

    /// Whether all that the client has came again.
    pub(super) fn covers(&self, before: &Self) -> bool {
        let came = |lane: &u64| self.0.get(lane).map_or(0, |lane| lane.events);
        before.0.iter().all(|(lane, had)| came(lane) >= had.events)
    }
}

/// The choice that an event belongs to; `None` if it only tells how far the request has come.
fn lane(event: &[u8]) -> Option<u64> {
    if event.starts_with(b":") || contains(event, b"\"prompt_progress\":") {
        return None;
    }
    // A quotation mark inside of a text has a backslash before it, so this is a key. The first one is the choice's.
    const KEY: &[u8] = b"\"index\":";
    let at = event.windows(KEY.len()).position(|window| window == KEY);
    let digits = at.map_or(&[][..], |at| &event[at + KEY.len()..]);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0u64, |number, digit| {
        number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit - b'0'))
    });
    // What is told of all choices follows them.
    Some(if at.is_some() { number } else { u64::MAX })
}

/// Adds what must be equal. Counts of cached tokens and times may differ, so events that tell these are only counted, and
/// numbers never compared.
fn compared(event: &[u8], hash: &mut DefaultHasher) {
    let measured: [&[u8]; 3] = [b"\"usage\":{", b"\"timings\":{", b"\"total_duration\":"];
    if !measured.iter().any(|key| contains(event, key)) {
        let of_number = |byte: u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
        let words = event.iter().filter(|byte| !of_number(**byte));
        words.for_each(|byte| hash.write_u8(*byte));
    }
    hash.write_u8(0);
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(index: u32, text: &str) -> Vec<u8> {
        format!("data: {{\"choices\":[{{\"index\":{index},\"text\":\"{text}\"}}]}}\n\n")
            .into_bytes()
    }

    #[test]
    fn events_come_whole_in_whatever_pieces() {
        let body = b"data: a\n\nevent: b\ndata: c\n\n: d\n\ndata: unfinished\n";
        for size in 1..body.len() {
            let mut cutter = EventCutter::new(Framing::Events);
            let mut events = Vec::new();
            for piece in body.chunks(size) {
                cutter.push(piece).unwrap();
                events.extend(std::iter::from_fn(|| cutter.next()));
            }
            let expected: [&[u8]; 3] = [b"data: a\n\n", b"event: b\ndata: c\n\n", b": d\n\n"];
            assert_eq!(events, expected, "in pieces of {size}");
        }
        let mut lines = EventCutter::new(Framing::Lines);
        lines.push(b"{}\n{").unwrap();
        assert_eq!((lines.next(), lines.next()), (Some(b"{}\n".to_vec()), None));
    }

    #[test]
    fn a_replay_skips_what_was_delivered_however_choices_take_turns() {
        let mut before = Delivered::default();
        for event in [chunk(0, "a"), chunk(1, "x"), chunk(0, "b")] {
            before.note(&event);
        }
        let mut again = Delivered::default();
        let mut replay = |event: Vec<u8>| again.replay(&event, &mut before);
        assert_eq!(replay(b": progress\n\n".to_vec()), Replayed::Skip);
        assert_eq!(replay(chunk(1, "x")), Replayed::Skip);
        assert_eq!(replay(chunk(1, "y")), Replayed::Deliver);
        assert_eq!(replay(chunk(0, "a")), Replayed::Skip);
        assert_eq!(replay(chunk(0, "b")), Replayed::Skip);
        assert_eq!(replay(chunk(0, "c")), Replayed::Deliver);
        assert_eq!(replay(b"data: [DONE]\n\n".to_vec()), Replayed::Deliver);
        assert!(again.covers(&before));
        assert!(!Delivered::default().covers(&before));
        // A third one skips what the second delivered, too.
        let mut third = Delivered::default();
        for event in [
            chunk(1, "x"),
            chunk(1, "y"),
            chunk(0, "a"),
            chunk(0, "b"),
            chunk(0, "c"),
        ] {
            assert_eq!(third.replay(&event, &mut before), Replayed::Skip);
        }
    }

    #[test]
    fn another_text_is_noticed_and_other_counts_are_not() {
        let mut before = Delivered::default();
        before.note(&chunk(0, "a"));
        let differs = Delivered::default().replay(&chunk(0, "A"), &mut before);
        assert_eq!(differs, Replayed::Differs);
        let counted = |n: u32| format!("data: {{\"usage\":{{\"cached_tokens\":{n}}}}}\n\n");
        let mut before = Delivered::default();
        before.note(counted(0).as_bytes());
        let same = Delivered::default().replay(counted(512).as_bytes(), &mut before);
        assert_eq!(same, Replayed::Skip);
        let line = |second: u32| format!("{{\"created_at\":\"2026-01-01T00:00:{second:02}Z\"}}\n");
        let mut before = Delivered::default();
        before.note(line(1).as_bytes());
        let same = Delivered::default().replay(line(59).as_bytes(), &mut before);
        assert_eq!(same, Replayed::Skip);
    }
}
