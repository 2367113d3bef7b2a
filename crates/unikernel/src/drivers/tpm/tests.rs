//! Both interfaces against registers that behave as theirs, and a TPM that answers by the book.

use super::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::vec;

/// A clock on which every look takes ten milliseconds.
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(10_000_000, Ordering::Relaxed)
    }
}

static CLOCK: Slow = Slow(AtomicU64::new(0));

/// Answers a command.
pub(crate) type Answer = Rc<RefCell<dyn FnMut(&[u8]) -> Vec<u8>>>;

struct State {
    kind: u32,
    /// What was written and not yet executed, or not yet read.
    bytes: Vec<u8>,
    answered: bool,
    started: bool,
    answer: Answer,
}

struct Fake(RefCell<State>);

// SAFETY: used by one thread.
#[allow(unsafe_code)]
unsafe impl Send for Fake {}

impl Registers for Fake {
    fn read(&self, offset: usize) -> u32 {
        let state = self.0.borrow();
        match (state.kind & 0xf, offset) {
            (_, INTERFACE) => state.kind,
            (1, LOCALITY_STATUS) => 1,
            (1, BUFFER..) => {
                let at = offset - BUFFER;
                let byte = |i| u32::from(state.bytes.get(at + i).copied().unwrap_or(0));
                (0..4).fold(0, |sum, i| sum | byte(i) << (8 * i))
            }
            (0, STATUS) => {
                let expects = if state.bytes.len() < HEADER {
                    EXPECTS
                } else {
                    0
                };
                let data = if state.answered { HAS_DATA } else { expects };
                // Three bytes at a time.
                READY | VALID | 3 << 8 | data
            }
            _ => 0,
        }
    }

    fn write(&mut self, offset: usize, value: u32) {
        let state = &mut *self.0.borrow_mut();
        match (state.kind & 0xf, offset, value) {
            (0, STATUS, READY) => {
                state.bytes.clear();
                state.answered = false;
            }
            (0, STATUS, GO) | (1, CONTROL_START, 1) => {
                state.bytes = (state.answer.borrow_mut())(&state.bytes);
                state.answered = true;
                state.started = true;
            }
            (1, BUFFER.., _) => {
                if state.started {
                    state.started = false;
                    state.bytes.clear();
                }
                state.bytes.extend(value.to_le_bytes());
            }
            _ => {}
        }
    }
}

impl ByteRegisters for Fake {
    fn read_byte(&self, offset: usize) -> u8 {
        let mut state = self.0.borrow_mut();
        match offset {
            ACCESS => ACTIVE,
            DATA if state.answered && !state.bytes.is_empty() => state.bytes.remove(0),
            _ => 0xff,
        }
    }

    fn write_byte(&mut self, offset: usize, value: u8) {
        if offset == DATA {
            self.0.borrow_mut().bytes.push(value);
        }
    }
}

/// A TPM of either interface (0 or 1 in the last digit) with such answers.
pub(crate) fn fake(kind: u32, answer: Answer) -> Tpm {
    let state = State {
        kind,
        bytes: Vec::new(),
        answered: false,
        started: false,
        answer,
    };
    let tpm = Tpm::new(Fake(RefCell::new(state)), &CLOCK);
    tpm.expect("it answers").expect("it is there")
}

/// A response with a code and what follows it.
pub(crate) fn response(code: u32, rest: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80, 1];
    out.extend(((HEADER + rest.len()) as u32).to_be_bytes());
    out.extend(code.to_be_bytes());
    out.extend(rest);
    out
}

#[test]
fn commands_and_responses_of_any_length_go_through_both_interfaces() {
    for kind in [0x100, 0x101] {
        for len in [0usize, 1, 7, 300] {
            let command = response(0x144, &vec![7; len]);
            let sent = command.clone();
            let answer = move |bytes: &[u8]| {
                assert!(bytes.starts_with(&sent) && bytes.len() < sent.len() + 4);
                response(0, &bytes[..sent.len()])
            };
            let mut tpm = fake(kind, Rc::new(RefCell::new(answer)));
            let expected = response(0, &command);
            assert_eq!(tpm.transmit(&command), Ok(expected.clone()), "{kind} {len}");
            assert_eq!(tpm.transmit(&command), Ok(expected));
        }
    }
}

#[test]
fn nonsense_is_an_error() {
    for kind in [0x100, 0x101] {
        for bytes in [
            vec![0; 20],
            vec![0xff; 20],
            vec![0x80, 1, 0, 0, 0x10, 1, 0, 0, 0, 0],
        ] {
            let mut tpm = fake(kind, Rc::new(RefCell::new(move |_: &[u8]| bytes.clone())));
            assert!(tpm.transmit(&response(0, &[])).is_err());
        }
    }
    // It promises more than comes: the registers give ones.
    let cut = response(0, &[1; 40])[..20].to_vec();
    let mut tpm = fake(0x100, Rc::new(RefCell::new(move |_: &[u8]| cut.clone())));
    assert_eq!(tpm.transmit(&response(0, &[])).unwrap()[20..], [0xff; 30]);
}

#[test]
fn without_a_tpm_there_is_none() {
    for kind in [0, u32::MAX] {
        let answer: Answer = Rc::new(RefCell::new(|_: &[u8]| Vec::new()));
        let state = State {
            kind,
            bytes: Vec::new(),
            answered: false,
            started: false,
            answer,
        };
        let none = Tpm::new(Fake(RefCell::new(state)), &CLOCK);
        assert!(none.expect("no error").is_none());
    }
}
