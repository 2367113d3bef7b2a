//! When each word is spoken: what some heads look at in the window, token by token, is the cost of a path through tokens
//! and positions, and the cheapest path (dynamic time warping) says where each token begins.

use super::segments::STAMP_FRAMES;
use super::whisper::FRAME;
use super::whisper::WhisperEars;
use super::window::bad_input;
use crate::error::Error;
use std::ops::Range;
use strata_chat::{Segment, Word};
use strata_model::{Alignment, Heard, WhisperConfig};
use strata_weights::Metadata;

/// Positions whose median counts.
const MEDIAN: usize = 7;

/// Layers and heads that follow what is spoken: those that the file names, or all of the upper half.
pub(super) fn heads(metadata: &Metadata<'_>, config: &WhisperConfig) -> Vec<(usize, usize)> {
    let array = metadata.array("whisper.alignment_heads").ok().flatten();
    let numbers = array.and_then(|array| array.integers());
    let numbers: Vec<usize> = numbers
        .into_iter()
        .flatten()
        .filter_map(|number| usize::try_from(number).ok())
        .collect();
    let (layers, heads) = (config.decoder_layers, config.decoder_heads);
    let named: Vec<(usize, usize)> = numbers
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(|&(layer, head)| layer < layers && head < heads)
        .collect();
    if !named.is_empty() {
        return named;
    }
    let upper = layers / 2..layers;
    let all = upper.flat_map(|layer| (0..heads).map(move |head| (layer, head)));
    all.collect()
}

impl WhisperEars {
    /// Gives the segments of a window their words. `prompt` is what came before them; the window has `size` frames.
    pub(super) fn add_words(
        &self,
        heard: &Heard,
        prompt: &[u32],
        (offset, size): (f64, usize),
        segments: &mut [Segment],
    ) -> Result<(), Error> {
        let (tokens, config) = (&self.tokens, self.config());
        let start = prompt.iter().position(|&token| token == tokens.start);
        let before = &prompt[start.unwrap_or(0)..];
        let is_text = |token: &&u32| **token < tokens.end;
        let all = segments.iter().flat_map(|part| &part.tokens);
        let text: Vec<u32> = all.filter(is_text).copied().collect();
        let mut read = before.to_vec();
        read.push(tokens.no_stamps);
        read.extend(&text);
        let positions = (size / STAMP_FRAMES).clamp(1, config.audio_positions);
        if text.is_empty() || read.len() > config.text_positions {
            return Ok(());
        }
        let mut alignment = Alignment::of(self.alignment.clone());
        let mut state = self.model.state();
        self.turn(|compute| {
            let watched = Some(&mut alignment);
            self.model
                .write(compute, (heard, &mut state), &read, 1, watched)
        })
        .map_err(|error| bad_input(&error))?;
        let rows = before.len()..read.len();
        let cost = cost(&alignment, rows, config.audio_positions, positions);
        let begins = warp(&cost, text.len() + 1, positions);
        let time = |token: usize| {
            let at = begins.get(token).copied().unwrap_or(positions);
            offset + (at * STAMP_FRAMES) as f64 * FRAME
        };
        let mut first = 0;
        for segment in segments {
            let own: Vec<u32> = segment.tokens.iter().filter(is_text).copied().collect();
            segment.words = self
                .split(&own)
                .into_iter()
                .map(|(range, text)| Word {
                    text,
                    start: time(first + range.start),
                    end: time(first + range.end),
                })
                .collect();
            first += own.len();
        }
        Ok(())
    }

    /// Tokens as words: which of them, and their text.
    fn split(&self, tokens: &[u32]) -> Vec<(Range<usize>, String)> {
        let mut words: Vec<(Range<usize>, String)> = Vec::new();
        let (mut bytes, mut from) = (Vec::new(), 0);
        for (index, &token) in tokens.iter().enumerate() {
            self.tokenizer.append_bytes(token, &mut bytes);
            let last = index + 1 == tokens.len();
            let text = match std::str::from_utf8(&bytes) {
                Ok(text) => text.to_owned(),
                // A character goes on in the next token.
                Err(_) if !last => continue,
                Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
            };
            let range = from..index + 1;
            from = index + 1;
            bytes.clear();
            let opens = |text: &str| {
                let text = text.trim();
                !text.is_empty() && text.chars().all(|c| "\"'“¿([{-".contains(c))
            };
            match words.last_mut() {
                Some((before, word)) if !begins_word(&text) || opens(word) => {
                    before.end = range.end;
                    word.push_str(&text);
                }
                _ => words.push((range, text)),
            }
        }
        words
    }
}

/// Whether a word begins with this text: at a space, and at every character of scripts without spaces.
fn begins_word(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let unspaced = matches!(first as u32,
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x3040..=0x30ff | 0x3400..=0x9fff | 0x20000..=0x3ffff);
    first == ' ' || unspaced
}

/// What it costs a token to be at a position: (tokens, positions). Shares are brought to the same scale at each position,
/// smoothed over positions, and their mean over heads counts.
fn cost(alignment: &Alignment, rows: Range<usize>, width: usize, positions: usize) -> Vec<f64> {
    let tokens = rows.len();
    let mut cost = vec![0.0; tokens * positions];
    let heads = alignment.shares.len().max(1) as f64;
    for shares in &alignment.shares {
        let at =
            |row: usize, position: usize| f64::from(shares[(rows.start + row) * width + position]);
        let mut scaled = vec![0.0; tokens * positions];
        for position in 0..positions {
            let mean = (0..tokens).map(|row| at(row, position)).sum::<f64>() / tokens as f64;
            let square = |row: usize| (at(row, position) - mean) * (at(row, position) - mean);
            let variance = (0..tokens).map(square).sum::<f64>() / tokens as f64;
            let deviation = libm::sqrt(variance).max(1e-20);
            for row in 0..tokens {
                scaled[row * positions + position] = (at(row, position) - mean) / deviation;
            }
        }
        for (row, out) in scaled
            .chunks_exact(positions)
            .zip(cost.chunks_exact_mut(positions))
        {
            for (position, out) in out.iter_mut().enumerate() {
                *out -= median(row, position) / heads;
            }
        }
    }
    cost
}

/// The median around a position; beyond the ends the row is reflected.
fn median(row: &[f64], position: usize) -> f64 {
    if row.len() <= MEDIAN / 2 {
        return row[position];
    }
    let mut around = [0.0; MEDIAN];
    for (step, out) in around.iter_mut().enumerate() {
        let place = (position + step).abs_diff(MEDIAN / 2);
        let last = row.len() - 1;
        *out = row[if place > last {
            2 * last - place
        } else {
            place
        }];
    }
    around.sort_unstable_by(f64::total_cmp);
    around[MEDIAN / 2]
}

/// The position at which each token begins, on the cheapest path.
fn warp(cost: &[f64], tokens: usize, positions: usize) -> Vec<usize> {
    let width = positions + 1;
    let mut sums = vec![f64::INFINITY; (tokens + 1) * width];
    let mut steps = vec![2u8; (tokens + 1) * width];
    sums[0] = 0.0;
    for row in 1..=tokens {
        steps[row * width] = 1;
        for column in 1..=positions {
            let both = sums[(row - 1) * width + column - 1];
            let token = sums[(row - 1) * width + column];
            let position = sums[row * width + column - 1];
            let (best, step) = if both < token && both < position {
                (both, 0)
            } else if token < both && token < position {
                (token, 1)
            } else {
                (position, 2)
            };
            sums[row * width + column] = cost[(row - 1) * positions + column - 1] + best;
            steps[row * width + column] = step;
        }
    }
    let mut begins = vec![0; tokens];
    let (mut row, mut column) = (tokens, positions);
    while row > 0 && column > 0 {
        // The earliest position of a token is met last.
        begins[row - 1] = column - 1;
        match steps[row * width + column] {
            0 => (row, column) = (row - 1, column - 1),
            1 => row -= 1,
            _ => column -= 1,
        }
    }
    begins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_path_follows_the_diagonal() {
        // Three tokens over six positions, two each.
        let cost: Vec<f64> = (0..18)
            .map(|i| if (i % 6) / 2 == i / 6 { -1.0 } else { 0.5 })
            .collect();
        assert_eq!(warp(&cost, 3, 6), [0, 2, 4]);
    }

    #[test]
    fn words_begin_at_spaces_and_at_each_character_without_them() {
        assert!(begins_word(" a") && begins_word("語") && begins_word("ก"));
        assert!(!begins_word("a") && !begins_word(".") && !begins_word("é"));
    }
}
