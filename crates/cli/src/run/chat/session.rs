//! A chat's state: the conversation, and what was set for it.

use super::command::Setting;
use super::{Topic, is_turn};
use crate::chat_template::{Asked, ChatTemplate};
use crate::failure::{Failure, Kind};
use crate::run::answer::Speaker;
use crate::run::screen::{Look, Screen, Thoughts};
use crate::run::{Arguments, Style, constraint, raw};
use crate::store_commands::{self, checkpoint};
use serde_json::{Map, Value};
use strata::load;
use strata_chat::parameters::Parameters;
use strata_chat::{Message, Role, Thinking};
use strata_constrain::Grammar;
use strata_convert::Folder;
use strata_engine::FinishReason;
use strata_store::{
    Base, Modelfile, Name, NameError, Recipe, Store, StoreError, StoredMessage, quietly,
};

/// A conversation with a model.
pub(super) struct Session<'s, 'a> {
    speaker: &'s mut Speaker<'a>,
    style: &'s Style<'s>,
    pub(super) topic: Topic<'s>,
    messages: Vec<Message>,
    /// What `/set parameter` said.
    pub(super) parameters: Map<String, Value>,
    thinking: Thinking,
    wraps: bool,
    pub(super) keeps_history: bool,
}

impl<'s, 'a> Session<'s, 'a> {
    pub(super) fn new(
        speaker: &'s mut Speaker<'a>,
        style: &'s Style<'s>,
        topic: Topic<'s>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            messages: topic.opening.clone(),
            wraps: !topic.arguments.nowordwrap,
            thinking: topic.arguments.thinking(),
            speaker,
            style,
            topic,
            parameters: Map::new(),
            keeps_history: true,
        })
    }

    pub(super) fn arguments(&self) -> &'s Arguments {
        self.topic.arguments
    }

    pub(super) fn context(&self) -> usize {
        self.speaker.context
    }

    /// The system prompt.
    pub(super) fn system(&self) -> Option<String> {
        let system = self.messages.iter().find(|m| m.role == Role::System);
        system.map(Message::joined)
    }

    /// Shows what was said before: a saved conversation goes on.
    pub(super) fn retell(&self) {
        for message in self.messages.iter().filter(is_turn) {
            let text = message.joined();
            let lead = if message.role == Role::User {
                ">>> "
            } else {
                ""
            };
            let mut screen = Screen::new(self.look(), Thoughts::Hidden);
            // Nothing is lost with it.
            let _ = screen
                .write(&format!("{lead}{text}"))
                .and_then(|()| screen.end());
        }
    }

    fn look(&self) -> Look {
        Look::of_output(self.arguments().plain, self.wraps)
    }

    /// One message and its answer. A message that cannot be answered is not kept.
    pub(super) fn say(
        &mut self,
        text: &str,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<FinishReason>, Failure> {
        let screen = Screen::new(self.look(), self.arguments().thoughts());
        let style: &'s Style<'s> = self.style;
        let template = match style {
            Style::Chat(template) => template,
            Style::Raw => {
                let asked = raw(self.speaker.tokenizer, text);
                let answer = self.speaker.answer(asked, "", interrupted, screen)?;
                return Ok(answer.reason);
            }
        };
        self.messages.push(Message::text(Role::User, text));
        let beginning = self.speaker.beginning(text).to_owned();
        let answer = self
            .fit(template)
            .and_then(|asked| self.speaker.answer(asked, &beginning, interrupted, screen));
        match answer {
            Ok(answer) => {
                let said = Message::text(Role::Assistant, answer.text);
                self.messages.push(said);
                Ok(answer.reason)
            }
            Err(failure) => {
                self.messages.pop();
                Err(failure)
            }
        }
    }

    /// The prompt of the conversation. Where it leaves less than a quarter of the context to the answer, the oldest
    /// messages are forgotten.
    fn fit(&mut self, template: &ChatTemplate<'_>) -> Result<Asked, Failure> {
        let quarter = self.speaker.context / 4;
        let answer = self.speaker.max_tokens.map_or(quarter, |n| n.min(quarter));
        let mut forgot = false;
        loop {
            let asked = template.encode(&self.messages, self.thinking)?;
            let first = self.messages.iter().position(|m| m.role == Role::User);
            match first {
                // A message and its answer go together; the last message stays.
                Some(first)
                    if asked.tokens.len() + answer > self.speaker.context
                        && self.messages.len() > first + 2 =>
                {
                    self.messages.drain(first..first + 2);
                    forgot = true;
                }
                _ => {
                    if forgot {
                        eprintln!(
                            "note: the conversation's beginning no longer fits the context and was forgotten"
                        );
                    }
                    return Ok(asked);
                }
            }
        }
    }

    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        let system = self.system();
        self.messages.clear();
        let system = system.map(|text| Message::text(Role::System, text));
        self.messages.extend(system);
        eprintln!("The conversation is forgotten.");
        Ok(())
    }

    pub(super) fn set(&mut self, setting: Setting) -> Result<(), Failure> {
        let told = match setting {
            Setting::Parameter(name, value) => {
                self.set_parameter(&name, &value)?;
                format!("{name} is {value}.")
            }
            Setting::System(text) => {
                self.messages.retain(|message| message.role != Role::System);
                if !text.is_empty() {
                    self.messages.insert(0, Message::text(Role::System, text));
                }
                "The system prompt is set.".into()
            }
            Setting::Verbose(tells) => {
                self.speaker.verbose = tells;
                match tells {
                    true => "Each answer is followed by how fast it was.".into(),
                    false => "Answers come alone.".into(),
                }
            }
            Setting::History(keeps) => {
                self.keeps_history = keeps;
                match keeps {
                    true => "What is typed is kept.".into(),
                    false => "What is typed is not kept.".into(),
                }
            }
            Setting::WordWrap(wraps) => {
                self.wraps = wraps;
                match wraps {
                    true => "Lines are broken between words.".into(),
                    false => "Lines are as long as they are.".into(),
                }
            }
            Setting::Json(json) => {
                self.speaker.constraint = match json {
                    true => Some(constraint::compile(
                        &Grammar::JsonObject,
                        self.speaker.tokenizer,
                    )?),
                    false => None,
                };
                match json {
                    true => "Answers are JSON.".into(),
                    false => "Answers are of any form.".into(),
                }
            }
            Setting::Think(thinks) => {
                self.thinking = match thinks {
                    true => Thinking::On { budget: None },
                    false => Thinking::Off,
                };
                match thinks {
                    true => "The model is asked to think.".into(),
                    false => "The model is asked not to think.".into(),
                }
            }
        };
        eprintln!("{told}");
        Ok(())
    }

    fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let wrong = |error: String| Failure::new(Kind::Usage, error);
        // A Modelfile knows the names and types.
        let lines = match name.eq_ignore_ascii_case("stop") {
            true => value
                .split_whitespace()
                .map(|text| format!("PARAMETER stop {text}\n"))
                .collect(),
            false => format!("PARAMETER {name} {value}\n"),
        };
        let file: Modelfile = format!("FROM x\n{lines}")
            .parse()
            .map_err(|error: strata_store::ModelfileError| wrong(error.fault.to_string()))?;
        if file.parameters.contains_key("num_ctx") {
            let sentence = "the context's size is set when the model is loaded";
            return Err(wrong(sentence.into()).hint("start with --ctx"));
        }
        let mut parameters = self.parameters.clone();
        parameters.extend(file.parameters);
        let pairs = parameters.iter().map(|(k, v)| (k.clone(), load::json(v)));
        let over = Parameters::of_model(pairs.collect());
        let over = over.map_err(|fault| wrong(fault.message))?;
        let arguments = self.arguments();
        let under = self.topic.file.preset().map(|preset| &preset.parameters);
        let under = under.cloned().unwrap_or_default();
        let mut sampling = arguments
            .sampling
            .settings(&over.sampling, &under.sampling)?;
        arguments
            .sampling
            .add_breakers(&mut sampling, self.speaker.tokenizer);
        // A seed that nobody sets stays the one of the session.
        if over.sampling.seed.is_none() {
            sampling.seed = self.speaker.sampling.seed;
        }
        self.speaker.sampling = sampling;
        if !over.stop.is_empty() {
            self.speaker.stop = over.stop;
        }
        if parameters.contains_key("num_predict") {
            self.speaker.max_tokens = over.max_tokens;
        }
        self.parameters = parameters;
        Ok(())
    }

    /// Makes a model of the session: the same weights, with what was set and said.
    pub(super) fn save(&mut self, name: &str) -> Result<(), Failure> {
        let fail = |error: StoreError| store_commands::failure(&error);
        let store = Store::open_default().map_err(fail)?;
        let unusable = |error: NameError| Failure::new(Kind::Usage, error);
        let name: Name = name.parse().map_err(unusable)?;
        let turns = self.messages.iter().filter(is_turn);
        let recipe = Recipe {
            bases: vec![self.base(&store)?],
            system: Some(self.system().unwrap_or_default()),
            parameters: self.parameters.clone(),
            messages: turns
                .map(|message| StoredMessage {
                    role: message.role.name().into(),
                    content: message.joined(),
                })
                .collect(),
            ..Recipe::default()
        };
        store.create(&name, &recipe, &mut quietly).map_err(fail)?;
        eprintln!("The session is saved as {name}.");
        Ok(())
    }

    fn base(&self, store: &Store) -> Result<Base, Failure> {
        let fail = |error: StoreError| store_commands::failure(&error);
        let (file, model) = (self.topic.file, self.topic.model);
        if let Some(preset) = file.preset() {
            let unusable = |error: NameError| Failure::new(Kind::Failed, error);
            let name: Name = preset.name.parse().map_err(unusable)?;
            return Ok(Base::Model(name));
        }
        if let Some(bytes) = file.built_in_bytes() {
            let mut blob = store.blob_writer().map_err(fail)?;
            blob.write(bytes).map_err(fail)?;
            let (digest, _) = blob.finish(None).map_err(fail)?;
            return Ok(Base::Blob(digest));
        }
        if Folder::is_checkpoint(model) {
            let digest = checkpoint::convert(store, model, None, &mut quietly)?;
            return Ok(Base::Blob(digest));
        }
        Ok(Base::File(file.path().to_owned()))
    }
}
