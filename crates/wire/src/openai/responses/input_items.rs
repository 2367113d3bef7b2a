//! `/v1/responses/{id}/input_items`: the conversation that a stored answer was given to.

use super::items::seal;
use crate::base64::BASE64;
use crate::gather::arguments_text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use strata_chat::json::Json;
use strata_chat::{ContentPart, Fault, Message, Role};

const MOST: usize = 100;

/// Which of the items are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// So many at most.
    pub limit: usize,
    /// The newest first.
    pub newest_first: bool,
    /// Those after this one.
    pub after: Option<String>,
}

impl Page {
    pub(crate) fn of_query(query: &str) -> Result<Self, Fault> {
        let mut page = Self {
            limit: 20,
            newest_first: true,
            after: None,
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        for (key, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
            match (key, value) {
                ("limit", value) => {
                    let limit = value.parse().ok().filter(|n| (1..=MOST).contains(n));
                    let problem = || Fault::bad_request("limit: must be 1 to 100");
                    page.limit = limit.ok_or_else(problem)?;
                }
                ("order", "asc") => page.newest_first = false,
                ("order", "desc") => page.newest_first = true,
                ("order", _) => return Err(Fault::bad_request("order: must be asc or desc")),
                ("after", value) => page.after = Some(super::super::unescape(value)?),
                // Everything that there is to tell is told.
                ("include" | "include[]", _) => {}
                (key, _) => {
                    return Err(Fault::bad_request(format_args!(
                        "{key}: is not known; there are limit, order, after and include"
                    )));
                }
            }
        }
        Ok(page)
    }

    /// The page of a list whose items have an `id`, the oldest first.
    pub fn of(&self, mut all: Vec<Json>) -> Result<Json, Fault> {
        fn id(item: &Json) -> Option<&str> {
            item.get("id").and_then(Json::as_str)
        }
        if self.newest_first {
            all.reverse();
        }
        let from = match &self.after {
            None => 0,
            Some(after) => {
                let found = all.iter().position(|item| id(item) == Some(after));
                let unknown =
                    || Fault::bad_request(format_args!("after: there is no item {after:?}"));
                found.ok_or_else(unknown)? + 1
            }
        };
        let rest = all.len() - from;
        let shown: Vec<_> = all.into_iter().skip(from).take(self.limit).collect();
        let name = |item: Option<&Json>| Json::from(item.and_then(id));
        let (first, last) = (name(shown.first()), name(shown.last()));
        let has_more = rest > shown.len();
        Ok(Json::object([
            ("object", "list".into()),
            ("data", Json::Array(shown)),
            ("first_id", first),
            ("last_id", last),
            ("has_more", has_more.into()),
        ]))
    }
}

/// A page of the items. `messages` are the conversation up to and with the answer.
pub(super) fn list(id: &str, messages: &[Message], page: &Page) -> Result<Json, Fault> {
    let given = messages.split_last().map_or(&[][..], |(_, given)| given);
    let stamp = id.strip_prefix("resp_").unwrap_or(id);
    page.of(items(given, stamp))
}

/// The items that messages are made of.
pub(super) fn items(messages: &[Message], stamp: &str) -> Vec<Json> {
    let mut all = Vec::new();
    for message in messages {
        add(message, stamp, &mut all);
    }
    all
}

/// Adds the items that a message is made of.
fn add(message: &Message, stamp: &str, all: &mut Vec<Json>) {
    let mut push = |prefix: &str, kind: &str, fields: Vec<(&str, Json)>| {
        let name = format!("{prefix}_{stamp}_in{}", all.len());
        let mut item = Json::object([("id", name.as_str().into()), ("type", kind.into())]);
        for (key, value) in fields {
            item.push(key, value);
        }
        all.push(item.with("status", "completed"));
    };
    if let Some(thinking) = &message.thinking {
        let text = Json::object([
            ("type", "reasoning_text".into()),
            ("text", thinking.as_str().into()),
        ]);
        push(
            "rs",
            "reasoning",
            Vec::from([
                ("summary", Json::Array(Vec::new())),
                ("content", Json::array([text])),
                ("encrypted_content", seal(thinking).into()),
            ]),
        );
    }
    if message.role == Role::Tool {
        let call = message.tool_call_id.as_deref().unwrap_or("");
        let plain = |part: &ContentPart| matches!(part, ContentPart::Text(_));
        let output = if message.parts.iter().all(plain) {
            message.joined().into()
        } else {
            Json::array(message.parts.iter().map(|part| content(part, message.role)))
        };
        let fields = Vec::from([("call_id", call.into()), ("output", output)]);
        return push("fco", "function_call_output", fields);
    }
    if !message.parts.is_empty() {
        let content = message.parts.iter().map(|part| content(part, message.role));
        let content = Json::array(content);
        let fields = Vec::from([("role", message.role.name().into()), ("content", content)]);
        push("msg", "message", fields);
    }
    for call in &message.tool_calls {
        let fields = Vec::from([
            ("call_id", call.id.as_str().into()),
            ("name", call.name.as_str().into()),
            ("arguments", arguments_text(&call.arguments).into()),
        ]);
        push("fc", "function_call", fields);
    }
}

fn content(part: &ContentPart, role: Role) -> Json {
    match part {
        ContentPart::Text(text) if role == Role::Assistant => Json::object([
            ("type", "output_text".into()),
            ("text", text.as_str().into()),
            ("annotations", Json::Array(Vec::new())),
        ]),
        ContentPart::Text(text) => Json::object([
            ("type", "input_text".into()),
            ("text", text.as_str().into()),
        ]),
        ContentPart::Image(image) => {
            let kind = image.media_type.as_deref().unwrap_or("image/png");
            let data = BASE64.encode(&image.bytes);
            input_image(format!("data:{kind};base64,{data}").into())
        }
        ContentPart::ImageUrl(image) => input_image(image.url.as_str().into()),
        ContentPart::Audio(audio) => {
            let data = BASE64.encode(&audio.bytes);
            let format = audio.format.as_deref().unwrap_or("wav");
            let inner = [("data", data.into()), ("format", format.into())];
            Json::object([
                ("type", "input_audio".into()),
                ("input_audio", Json::object(inner)),
            ])
        }
    }
}

fn input_image(url: Json) -> Json {
    Json::object([
        ("type", "input_image".into()),
        ("detail", "auto".into()),
        ("image_url", url),
    ])
}
