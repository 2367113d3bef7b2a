//! A request before any door gives it its shape, and its answer after.

use serde_json::{Value, json};
use strata::{
    Completion, Format, Generate, Json, Message, Prompt, Role, Thinking, Tool, ToolChoice,
};

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) model: &'static str,
    pub(crate) input: Input,
    pub(crate) max_tokens: usize,
    /// Sampled with this seed; greedy without one.
    pub(crate) seed: Option<u64>,
    pub(crate) schema: Option<Value>,
    pub(crate) thinks: Option<bool>,
    /// Its name, description and parameters.
    pub(crate) tool: Option<Value>,
    pub(crate) must_call: bool,
    pub(crate) truncates: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Input {
    Raw(&'static str),
    /// Roles and texts.
    Chat(Vec<(&'static str, String)>),
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<(String, Value)>,
}

impl Input {
    pub(crate) fn raw(text: &'static str) -> Self {
        Self::Raw(text)
    }

    pub(crate) fn chat(system: Option<&str>, user: &str) -> Self {
        let system = system.map(|text| ("system", text.to_owned()));
        let user = ("user", user.to_owned());
        Self::Chat(system.into_iter().chain([user]).collect())
    }
}

impl Asked {
    /// A greedy request.
    pub(crate) fn new(model: &'static str, input: Input) -> Self {
        Self {
            model,
            input,
            max_tokens: 24,
            seed: None,
            schema: None,
            thinks: None,
            tool: None,
            must_call: false,
            truncates: false,
        }
    }

    /// Sampling settings by the names that most dialects have for them. None is left to a door's defaults.
    pub(crate) fn sampling(&self) -> Value {
        match self.seed {
            None => json!({"temperature": 0.0}),
            Some(seed) => json!({
                "temperature": 0.8, "seed": seed, "top_k": 50, "top_p": 0.9, "min_p": 0.05,
                "typical_p": 1.0, "repeat_penalty": 1.1, "repeat_last_n": 64,
            }),
        }
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        let Input::Chat(messages) = &self.input else {
            return Vec::new();
        };
        let message = |(role, text): &(&str, String)| json!({"role": role, "content": text});
        messages.iter().map(message).collect()
    }

    /// The request for the library.
    pub(crate) fn generate(&self) -> Generate {
        let prompt = match &self.input {
            Input::Raw(text) => Prompt::text(*text),
            Input::Chat(messages) => Prompt::Chat(
                messages
                    .iter()
                    .map(|(role, text)| Message::text(role_named(role), text.as_str()))
                    .collect(),
            ),
        };
        let mut request = Generate::new("", prompt);
        request.max_tokens = Some(self.max_tokens);
        request.truncate = self.truncates;
        let sampling = &mut request.sampling;
        sampling.temperature = Some(0.0);
        if let Some(seed) = self.seed {
            sampling.seed = Some(seed);
            sampling.temperature = Some(0.8);
            sampling.top_k = Some(50);
            sampling.top_p = Some(0.9);
            sampling.min_p = Some(0.05);
            sampling.repeat_penalty = Some(1.1);
            sampling.repeat_last_n = Some(64);
        }
        request.thinking = match self.thinks {
            None => Thinking::Default,
            Some(true) => Thinking::On { budget: None },
            Some(false) => Thinking::Off,
        };
        if let Some(schema) = &self.schema {
            request.format = Format::JsonSchema(own_json(schema));
        }
        if let Some(tool) = &self.tool {
            request.tools.list.push(Tool {
                name: tool["name"].as_str().unwrap_or_default().into(),
                description: tool["description"].as_str().map(str::to_owned),
                parameters: own_json(&tool["parameters"]),
                strict: false,
            });
        }
        if self.must_call {
            request.tools.choice = ToolChoice::Required;
        }
        request
    }
}

impl From<Completion> for Said {
    fn from(answer: Completion) -> Self {
        let calls = answer.calls.into_iter().map(|call| {
            let arguments = serde_json::from_str(&call.arguments.text());
            (call.name, arguments.expect("arguments are JSON"))
        });
        Self {
            text: answer.text,
            thinking: answer.thinking,
            calls: calls.collect(),
        }
    }
}

fn role_named(name: &str) -> Role {
    let roles = [Role::System, Role::User, Role::Assistant];
    let found = roles.into_iter().find(|role| role.name() == name);
    found.expect("a known role")
}

fn own_json(value: &Value) -> Json {
    Json::parse(value.to_string().as_bytes()).expect("JSON")
}
