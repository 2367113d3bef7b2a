//! What machines that share a model say to each other.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_peers::Message;

pub(super) const PEERS: Target = Target {
    made_seeds: seeds,
    ..Target::new(
        "peers",
        "a message between machines that share a model to its parser",
        message,
    )
};

fn message(bytes: &[u8]) -> Outcome {
    let message = match Message::parse(bytes) {
        Ok(message) => message,
        Err(error) => return Outcome::refused(&error),
    };
    // What was read is written as it was read.
    let mut again = Vec::new();
    message.write(&mut again);
    assert_eq!(Message::parse(&again).as_ref(), Ok(&message));
    Outcome::taken((bytes.first(), magnitude(bytes.len())))
}

/// One of each kind that has something in it.
fn seeds() -> Vec<Vec<u8>> {
    let numbers = |kind: u8, count: u32| {
        let numbers = (0..count).flat_map(|number| (number % 3).to_le_bytes());
        std::iter::once(kind).chain(numbers).collect::<Vec<u8>>()
    };
    let assignment = [&[1, 1][..], &[2; 60]].concat();
    let batch = [&[10, 1, 0, 0, 0][..], &[0; 16], &[2, 0, 0, 0], &[1; 40]].concat();
    let facts = [&[128][..], &[5; 44]].concat();
    let ready = [&[130][..], &[6; 28]].concat();
    let refused = b"\x86it does not fit".to_vec();
    let others = [3, 6, 7, 8, 9, 133].map(|kind| numbers(kind, 6));
    let made = [assignment, batch, facts, ready, refused];
    made.into_iter().chain(others).collect()
}
