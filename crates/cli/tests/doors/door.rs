//! The doors: the library in this process, the program, and a server's dialects.

use crate::asked::{Asked, Input, Said};
use crate::program::server::{Server, TestFolder};
use crate::program::strata;
use crate::{CONTEXT, schema_file};
use serde_json::{Map, Value, json};
use strata::{Model, Options};

/// All doors to the same models.
pub(crate) struct Doors {
    /// Names, files, and the models themselves.
    models: Vec<(String, String, Model)>,
    server: Server,
}

/// The fields of objects together.
fn joined(objects: impl IntoIterator<Item = Value>) -> Value {
    let mut all = Map::new();
    for object in objects {
        match object {
            Value::Object(fields) => all.extend(fields),
            other => panic!("{other} is no object"),
        }
    }
    Value::Object(all)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Doors {
    /// Opens models by name and path.
    pub(crate) fn new(folder: &TestFolder, models: &[(&str, &str)]) -> Self {
        let paths: Vec<&str> = models.iter().map(|(_, path)| *path).collect();
        let open = |&(name, path): &(&str, &str)| {
            let options = Options::default().context(CONTEXT).threads(2);
            let model = Model::open(path, options).expect("the model opens");
            (name.to_owned(), path.to_owned(), model)
        };
        Self {
            models: models.iter().map(open).collect(),
            server: Server::start(&folder.store(), &paths),
        }
    }

    fn model(&self, asked: &Asked) -> &(String, String, Model) {
        let found = self.models.iter().find(|(name, ..)| name == asked.model);
        found.expect("a known model")
    }

    /// The library's answer.
    pub(crate) fn library(&self, asked: &Asked) -> Said {
        let (_, _, model) = self.model(asked);
        let mut request = model.complete("");
        *request.generate_mut() = asked.generate();
        request.run().expect("an answer").into()
    }

    /// The answers of all other doors that can be asked this, by their names.
    pub(crate) fn others(&self, asked: &Asked) -> Vec<(&'static str, Said)> {
        let is_raw = matches!(asked.input, Input::Raw(_));
        let mut doors: Vec<(&'static str, Said)> = Vec::new();
        if asked.tool.is_none() && !asked.truncates {
            doors.push(("run", self.run(asked)));
        }
        if is_raw {
            doors.push(("openai completions", self.openai_raw(asked)));
            doors.push(("llama-server", self.llama_server(asked)));
            doors.push(("ollama generate", self.ollama_raw(asked)));
            return doors;
        }
        if asked.truncates {
            doors.push(("openai responses", self.responses(asked)));
        } else {
            doors.push(("openai", self.openai(asked)));
        }
        if !asked.must_call {
            doors.push(("ollama", self.ollama(asked)));
        }
        if asked.seed.is_none()
            && asked.schema.is_none()
            && asked.thinks.is_none()
            && !asked.truncates
        {
            doors.push(("anthropic", self.anthropic(asked)));
        }
        doors
    }

    fn run(&self, asked: &Asked) -> Said {
        let (_, path, _) = self.model(asked);
        let mut words: Vec<String> = ["run", path, "--hidethinking", "--threads", "2"]
            .map(str::to_owned)
            .into();
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("--ctx", CONTEXT.to_string());
        flag("-n", asked.max_tokens.to_string());
        let sampling = asked.sampling();
        for (field, name) in [
            ("temperature", "--temp"),
            ("seed", "--seed"),
            ("top_k", "--top-k"),
            ("top_p", "--top-p"),
            ("min_p", "--min-p"),
            ("repeat_penalty", "--repeat-penalty"),
            ("repeat_last_n", "--repeat-last-n"),
        ] {
            if let Some(value) = sampling.get(field) {
                flag(name, value.to_string());
            }
        }
        let schema = asked.schema.as_ref().map(schema_file);
        if let Some(file) = &schema {
            flag("--format", file.path().to_owned());
        }
        match &asked.input {
            Input::Raw(text) => words.extend(["--raw".to_owned(), (*text).to_owned()]),
            Input::Chat(messages) => {
                for (role, text) in messages {
                    match *role {
                        "system" => words.extend(["--system".to_owned(), text.clone()]),
                        _ => words.push(text.clone()),
                    }
                }
            }
        }
        words.extend(asked.thinks.map(|thinks| format!("--think={thinks}")));
        let printed = strata(&words).text();
        let text = printed.strip_suffix('\n').expect("the line ends");
        Said {
            text: text.to_owned(),
            ..Said::default()
        }
    }

    fn openai_raw(&self, asked: &Asked) -> Said {
        let Input::Raw(prompt) = asked.input else {
            panic!("a conversation");
        };
        let own = json!({"model": asked.model, "prompt": prompt, "max_tokens": asked.max_tokens});
        let answer = self
            .server
            .post("/v1/completions", &joined([own, asked.sampling()]));
        Said {
            text: text(&answer["choices"][0]["text"]),
            ..Said::default()
        }
    }

    fn llama_server(&self, asked: &Asked) -> Said {
        let Input::Raw(prompt) = asked.input else {
            panic!("a conversation");
        };
        let own = json!({"model": asked.model, "prompt": prompt, "n_predict": asked.max_tokens});
        let answer = self
            .server
            .post("/completion", &joined([own, asked.sampling()]));
        Said {
            text: text(&answer["content"]),
            ..Said::default()
        }
    }

    fn ollama_raw(&self, asked: &Asked) -> Said {
        let Input::Raw(prompt) = asked.input else {
            panic!("a conversation");
        };
        let most = json!({"num_predict": asked.max_tokens});
        let body = json!({
            "model": asked.model, "prompt": prompt, "raw": true, "stream": false,
            "options": joined([asked.sampling(), most]),
        });
        Said {
            text: text(&self.server.post("/api/generate", &body)["response"]),
            ..Said::default()
        }
    }

    fn openai(&self, asked: &Asked) -> Said {
        let mut body = joined([
            json!({
                "model": asked.model,
                "messages": asked.messages(),
                "max_tokens": asked.max_tokens,
            }),
            asked.sampling(),
        ]);
        if let Some(schema) = &asked.schema {
            let schema = json!({"name": "answer", "schema": schema, "strict": true});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        if let Some(tool) = &asked.tool {
            body["tools"] = json!([{"type": "function", "function": tool}]);
        }
        if asked.must_call {
            body["tool_choice"] = "required".into();
        }
        if let Some(thinks) = asked.thinks {
            body["chat_template_kwargs"] = json!({"enable_thinking": thinks});
        }
        let answer = self.server.post("/v1/chat/completions", &body);
        let message = &answer["choices"][0]["message"];
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls = calls.map(|call| {
            let call = &call["function"];
            let arguments = call["arguments"].as_str().expect("a text");
            let arguments = serde_json::from_str(arguments).expect("JSON");
            (text(&call["name"]), arguments)
        });
        Said {
            text: text(&message["content"]),
            thinking: text(&message["reasoning_content"]),
            calls: calls.collect(),
        }
    }

    fn responses(&self, asked: &Asked) -> Said {
        let body = json!({
            "model": asked.model, "input": asked.messages(), "temperature": 0.0,
            "max_output_tokens": asked.max_tokens, "truncation": "auto",
        });
        let answer = self.server.post("/v1/responses", &body);
        Said {
            text: text(&answer["output"][0]["content"][0]["text"]),
            ..Said::default()
        }
    }

    fn ollama(&self, asked: &Asked) -> Said {
        let most = json!({"num_predict": asked.max_tokens});
        let mut body = json!({
            "model": asked.model, "messages": asked.messages(), "stream": false,
            "truncate": asked.truncates, "options": joined([asked.sampling(), most]),
        });
        if let Some(schema) = &asked.schema {
            body["format"] = schema.clone();
        }
        if let Some(tool) = &asked.tool {
            body["tools"] = json!([{"type": "function", "function": tool}]);
        }
        if let Some(thinks) = asked.thinks {
            body["think"] = thinks.into();
        }
        let message = self.server.post("/api/chat", &body)["message"].take();
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls = calls.map(|call| {
            let call = &call["function"];
            (text(&call["name"]), call["arguments"].clone())
        });
        Said {
            text: text(&message["content"]),
            thinking: text(&message["thinking"]),
            calls: calls.collect(),
        }
    }

    fn anthropic(&self, asked: &Asked) -> Said {
        let is_system = |message: &Value| message["role"] == "system";
        let (system, turns): (Vec<Value>, Vec<Value>) =
            asked.messages().into_iter().partition(is_system);
        let mut body = json!({
            "model": asked.model, "messages": turns, "max_tokens": asked.max_tokens,
            "temperature": 0.0,
        });
        if let Some(message) = system.first() {
            body["system"] = message["content"].clone();
        }
        if let Some(tool) = &asked.tool {
            body["tools"] = json!([{
                "name": tool["name"],
                "description": tool["description"],
                "input_schema": tool["parameters"],
            }]);
        }
        if asked.must_call {
            body["tool_choice"] = json!({"type": "any"});
        }
        let answer = self.server.post("/v1/messages", &body);
        let mut said = Said::default();
        for block in answer["content"].as_array().expect("a list") {
            match block["type"].as_str() {
                Some("text") => said.text += &text(&block["text"]),
                Some("tool_use") => said
                    .calls
                    .push((text(&block["name"]), block["input"].clone())),
                _ => panic!("{block}"),
            }
        }
        said
    }
}
