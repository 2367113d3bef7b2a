//! The lessons of the page: what happens inside the model, asked for as JSON.
//!
//! `POST /lessons/prompt` computes one prompt by itself: its tokens, what a head attends to, the logits through each
//! sampler, and what formats make of a row of weights. `POST /lessons/pages` runs texts side by side and tells the batch of
//! each step and the pages that they share.

use crate::answer::Reply;
use crate::call::Call;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Fields;
use strata_chat::parameters::{Ranges, sampling};
use strata_chat::{Fault, Sampling};

/// Texts that are run side by side at most.
pub const MOST_TEXTS: usize = 4;

/// Tokens that each of them is continued by at most.
pub const MOST_TOKENS: usize = 64;

/// A lesson.
#[derive(Clone, Debug, PartialEq)]
pub enum Lesson {
    /// What the model makes of a prompt.
    Prompt(Box<PromptLesson>),
    /// How texts share steps and pages.
    Pages(PagesLesson),
}

impl Lesson {
    /// The model that it asks for.
    pub fn model(&self) -> Option<&str> {
        let model = match self {
            Self::Prompt(lesson) => &lesson.model,
            Self::Pages(lesson) => &lesson.model,
        };
        model.as_deref()
    }
}

/// What is wanted of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptLesson {
    /// The model; the default one if not given.
    pub model: Option<String>,
    /// The text.
    pub prompt: String,
    /// Add the tokens that the model wants around a text.
    pub add_special: bool,
    /// The layer and the query head to look at.
    pub head: (usize, usize),
    /// The tensor and the row to look at.
    pub row: Option<(String, usize)>,
    /// How the next token is chosen.
    pub sampling: Sampling,
}

/// Texts that begin one after the other: each when the one before it has its first token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesLesson {
    /// The model; the default one if not given.
    pub model: Option<String>,
    /// The texts.
    pub texts: Vec<String>,
    /// Tokens that each of them is continued by.
    pub max_tokens: usize,
}

/// Reads `/lessons/prompt`.
pub(crate) fn prompt(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let index = |fields: &mut Fields, name: &str| {
        let found = fields.maybe_integer(name, 0..=i64::from(u32::MAX))?;
        Ok::<_, Fault>(found.unwrap_or(0) as usize)
    };
    let (layer, head) = (index(&mut fields, "layer")?, index(&mut fields, "head")?);
    let row = index(&mut fields, "row")?;
    let lesson = PromptLesson {
        model: fields.maybe_string("model")?,
        prompt: fields.string("prompt")?,
        add_special: fields.maybe_boolean("add_special")?.unwrap_or(true),
        head: (layer, head),
        row: fields.maybe_string("tensor")?.map(|tensor| (tensor, row)),
        sampling: sampling(&mut fields, Ranges::Wide)?,
    };
    fields.finish()?;
    Ok(call(Lesson::Prompt(Box::new(lesson))))
}

/// Reads `/lessons/pages`.
pub(crate) fn pages(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let path = fields.at("texts");
    let texts = fields.take("texts");
    let texts = path.strings(texts.ok_or_else(|| fields.missing("texts"))?)?;
    if texts.is_empty() || texts.len() > MOST_TEXTS {
        let problem = format_args!("must be from 1 to {MOST_TEXTS} texts");
        return Err(Fault::field(&path, problem));
    }
    let most = fields.maybe_integer("max_tokens", 1..=MOST_TOKENS as i64)?;
    let lesson = PagesLesson {
        model: fields.maybe_string("model")?,
        texts,
        max_tokens: most.unwrap_or(16) as usize,
    };
    fields.finish()?;
    Ok(call(Lesson::Pages(lesson)))
}

fn call(lesson: Lesson) -> Call {
    Call::Lesson(lesson, Box::new(Reply::json))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lesson(read: Result<Call, Fault>) -> Result<Lesson, String> {
        match read {
            Ok(Call::Lesson(lesson, _)) => Ok(lesson),
            Ok(_) => panic!("another call"),
            Err(fault) => Err(fault.message),
        }
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let Ok(Lesson::Prompt(read)) = lesson(prompt(br#"{"prompt":"a"}"#)) else {
            panic!("a prompt")
        };
        assert_eq!((read.head, read.row), ((0, 0), None));
        assert!(read.add_special);
        let body = br#"{"prompt":"a","layer":2,"head":3,"tensor":"t","row":5,"top_k":7}"#;
        let Ok(Lesson::Prompt(read)) = lesson(prompt(body)) else {
            panic!("a prompt")
        };
        assert_eq!(read.head, (2, 3));
        assert_eq!(read.row, Some(("t".into(), 5)));
        assert_eq!(read.sampling.top_k, Some(7));
    }

    #[test]
    fn what_is_too_much_or_unknown_is_refused_by_name() {
        let refused = |read| lesson(read).unwrap_err();
        assert!(refused(prompt(b"{}")).contains("prompt"));
        assert!(refused(prompt(br#"{"prompt":"a","layer":-1}"#)).contains("layer"));
        assert!(refused(prompt(br#"{"prompt":"a","chapter":1}"#)).contains("chapter"));
        assert!(refused(pages(br#"{"texts":[]}"#)).contains("texts"));
        assert!(refused(pages(br#"{"texts":["a","b","c","d","e"]}"#)).contains("texts"));
        assert!(refused(pages(br#"{"texts":["a"],"max_tokens":65}"#)).contains("max_tokens"));
    }
}
