//! Constraints and drafts: less choice for the model, and fewer steps.

use crate::decoder::Decoder;
use crate::sampling::likeliest;

// ANCHOR: choices
/// Answers that are allowed, and what has been written of one.
#[derive(Clone, Debug)]
pub struct Choices {
    answers: Vec<Vec<u8>>,
    written: Vec<u8>,
}

impl Choices {
    /// Nothing is written yet.
    pub fn new(answers: &[&str]) -> Choices {
        Choices {
            answers: answers
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect(),
            written: Vec::new(),
        }
    }

    /// Whether a token may be next: some answer goes on with its bytes.
    pub fn allows(&self, token: &[u8]) -> bool {
        let rest = |answer: &Vec<u8>| answer.strip_prefix(&self.written[..]).map(<[u8]>::to_vec);
        let mut rests = self.answers.iter().filter_map(rest);
        !token.is_empty() && rests.any(|rest| rest.starts_with(token))
    }

    /// Takes a token that was chosen.
    pub fn accept(&mut self, token: &[u8]) {
        self.written.extend_from_slice(token);
    }

    /// Whether an answer is complete.
    pub fn is_complete(&self) -> bool {
        self.answers.contains(&self.written)
    }

    /// Makes every token impossible that is not allowed.
    pub fn mask(&self, logits: &mut [f32], vocabulary: &[Vec<u8>]) {
        for (logit, token) in logits.iter_mut().zip(vocabulary) {
            if !self.allows(token) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}
// ANCHOR_END: choices

// ANCHOR: propose
/// Guesses how a text goes on: finds the latest earlier place with the longest ending in common, and copies what
/// followed there.
pub fn propose(text: &[u32], most: usize) -> Vec<u32> {
    let common = |place: usize| {
        let pairs = text[..place].iter().rev().zip(text.iter().rev());
        pairs.take_while(|(a, b)| a == b).count()
    };
    // The first of equals in this order is the latest.
    let mut best = (0, 1);
    for place in (1..text.len()).rev() {
        let length = common(place);
        if length > best.1 {
            best = (place, length);
        }
    }
    match best {
        (0, _) => Vec::new(),
        (place, _) => text[place..].iter().copied().take(most).collect(),
    }
}
// ANCHOR_END: propose

// ANCHOR: speculate
/// Continues a prompt greedily, with drafts. Gives the tokens, and the number of steps: a step computes the last token
/// and its whole draft at once.
pub fn speculate(
    decoder: &mut Decoder,
    prompt: &[u32],
    count: usize,
    most: usize,
) -> (Vec<u32>, usize) {
    let mut text = prompt.to_vec();
    let Some((&last, before)) = prompt.split_last() else {
        return (Vec::new(), 0);
    };
    for (position, &token) in before.iter().enumerate() {
        decoder.forward(token, position);
    }
    let mut steps = 0;
    let mut token = last;
    while text.len() < prompt.len() + count {
        let draft = propose(&text, most);
        steps += 1;
        // The draft is right as far as the model would have said the same.
        for guess in draft.iter().map(Some).chain([None]) {
            token = likeliest(decoder.forward(token, text.len() - 1));
            text.push(token);
            if guess != Some(&token) || text.len() == prompt.len() + count {
                break;
            }
        }
    }
    (text.split_off(prompt.len()), steps)
}
// ANCHOR_END: speculate
