//! Images in prompts: what a model that sees makes of one, and how that is spliced into a prompt's tokens.

use crate::fault::Fault;
use crate::message::{ContentPart, Image, Message};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;
use strata_engine::EmbeddedRun;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// What turns images into parts of a prompt.
pub trait Sight: Send + Sync + Debug {
    /// What stands in a prompt for an image. May take a while.
    fn see(&self, image: &Image) -> Result<Vec<SightPart>, Fault>;

    /// The text of the token that stands for a position of an image.
    fn placeholder(&self) -> &str;
}

/// A part of what stands for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SightPart {
    /// Text around positions. Control tokens in it are read as such.
    Text(String),
    /// Positions with their embeddings; where they begin is not known yet.
    Run(EmbeddedRun),
}

/// The images of a conversation, with a mark in its text for each.
#[derive(Debug, Default)]
pub(crate) struct Sights {
    images: Vec<Vec<SightPart>>,
    placeholder: String,
}

/// Tokens, and the positions among them that are images'.
#[derive(Debug, Default)]
pub(crate) struct SplicedTokens {
    pub(crate) tokens: Vec<u32>,
    pub(crate) runs: Vec<EmbeddedRun>,
}

/// What a mark begins with: no character, which texts have no use for.
const MARK: char = '\u{fdd0}';

/// What it ends with.
const MARK_END: char = '\u{fdd1}';

impl Sights {
    /// Looks at a conversation's images; gives its messages with marks in their place. Nothing where there are none.
    pub(crate) fn of(
        messages: &[Message],
        sight: Option<&dyn Sight>,
    ) -> Result<Option<(Self, Vec<Message>)>, SightError> {
        let image = |part: &ContentPart| !matches!(part, ContentPart::Text(_));
        let parts = || messages.iter().flat_map(|message| &message.parts);
        if !parts().any(image) {
            return Ok(None);
        }
        let sight = sight.ok_or(SightError::Blind)?;
        let marks = |text: &str| text.contains([MARK, MARK_END]);
        if parts().any(|part| matches!(part, ContentPart::Text(text) if marks(text))) {
            return Err(SightError::Mark);
        }
        let mut sights = Self {
            placeholder: sight.placeholder().into(),
            ..Self::default()
        };
        let mut marked = messages.to_vec();
        for part in marked.iter_mut().flat_map(|message| &mut message.parts) {
            let seen = match part {
                ContentPart::Text(_) => continue,
                ContentPart::Image(image) => sight.see(image),
                ContentPart::ImageUrl(url) => Err(url.not_fetched()),
            };
            *part = ContentPart::Text(mark(sights.images.len()));
            sights.images.push(seen.map_err(SightError::Image)?);
        }
        Ok(Some((sights, marked)))
    }

    /// Tokenizes a text, with what stands for an image at each mark.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        options: EncodeOptions,
        out: &mut SplicedTokens,
    ) {
        let mut rest = text;
        if self.images.is_empty() {
            return out.tokens.extend(tokenizer.encode(text, options));
        }
        while let Some((before, after)) = rest.split_once(MARK) {
            out.tokens.extend(tokenizer.encode(before, options));
            let (number, after) = after.split_once(MARK_END).unwrap_or((after, ""));
            let image = number.parse().ok().and_then(|i: usize| self.images.get(i));
            self.splice(tokenizer, image.map_or(&[], Vec::as_slice), out);
            rest = after;
        }
        out.tokens.extend(tokenizer.encode(rest, options));
    }

    fn splice(&self, tokenizer: &Tokenizer, parts: &[SightPart], out: &mut SplicedTokens) {
        let trusted = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let token = match tokenizer.encode(&self.placeholder, trusted)[..] {
            [token] => token,
            _ => 0,
        };
        for part in parts {
            match part {
                SightPart::Text(text) => out.tokens.extend(tokenizer.encode(text, trusted)),
                SightPart::Run(run) => {
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

    /// Whether a text has each image once, in order.
    pub(crate) fn are_all_in(&self, text: &str) -> bool {
        let places = text.match_indices(MARK).map(|(at, _)| &text[at..]);
        let expected = (0..self.images.len()).map(mark);
        self.images.is_empty()
            || (places.clone().count() == self.images.len()
                && places
                    .zip(expected)
                    .all(|(place, mark)| place.starts_with(&mark)))
    }

    /// A text with the placeholder at each mark.
    pub(crate) fn shown(&self, text: &str) -> String {
        let marks = (0..self.images.len()).map(mark);
        marks.fold(text.into(), |text: String, mark| {
            text.replace(&mark, &self.placeholder)
        })
    }
}

fn mark(index: usize) -> String {
    format!("{MARK}{index}{MARK_END}")
}

/// Why a conversation's images cannot be seen.
#[derive(Debug)]
pub(crate) enum SightError {
    /// The model does not see.
    Blind,
    /// A text has a mark of its own.
    Mark,
    /// An image cannot be read.
    Image(Fault),
}
