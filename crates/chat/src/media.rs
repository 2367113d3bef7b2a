//! Images and audio in prompts: what a model that sees or hears makes of one, and how that is spliced into a prompt's tokens.

use crate::fault::Fault;
use crate::message::{Audio, ContentPart, Image, Message};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use strata_engine::EmbeddedRun;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// What turns images into parts of a prompt.
pub trait Sight: Send + Sync + Debug {
    /// What stands in a prompt for an image. May take a while.
    fn see(&self, image: &Image) -> Result<Vec<MediaPart>, Fault>;

    /// The text of the token that stands for a position of an image.
    fn placeholder(&self) -> &str;
}

/// What turns audio into parts of a prompt.
pub trait Ears: Send + Sync + Debug {
    /// What stands in a prompt for audio, which is the `number`th of its conversation, counted from 1. May take a while.
    fn hear(&self, audio: &Audio, number: usize) -> Result<Vec<MediaPart>, Fault>;

    /// The text of the token that stands for a position of audio.
    fn placeholder(&self) -> &str;
}

/// What a model perceives with.
#[derive(Copy, Clone, Debug, Default)]
pub struct Senses<'a> {
    /// In models that see.
    pub sight: Option<&'a dyn Sight>,
    /// In models that hear.
    pub ears: Option<&'a dyn Ears>,
}

/// A part of what stands for an image or for audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaPart {
    /// Text around positions. Control tokens in it are read as such.
    Text(String),
    /// Positions with their embeddings; where they begin is not known yet.
    Run(EmbeddedRun),
}

/// The images and the audio of a conversation, with a mark in its text for each.
#[derive(Debug, Default)]
pub(crate) struct Media(Vec<Medium>);

/// One of them.
#[derive(Debug)]
struct Medium {
    parts: Vec<MediaPart>,
    placeholder: String,
}

/// Tokens, and the positions among them that are images' or audio's.
#[derive(Debug, Default)]
pub(crate) struct SplicedTokens {
    pub(crate) tokens: Vec<u32>,
    pub(crate) runs: Vec<EmbeddedRun>,
}

/// What a mark begins with: no character, which texts have no use for.
const MARK: char = '\u{fdd0}';

/// What it ends with.
const MARK_END: char = '\u{fdd1}';

impl Media {
    /// Looks at a conversation's images and listens to its audio; gives its messages with marks in their place. Nothing
    /// where there are none.
    pub(crate) fn of(
        messages: &[Message],
        senses: Senses<'_>,
    ) -> Result<Option<(Self, Vec<Message>)>, MediaError> {
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let (mut images, mut audio) = (false, false);
        for part in parts() {
            match part {
                ContentPart::Text(_) => {}
                ContentPart::Image(_) | ContentPart::ImageUrl(_) => images = true,
                ContentPart::Audio(_) => audio = true,
            }
        }
        if images && senses.sight.is_none() {
            return Err(MediaError::Blind);
        }
        if audio && senses.ears.is_none() {
            return Err(MediaError::Deaf);
        }
        if !images && !audio {
            return Ok(None);
        }
        let marks = |text: &str| text.contains([MARK, MARK_END]);
        if parts().any(|part| matches!(part, ContentPart::Text(text) if marks(text))) {
            return Err(MediaError::Mark);
        }
        let (mut media, mut sounds) = (Vec::new(), 0);
        let mut marked = messages.to_vec();
        for part in marked.iter_mut().flat_map(|message| &mut message.parts) {
            let perceived = match (&*part, senses) {
                (ContentPart::Text(_), _) => continue,
                (
                    ContentPart::Image(image),
                    Senses {
                        sight: Some(sight), ..
                    },
                ) => {
                    let placeholder = sight.placeholder().into();
                    sight.see(image).map(|parts| Medium { parts, placeholder })
                }
                (
                    ContentPart::Audio(audio),
                    Senses {
                        ears: Some(ears), ..
                    },
                ) => {
                    sounds += 1;
                    let placeholder = ears.placeholder().into();
                    let heard = ears.hear(audio, sounds);
                    heard.map(|parts| Medium { parts, placeholder })
                }
                (ContentPart::ImageUrl(url), _) => Err(url.not_fetched()),
                (ContentPart::Image(_), _) => return Err(MediaError::Blind),
                (ContentPart::Audio(_), _) => return Err(MediaError::Deaf),
            };
            let perceived = perceived.map_err(MediaError::Unreadable)?;
            *part = ContentPart::Text(mark(media.len()));
            media.push(perceived);
        }
        Ok(Some((Self(media), marked)))
    }

    /// Tokenizes a text, with what stands for an image or for audio at each mark.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        options: EncodeOptions,
        out: &mut SplicedTokens,
    ) {
        let mut rest = text;
        if self.0.is_empty() {
            return out.tokens.extend(tokenizer.encode(text, options));
        }
        while let Some((before, after)) = rest.split_once(MARK) {
            out.tokens.extend(tokenizer.encode(before, options));
            let (number, after) = after.split_once(MARK_END).unwrap_or((after, ""));
            let medium = number.parse().ok().and_then(|i: usize| self.0.get(i));
            if let Some(medium) = medium {
                medium.splice(tokenizer, out);
            }
            rest = after;
        }
        out.tokens.extend(tokenizer.encode(rest, options));
    }

    /// Whether a text has each image and audio once, in order.
    pub(crate) fn are_all_in(&self, text: &str) -> bool {
        let places = text.match_indices(MARK).map(|(at, _)| &text[at..]);
        let expected = (0..self.0.len()).map(mark);
        self.0.is_empty()
            || (places.clone().count() == self.0.len()
                && places
                    .zip(expected)
                    .all(|(place, mark)| place.starts_with(&mark)))
    }

    /// A text with the placeholder at each mark.
    pub(crate) fn shown(&self, text: &str) -> String {
        let media = self.0.iter().enumerate();
        media.fold(text.into(), |text: String, (index, medium)| {
            text.replace(&mark(index), &medium.placeholder)
        })
    }
}

impl Medium {
    fn splice(&self, tokenizer: &Tokenizer, out: &mut SplicedTokens) {
        let trusted = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let token = match tokenizer.encode(&self.placeholder, trusted)[..] {
            [token] => token,
            _ => 0,
        };
        for part in &self.parts {
            match part {
                MediaPart::Text(text) => out.tokens.extend(tokenizer.encode(text, trusted)),
                MediaPart::Run(run) => {
                    let start = out.tokens.len();
                    out.runs.push(EmbeddedRun {
                        start,
                        ..run.clone()
                    });
                    out.tokens.extend(core::iter::repeat_n(token, run.len));
                }
            }
        }
    }
}

fn mark(index: usize) -> String {
    format!("{MARK}{index}{MARK_END}")
}

/// Why a conversation's images cannot be seen, or its audio cannot be heard.
#[derive(Debug)]
pub(crate) enum MediaError {
    /// The model does not see.
    Blind,
    /// The model does not hear.
    Deaf,
    /// A text has a mark of its own.
    Mark,
    /// A file cannot be read.
    Unreadable(Fault),
}
