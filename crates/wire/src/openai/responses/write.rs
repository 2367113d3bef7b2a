//! Writing a response: one document, or an event for each thing that happens to it.

mod keep;

use super::super::errors;
use super::document::{Item, Kind, logprob_list, usage};
use super::read::ReplyOptions;
use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::call::Kept;
use crate::gather::{GatheredCall, custom_input};
use crate::stamp::Stamp;
use crate::timings;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{CallPart, Event, Fault, Finish, Generate, Timings, TokenLogprobs, Usage};

pub(super) struct ResponseAnswer {
    stamp: Stamp,
    model: String,
    options: ReplyOptions,
    stream: bool,
    begun: bool,
    /// Events sent so far.
    sequence: u64,
    items: Vec<Item>,
    /// The last item is not complete.
    open: bool,
    /// Log-probabilities of tokens whose text has not come yet.
    waiting: Vec<TokenLogprobs>,
    finish: Option<Finish>,
    kept: Option<Kept>,
}

impl ResponseAnswer {
    pub(super) fn new(request: &Generate, options: ReplyOptions, stamp: &Stamp) -> Self {
        Self {
            stamp: stamp.clone(),
            model: request.model.clone(),
            options,
            stream: request.stream,
            begun: false,
            sequence: 0,
            items: Vec::new(),
            open: false,
            waiting: Vec::new(),
            finish: None,
            kept: None,
        }
    }

    fn id(&self) -> String {
        format!("resp_{}", self.stamp.id)
    }

    /// Sends an event, if events are sent at all.
    fn send(&mut self, name: &str, fields: Json, out: &mut Vec<u8>) {
        if !self.stream {
            return;
        }
        let mut event = Json::object([
            ("type", name.into()),
            ("sequence_number", self.sequence.into()),
        ]);
        self.sequence += 1;
        if let (Json::Object(event), Json::Object(fields)) = (&mut event, fields) {
            event.extend(fields);
        }
        if name.ends_with(".delta") {
            self.options.report.add_timings(&mut event);
        }
        server_sent(Some(name), &event, out);
    }

    /// Sends an event about the last item's only part.
    fn send_part(&mut self, name: &str, key: &str, value: Json, out: &mut Vec<u8>) {
        let fields = self
            .item_reference()
            .with("content_index", 0_i64)
            .with(key, value);
        self.send(name, fields, out);
    }

    /// Where the last item stands.
    fn item_reference(&self) -> Json {
        let id = self.items.last().map(|item| item.id.clone());
        let position = self.items.len().saturating_sub(1);
        Json::object([("item_id", id.into()), ("output_index", position.into())])
    }

    fn send_item(&mut self, name: &str, out: &mut Vec<u8>) {
        if let Some(item) = self.items.last() {
            let document = item.document(self.options.sealed);
            let position = self.items.len() - 1;
            let fields = Json::object([("output_index", position.into()), ("item", document)]);
            self.send(name, fields, out);
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if core::mem::replace(&mut self.begun, true) {
            return;
        }
        for name in ["response.created", "response.in_progress"] {
            let response = self.document("in_progress", None, Json::Null);
            self.send(name, Json::object([("response", response)]), out);
        }
    }

    fn open(&mut self, kind: Kind, out: &mut Vec<u8>) {
        self.begin(out);
        self.close("completed", out);
        let item = Item::new(kind, self.items.len(), &self.stamp.id);
        let part = item.empty_part();
        self.items.push(item);
        self.open = true;
        self.send_item("response.output_item.added", out);
        if let Some(part) = part {
            self.send_part("response.content_part.added", "part", part, out);
        }
    }

    fn close(&mut self, status: &'static str, out: &mut Vec<u8>) {
        if !core::mem::take(&mut self.open) {
            return;
        }
        let Some(item) = self.items.last_mut() else {
            return;
        };
        item.status = status;
        let part = item.part();
        match &item.kind {
            Kind::Reasoning(text) => {
                let text = text.as_str().into();
                self.send_part("response.reasoning_text.done", "text", text, out);
            }
            Kind::Message { text, logprobs } => {
                let logprobs = logprob_list(logprobs);
                let text = Json::from(text.as_str());
                let fields = self
                    .item_reference()
                    .with("content_index", 0_i64)
                    .with("text", text);
                let fields = fields.with("logprobs", logprobs);
                self.send("response.output_text.done", fields, out);
            }
            Kind::Call {
                call, custom: true, ..
            } => {
                let input = custom_input(&call.arguments);
                let fields = self.item_reference().with("input", input);
                self.send("response.custom_tool_call_input.done", fields, out);
            }
            Kind::Call { call, .. } => {
                let (name, arguments) = (call.name.clone(), call.arguments.clone());
                let fields = self
                    .item_reference()
                    .with("name", name)
                    .with("arguments", arguments);
                self.send("response.function_call_arguments.done", fields, out);
            }
        }
        if let Some(part) = part {
            self.send_part("response.content_part.done", "part", part, out);
        }
        self.send_item("response.output_item.done", out);
    }

    fn think(&mut self, more: &str, out: &mut Vec<u8>) {
        self.waiting.clear();
        if !(self.open && matches!(self.last(), Some(Kind::Reasoning(_)))) {
            self.open(Kind::Reasoning(String::new()), out);
        }
        if let Some(Kind::Reasoning(text)) = self.last() {
            text.push_str(more);
        }
        self.send_part("response.reasoning_text.delta", "delta", more.into(), out);
    }

    fn say(&mut self, more: &str, out: &mut Vec<u8>) {
        if !(self.open && matches!(self.last(), Some(Kind::Message { .. }))) {
            let (text, logprobs) = (String::new(), Vec::new());
            self.open(Kind::Message { text, logprobs }, out);
        }
        let new = core::mem::take(&mut self.waiting);
        let told = logprob_list(&new);
        if let Some(Kind::Message { text, logprobs }) = self.last() {
            text.push_str(more);
            logprobs.extend(new);
        }
        let fields = self
            .item_reference()
            .with("content_index", 0_i64)
            .with("delta", more);
        let fields = fields.with("logprobs", told);
        self.send("response.output_text.delta", fields, out);
    }

    fn call(&mut self, number: usize, part: &CallPart, out: &mut Vec<u8>) {
        self.waiting.clear();
        let same = matches!(self.last(), Some(Kind::Call { index, .. }) if *index == number);
        if !(self.open && same) {
            let call = GatheredCall::opened_by(part);
            let custom = self.options.custom.contains(&call.name);
            self.open(
                Kind::Call {
                    index: number,
                    call,
                    custom,
                },
                out,
            );
        }
        let Some(Kind::Call { call, custom, .. }) = self.last() else {
            return;
        };
        let more = call.add(part);
        if *custom {
            // Its text is told when it is complete.
            if let CallPart::End(_) = part {
                let input = custom_input(&call.arguments);
                let fields = self.item_reference().with("delta", input);
                self.send("response.custom_tool_call_input.delta", fields, out);
            }
        } else if !more.is_empty() {
            let fields = self.item_reference().with("delta", more);
            self.send("response.function_call_arguments.delta", fields, out);
        }
        if let CallPart::End(_) = part {
            self.close("completed", out);
        }
    }

    /// Tells how much of the prompt is computed, as llama-server does.
    fn progress(&mut self, event: &Event, out: &mut Vec<u8>) {
        if let Some(progress) = self.options.report.hear(event).filter(|_| self.stream) {
            self.begin(out);
            let response = self.document("in_progress", None, Json::Null);
            let fields = Json::object([("response", response), ("prompt_progress", progress)]);
            self.send("response.in_progress", fields, out);
        }
    }

    fn last(&mut self) -> Option<&mut Kind> {
        self.items.last_mut().map(|item| &mut item.kind)
    }

    fn end(&mut self, used: &Usage, taken: &Timings, out: &mut Vec<u8>) {
        self.begin(out);
        self.close("completed", out);
        let status = match self.finish {
            Some(Finish::Length) => "incomplete",
            _ => "completed",
        };
        let document = self.document(status, Some(used), Json::Null);
        self.keep(&document);
        if !self.stream {
            return document.write(out);
        }
        let name = format!("response.{status}");
        let mut fields = Json::object([("response", document)]);
        if self.options.report.is_wanted() {
            fields.push("timings", timings::write(used, taken));
        }
        self.send(&name, fields, out);
    }

    fn fail(&mut self, fault: &Fault, out: &mut Vec<u8>) {
        let (kind, code) = errors::words(fault);
        let code = code.unwrap_or(kind);
        let message = &*errors::message(fault);
        let fields = Json::object([
            ("code", code.into()),
            ("message", message.into()),
            ("param", fault.field.clone().into()),
        ]);
        self.send("error", fields, out);
        if let Some(item) = self.items.last_mut().filter(|_| self.open) {
            item.status = "incomplete";
        }
        let error = Json::object([("code", "server_error".into()), ("message", message.into())]);
        let response = self.document("failed", None, error);
        if self.options.background {
            self.options.kept_conversation = None;
            self.keep(&response);
        }
        self.send(
            "response.failed",
            Json::object([("response", response)]),
            out,
        );
    }

    fn document(&self, status: &str, used: Option<&Usage>, error: Json) -> Json {
        let incomplete = match status {
            "incomplete" => Json::object([("reason", "max_output_tokens".into())]),
            _ => Json::Null,
        };
        let output = self
            .items
            .iter()
            .map(|item| item.document(self.options.sealed));
        let mut document = Json::object([
            ("id", self.id().into()),
            ("object", "response".into()),
            ("created_at", self.stamp.unix_seconds.into()),
            ("status", status.into()),
            ("error", error),
            ("incomplete_details", incomplete),
            ("model", self.model.as_str().into()),
            ("output", Json::array(output)),
            ("usage", used.map(usage).into()),
        ]);
        for (name, value) in &self.options.settings {
            document.push(name, value.clone());
        }
        document
    }
}

impl AnswerWriter for ResponseAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Started { .. } => self.begin(out),
            Event::Prompt { .. } => {}
            Event::Progress { .. } => self.progress(event, out),
            Event::Text { text, .. } => self.say(text, out),
            Event::Thinking { text, .. } => self.think(text, out),
            Event::Call { index, part, .. } => self.call(*index, part, out),
            Event::Token { logprobs, .. } => self.waiting.extend(logprobs.clone()),
            Event::Finished { reason, .. } => {
                let status = match reason {
                    Finish::Length => "incomplete",
                    _ => "completed",
                };
                self.close(status, out);
                self.finish = Some(reason.clone());
            }
            Event::Done { usage, timings } => self.end(usage, timings, out),
            Event::Failed(fault) => self.fail(fault, out),
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }

    fn answered_by(&mut self, model: &str) {
        if self.model.is_empty() {
            self.model = model.into();
        }
    }

    fn detached(&mut self) -> Option<Kept> {
        self.options.background.then(|| Kept {
            id: self.id(),
            document: self.document("queued", None, Json::Null),
            messages: self.options.conversation.clone(),
            added: None,
        })
    }

    fn kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }
}
