//! `/api/generate`: an answer to one prompt.

use super::write::{LineAnswer, Words};
use super::{load, model, options};
use crate::call::Call;
use crate::request_fields::inputs::tokens;
use crate::stamp::Stamp;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{ContentPart, Fault, Generate, Message, Prompt, Role};

pub(super) fn open(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let mut request = Generate::new(model, Prompt::text(""));
    let asked = Asked::read(&mut fields)?;
    request.before = before(&mut fields)?;
    let template = fields.maybe_string("template")?;
    // A text as it is has none.
    request.template = template.filter(|text| !text.is_empty() && !asked.raw);
    options::read(&mut fields, &mut request)?;
    fields.finish()?;
    let raw = asked.raw;
    match asked.prompt() {
        None if request.before.is_empty() => {
            let done = Words::Generate.line(&request.model, stamp);
            let done = done.with("response", "");
            return Ok(load(request, done));
        }
        None => {}
        Some(prompt) => request.prompts = [prompt].into(),
    }
    // They come back as `context`, which says nothing about a prompt that no template made.
    request.tokens = !raw;
    let answer = LineAnswer::new(Words::Generate, &request, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// What is to be answered or continued.
struct Asked {
    prompt: String,
    suffix: String,
    system: Option<String>,
    images: Vec<ContentPart>,
    raw: bool,
}

impl Asked {
    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let asked = Self {
            prompt: fields.maybe_string("prompt")?.unwrap_or_default(),
            suffix: fields.maybe_string("suffix")?.unwrap_or_default(),
            system: fields
                .maybe_string("system")?
                .filter(|text| !text.is_empty()),
            images: options::images(fields)?,
            raw: fields.maybe_boolean("raw")?.unwrap_or(false),
        };
        let plain = if asked.raw { "raw" } else { "suffix" };
        if asked.raw || !asked.suffix.is_empty() {
            let refused = [
                ("images", !asked.images.is_empty()),
                ("system", asked.system.is_some()),
                ("suffix", asked.raw && !asked.suffix.is_empty()),
            ];
            if let Some((name, _)) = refused.iter().find(|(_, given)| *given) {
                let problem = format_args!("cannot be combined with {plain}");
                return Err(Fault::field(&fields.at(name), problem));
            }
        }
        Ok(asked)
    }

    /// Nothing to answer is `None`.
    fn prompt(self) -> Option<Prompt> {
        if self.prompt.is_empty() && self.suffix.is_empty() && self.images.is_empty() {
            return None;
        }
        if self.raw {
            return Some(Prompt::text(self.prompt));
        }
        if !self.suffix.is_empty() {
            return Some(Prompt::Infill {
                prefix: self.prompt,
                suffix: self.suffix,
                files: Vec::new(),
            });
        }
        let system = self.system.map(|text| Message::text(Role::System, text));
        let mut user = Message::text(Role::User, self.prompt);
        user.parts.extend(self.images);
        Some(Prompt::Chat(system.into_iter().chain([user]).collect()))
    }
}

/// `context`: the tokens of the conversation so far, as an earlier answer told them.
fn before(fields: &mut Fields) -> Result<Vec<u32>, Fault> {
    let path = fields.at("context");
    match fields.take("context") {
        None => Ok(Vec::new()),
        Some(Json::Array(items)) if items.is_empty() => Ok(Vec::new()),
        Some(list) => tokens(list, &path),
    }
}
