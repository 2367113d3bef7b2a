//! A chat's state: the conversation, and what was set for it.

use super::command::Setting;
use super::{Topic, is_turn};
use crate::failure::{Failure, Kind};
use crate::run::answer::{self, Answer};
use crate::run::screen::{Look, Screen, Thoughts};
use crate::run::{Arguments, asked, is_raw, media, said};
use crate::sampling;
use crate::store_commands::{self, base, built_in};
use serde_json::{Map, Value};
use strata::load;
use strata::{Format, Generate, Message, Role};
use strata_chat::Thinking;
use strata_chat::parameters::Parameters;
use strata_store::{Modelfile, Name, NameError, Recipe, Store, StoreError, StoredMessage, quietly};

/// A conversation with a model.
pub(super) struct Session<'s> {
    pub(super) topic: Topic<'s>,
    /// What is asked with every message.
    request: Generate,
    messages: Vec<Message>,
    /// What `/set parameter` said.
    pub(super) parameters: Map<String, Value>,
    verbose: bool,
    wraps: bool,
    pub(super) keeps_history: bool,
}

impl<'s> Session<'s> {
    pub(super) fn new(topic: Topic<'s>, request: Generate) -> Self {
        Self {
            messages: topic.opening.clone(),
            verbose: topic.arguments.verbose,
            wraps: !topic.arguments.nowordwrap,
            request: Generate {
                truncate: !is_raw(topic.arguments, topic.model),
                ..request
            },
            topic,
            parameters: Map::new(),
            keeps_history: true,
        }
    }

    pub(super) fn arguments(&self) -> &'s Arguments {
        self.topic.arguments
    }

    pub(super) fn context(&self) -> usize {
        self.topic.model.context()
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
    ) -> Result<Answer, Failure> {
        let (arguments, model) = (self.topic.arguments, self.topic.model);
        for (path, medium) in media::files(text) {
            if medium.reaches(model) {
                eprintln!("Added {} {}", medium.name(), path.display());
            } else {
                eprintln!("note: {}", medium.out_of_reach(&path));
            }
        }
        let prompt = asked(arguments, model, self.messages.clone(), text.to_owned())?;
        let request = Generate {
            prompts: vec![prompt],
            ..self.request.clone()
        };
        let screen = Screen::new(self.look(), arguments.thoughts());
        let read = answer::read_bytes();
        let answer = answer::answer(model, &request, interrupted, screen)?;
        if self.verbose {
            let read = answer::read_bytes().saturating_sub(read);
            answer.report(&request, model.load_report(), read);
        }
        if !is_raw(arguments, model) {
            self.messages.push(said(model, text.to_owned())?);
            self.forget(answer.dropped);
            let said = Message::text(Role::Assistant, answer.text.clone());
            self.messages.push(said);
        }
        Ok(answer)
    }

    /// Forgets so many of the oldest messages: they no longer fit.
    fn forget(&mut self, mut messages: usize) {
        if messages == 0 {
            return;
        }
        self.messages.retain(|message| {
            let goes = messages > 0 && message.role != Role::System;
            messages -= usize::from(goes);
            !goes
        });
        eprintln!("note: the oldest messages no longer fit the context and were dropped");
    }

    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        let system = self.system();
        self.messages.clear();
        let system = system.map(|text| Message::text(Role::System, text));
        self.messages.extend(system);
        eprintln!("Cleared the conversation.");
        Ok(())
    }

    pub(super) fn set(&mut self, setting: Setting) -> Result<(), Failure> {
        let told = match setting {
            Setting::Parameter(name, value) => {
                self.set_parameter(&name, &value)?;
                format!("Set {name} to {value}.")
            }
            Setting::System(text) => {
                self.messages.retain(|message| message.role != Role::System);
                if !text.is_empty() {
                    self.messages.insert(0, Message::text(Role::System, text));
                }
                "Set the system prompt.".into()
            }
            Setting::Verbose(tells) => {
                self.verbose = tells;
                if tells {
                    "Timings are shown.".into()
                } else {
                    "Timings are hidden.".into()
                }
            }
            Setting::History(keeps) => {
                self.keeps_history = keeps;
                if keeps {
                    "Input history is on.".into()
                } else {
                    "Input history is off.".into()
                }
            }
            Setting::WordWrap(wraps) => {
                self.wraps = wraps;
                if wraps {
                    "Word wrap is on.".into()
                } else {
                    "Word wrap is off.".into()
                }
            }
            Setting::Json(json) => {
                if json {
                    self.request.format = Format::JsonObject;
                    "Answers must be JSON.".into()
                } else {
                    self.request.format = Format::Text;
                    "Answers can be any text.".into()
                }
            }
            Setting::Think(thinks) => {
                if thinks {
                    self.request.thinking = Thinking::On { budget: None };
                    "Thinking is on.".into()
                } else {
                    self.request.thinking = Thinking::Off;
                    "Thinking is off.".into()
                }
            }
        };
        eprintln!("{told}");
        Ok(())
    }

    fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let wrong = |error: String| Failure::new(Kind::Usage, error);
        // A Modelfile knows the names and types.
        let lines = if name.eq_ignore_ascii_case("stop") {
            value
                .split_whitespace()
                .map(|text| format!("PARAMETER stop {text}\n"))
                .collect()
        } else {
            format!("PARAMETER {name} {value}\n")
        };
        let file: Modelfile = format!("FROM x\n{lines}")
            .parse()
            .map_err(|error: strata_store::ModelfileError| wrong(error.fault.to_string()))?;
        if file.parameters.contains_key("num_ctx") {
            let sentence = "num_ctx cannot be changed while the model is loaded";
            return Err(wrong(sentence.into()).hint("start the chat with --ctx N"));
        }
        let mut parameters = self.parameters.clone();
        parameters.extend(file.parameters);
        let pairs = parameters.iter().map(|(k, v)| (k.clone(), load::json(v)));
        let over = Parameters::of_model(pairs.collect());
        let over = over.map_err(|fault| wrong(fault.message))?;
        let mut sampling = over.sampling.or(self.topic.flags);
        sampling::check(&sampling)?;
        // A seed that nobody sets stays the one of the session.
        sampling.seed = sampling.seed.or(self.request.sampling.seed);
        self.request.sampling = sampling;
        if !over.stop.is_empty() {
            self.request.stop = over.stop;
        }
        if parameters.contains_key("num_predict") {
            // Without a limit there is still the context.
            self.request.max_tokens = over.max_tokens.or(Some(self.context()));
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
        built_in::refuse_name(&name)?;
        let turns = self.messages.iter().filter(is_turn);
        let recipe = Recipe {
            bases: vec![base::of_path(&store, self.topic.path)?],
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
        eprintln!("Saved this session as {name}.");
        Ok(())
    }
}
