//! From the likeliest letter of each row to text with times: what repeats is one letter, a blank is none, and a delimiter
//! ends a word.

use super::window::compression;
use std::collections::HashMap;
use strata_chat::{Segment, Word};
use strata_model::{CtcConfig, LoadError};
use strata_weights::Metadata;

/// A pause of so many seconds ends a segment.
const PAUSE: f64 = 0.6;
/// So does a word beyond so many characters: two lines of subtitles.
const CHARACTERS: usize = 84;
/// Frames of 10 ms in a second.
const FRAMES: f64 = 100.0;

/// What a model's tokens are.
pub(super) struct Letters {
    texts: Vec<String>,
    /// The first token with the same text.
    same: Vec<u32>,
    blank: u32,
    lower: bool,
}

impl Letters {
    pub(super) fn new(metadata: &Metadata<'_>, config: &CtcConfig) -> Result<Self, LoadError> {
        let key = "tokenizer.ggml.tokens";
        let array = metadata.array(key)?;
        let list = array.and_then(|array| array.strs());
        let missing = |key: &str| LoadError::MissingKey { key: key.into() };
        let list = list.ok_or_else(|| missing(key))?;
        let mut texts: Vec<String> = list.map(str::to_owned).collect();
        if texts.len() != config.vocabulary {
            return Err(LoadError::BadValue {
                key: key.into(),
                value: texts.len() as f64,
                needs: "as many tokens as the output has rows",
            });
        }
        let token = |key: String| -> Result<Option<u32>, LoadError> {
            let token = metadata.u32(&key)?;
            match token.filter(|&token| token as usize >= config.vocabulary) {
                None => Ok(token),
                Some(token) => Err(LoadError::BadValue {
                    key,
                    value: token.into(),
                    needs: "one of the tokens",
                }),
            }
        };
        let blank = "tokenizer.ggml.padding_token_id";
        let blank = token(blank.into())?.ok_or_else(|| missing(blank))?;
        let mut first = HashMap::new();
        let same = (0..).zip(&texts);
        let same = same.map(|(token, text): (u32, _)| *first.entry(text.clone()).or_insert(token));
        let same = same.collect();
        if let Some(delimiter) = token(format!("{}.word_delimiter", config.arch))? {
            texts[delimiter as usize] = " ".into();
        }
        let lower = metadata.bool(&format!("{}.lower_case", config.arch))?;
        Ok(Self {
            texts,
            same,
            blank,
            lower: lower.unwrap_or(false),
        })
    }
}

/// The same letter in rows side by side.
#[derive(Copy, Clone)]
struct Run {
    token: u32,
    start: usize,
    end: usize,
    /// The sum of its log-probabilities.
    logprob: f32,
}

/// A word that is being read, with the spaces before it.
#[derive(Default)]
struct OpenWord {
    text: String,
    /// Rows of its first and after its last letter; none yet where there are only spaces.
    rows: Option<(usize, usize)>,
    tokens: Vec<u32>,
    logprob: f32,
    /// Rows that its letters have.
    count: usize,
}

/// Reads letters, and gives segments as they end.
pub(super) struct Reader<'a> {
    letters: &'a Letters,
    /// Seconds of a row.
    seconds: f64,
    words: bool,
    row: usize,
    run: Option<Run>,
    word: OpenWord,
    segment: Vec<OpenWord>,
    done: Vec<Segment>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(letters: &'a Letters, seconds: f64, words: bool) -> Self {
        Self {
            letters,
            seconds,
            words,
            row: 0,
            run: None,
            word: OpenWord::default(),
            segment: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Reads a row's letter.
    pub(super) fn push(&mut self, token: u32, logprob: f32) {
        let token = self.letters.same[token as usize];
        let row = self.row;
        self.row += 1;
        match &mut self.run {
            Some(run) if run.token == token => {
                run.end = self.row;
                run.logprob += logprob;
            }
            run => {
                let before = run.replace(Run {
                    token,
                    start: row,
                    end: self.row,
                    logprob,
                });
                if let Some(before) = before {
                    self.letter(before);
                }
            }
        }
    }

    /// Nothing follows.
    pub(super) fn end(&mut self) {
        if let Some(run) = self.run.take() {
            self.letter(run);
        }
        self.end_word();
        self.end_segment();
    }

    /// Segments that have ended since it was last asked.
    pub(super) fn segments(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.done)
    }

    fn letter(&mut self, run: Run) {
        if run.token == self.letters.blank {
            return;
        }
        let text = &self.letters.texts[run.token as usize];
        let space = text == " ";
        if space && self.word.rows.is_some() {
            self.end_word();
        }
        let word = &mut self.word;
        word.text.push_str(text);
        word.tokens.push(run.token);
        if space {
            return;
        }
        let start = word.rows.map_or(run.start, |(start, _)| start);
        word.rows = Some((start, run.end));
        word.logprob += run.logprob;
        word.count += run.end - run.start;
    }

    fn end_word(&mut self) {
        if self.word.rows.is_none() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let last = self.segment.last().and_then(|last| last.rows);
        if let (Some((_, end)), Some((start, _))) = (last, word.rows) {
            let pause = (start - end) as f64 * self.seconds;
            let words = self.segment.iter().chain([&word]);
            let characters: usize = words.map(|word| word.text.chars().count()).sum();
            if pause >= PAUSE || characters > CHARACTERS {
                self.end_segment();
            }
        }
        self.segment.push(word);
    }

    fn end_segment(&mut self) {
        let words = std::mem::take(&mut self.segment);
        let first = words.first().and_then(|word| word.rows);
        let last = words.last().and_then(|word| word.rows);
        let (Some((start, _)), Some((_, end))) = (first, last) else {
            return;
        };
        let time = |row: usize| row as f64 * self.seconds;
        let cased = |text: &str| {
            if self.letters.lower {
                text.to_lowercase()
            } else {
                text.to_owned()
            }
        };
        let text: String = words.iter().map(|word| cased(&word.text)).collect();
        let logprob: f32 = words.iter().map(|word| word.logprob).sum();
        let count: usize = words.iter().map(|word| word.count).sum();
        let timed = words.iter().filter_map(|word| {
            let (start, end) = word.rows?;
            Some(Word {
                text: cased(&word.text),
                start: time(start),
                end: time(end),
            })
        });
        let timed = if self.words {
            timed.collect()
        } else {
            Vec::new()
        };
        self.done.push(Segment {
            seek: (time(start) * FRAMES) as usize,
            start: time(start),
            end: time(end),
            compression: compression(&text),
            mean_logprob: logprob / count.max(1) as f32,
            words: timed,
            text,
            tokens: words.into_iter().flat_map(|word| word.tokens).collect(),
            ..Segment::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Letters {
        let texts: Vec<String> = ["-", " ", "A", "B", "A"].map(str::to_owned).into();
        Letters {
            texts,
            same: vec![0, 1, 2, 3, 2],
            blank: 0,
            lower: true,
        }
    }

    fn read(rows: &[u32]) -> Vec<Segment> {
        let letters = letters();
        let mut reader = Reader::new(&letters, 0.02, true);
        rows.iter().for_each(|&row| reader.push(row, -0.5));
        reader.end();
        reader.segments()
    }

    #[test]
    fn repeated_letters_are_one_unless_a_blank_parts_them() {
        let [segment] = &read(&[1, 2, 4, 0, 2, 3, 1, 1, 0, 1, 3, 0])[..] else {
            panic!("one segment");
        };
        assert_eq!(segment.text, " aab  b");
        assert_eq!((segment.start, segment.end), (0.02, 0.22));
        let words: Vec<_> = segment.words.iter().map(|w| (w.start, w.end)).collect();
        assert_eq!(words, [(0.02, 0.12), (0.2, 0.22)]);
        assert_eq!(segment.mean_logprob, -0.5);
    }

    #[test]
    fn a_pause_ends_a_segment_and_silence_has_none() {
        let mut rows = vec![2, 1];
        rows.extend([0; 40]);
        rows.extend([3, 1, 1]);
        let segments = read(&rows);
        let texts: Vec<&str> = segments.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["a", " b"]);
        assert!(read(&[0; 100]).is_empty());
        assert!(read(&[1, 0, 1]).is_empty());
        assert!(read(&[]).is_empty());
    }

    #[test]
    fn segments_are_no_longer_than_subtitles() {
        let rows = [2, 0, 2, 0, 2, 1].repeat(100);
        let segments = read(&rows);
        assert!(segments.len() > 4);
        assert!(
            segments
                .iter()
                .all(|s| s.text.chars().count() <= CHARACTERS)
        );
        let all: String = segments.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(all, ["aaa"; 100].join(" "));
    }
}
