//! Writing a message: one document, or an event for each thing that happens to it.

use super::errors;
use super::read::ReplyOptions;
use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::call::Kept;
use crate::gather::GatheredCall;
use crate::stamp::Stamp;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{
    CallPart, ContentPart, Event, Fault, Finish, Generate, Message, Role, ToolCall, Usage,
};

pub(super) struct MessageAnswer {
    stamp: Stamp,
    model: String,
    stream: bool,
    options: ReplyOptions,
    begun: bool,
    blocks: Vec<Block>,
    /// The last block is not complete.
    open: bool,
    finish: Option<Finish>,
    complete: bool,
}

enum Block {
    Thinking(String),
    Text(String),
    Call {
        /// The call's number in the answer.
        index: usize,
        call: GatheredCall,
    },
}

impl Block {
    fn document(&self) -> Json {
        match self {
            // The signature lets a provider know its own thinking again. Here all thinking is taken back as it comes.
            Self::Thinking(text) => Json::object([
                ("type", "thinking".into()),
                ("thinking", text.as_str().into()),
                ("signature", "".into()),
            ]),
            Self::Text(text) => {
                Json::object([("type", "text".into()), ("text", text.as_str().into())])
            }
            Self::Call { call, .. } => Json::object([
                ("type", "tool_use".into()),
                ("id", call.id.as_str().into()),
                ("name", call.name.as_str().into()),
                ("input", call.input()),
            ]),
        }
    }
}

impl MessageAnswer {
    pub(super) fn new(request: &Generate, options: ReplyOptions, stamp: &Stamp) -> Self {
        Self {
            stamp: stamp.clone(),
            model: request.model.clone(),
            stream: request.stream,
            options,
            begun: false,
            blocks: Vec::new(),
            open: false,
            finish: None,
            complete: false,
        }
    }

    /// Sends an event, if events are sent at all.
    fn send<const N: usize>(&self, name: &str, fields: [(&str, Json); N], out: &mut Vec<u8>) {
        if self.stream {
            let mut event = Json::object([("type", name.into())]);
            for (key, value) in fields {
                event.push(key, value);
            }
            server_sent(Some(name), &event, out);
        }
    }

    fn index(&self) -> Json {
        self.blocks.len().saturating_sub(1).into()
    }

    fn begin(&mut self, used: &Usage, out: &mut Vec<u8>) {
        if core::mem::replace(&mut self.begun, true) {
            return;
        }
        self.send("message_start", [("message", self.document(used))], out);
        self.send("ping", [], out);
    }

    fn open(&mut self, block: Block, out: &mut Vec<u8>) {
        self.begin(&Usage::default(), out);
        self.close(out);
        let document = block.document();
        self.blocks.push(block);
        self.open = true;
        let index = self.index();
        let fields = [("index", index), ("content_block", document)];
        self.send("content_block_start", fields, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if !core::mem::take(&mut self.open) {
            return;
        }
        if let Some(Block::Thinking(_)) = self.blocks.last() {
            self.delta("signature_delta", "signature", "", out);
        }
        self.send("content_block_stop", [("index", self.index())], out);
    }

    fn delta(&self, kind: &str, key: &str, text: &str, out: &mut Vec<u8>) {
        let delta = Json::object([("type", kind.into()), (key, text.into())]);
        let fields = [("index", self.index()), ("delta", delta)];
        self.send("content_block_delta", fields, out);
    }

    fn think(&mut self, more: &str, out: &mut Vec<u8>) {
        if !(self.open && matches!(self.blocks.last(), Some(Block::Thinking(_)))) {
            self.open(Block::Thinking(String::new()), out);
        }
        if self.options.hide_thinking {
            return;
        }
        if let Some(Block::Thinking(text)) = self.blocks.last_mut() {
            text.push_str(more);
        }
        self.delta("thinking_delta", "thinking", more, out);
    }

    fn say(&mut self, more: &str, out: &mut Vec<u8>) {
        if !(self.open && matches!(self.blocks.last(), Some(Block::Text(_)))) {
            self.open(Block::Text(String::new()), out);
        }
        if let Some(Block::Text(text)) = self.blocks.last_mut() {
            text.push_str(more);
        }
        self.delta("text_delta", "text", more, out);
    }

    fn call(&mut self, number: usize, part: &CallPart, out: &mut Vec<u8>) {
        let last = self.blocks.last();
        let same = matches!(last, Some(Block::Call { index, .. }) if *index == number);
        if !(self.open && same) {
            let call = GatheredCall::opened_by(part);
            self.open(
                Block::Call {
                    index: number,
                    call,
                },
                out,
            );
        }
        let Some(Block::Call { call, .. }) = self.blocks.last_mut() else {
            return;
        };
        let more = call.add(part);
        if !more.is_empty() {
            self.delta("input_json_delta", "partial_json", &more, out);
        }
        if let CallPart::End(_) = part {
            self.close(out);
        }
    }

    /// The answer as the model will see it in its thread.
    fn message(&self) -> Message {
        let mut message = Message::new(Role::Assistant);
        for block in &self.blocks {
            match block {
                Block::Thinking(text) => message.thinking.get_or_insert_default().push_str(text),
                Block::Text(text) => message.parts.push(ContentPart::Text(text.clone())),
                Block::Call { call, .. } => message.tool_calls.push(ToolCall {
                    arguments: call.input(),
                    ..call.read()
                }),
            }
        }
        message
    }

    fn id(&self) -> String {
        format!("msg_{}", self.stamp.id)
    }

    fn end(&mut self, used: &Usage, out: &mut Vec<u8>) {
        self.complete = true;
        if !self.stream {
            return self.document(used).write(out);
        }
        self.begin(used, out);
        self.close(out);
        let (reason, text) = self.stop();
        let delta = Json::object([("stop_reason", reason), ("stop_sequence", text)]);
        let fields = [("delta", delta), ("usage", usage(used))];
        self.send("message_delta", fields, out);
        self.send("message_stop", [], out);
    }

    /// Why it ended, and the text that ended it.
    fn stop(&self) -> (Json, Json) {
        let reason = match &self.finish {
            None => return (Json::Null, Json::Null),
            Some(Finish::Stop) => "end_turn",
            Some(Finish::StopText(text)) => return ("stop_sequence".into(), text.as_str().into()),
            Some(Finish::Length) => "max_tokens",
            Some(Finish::ToolCalls) => "tool_use",
        };
        (reason.into(), Json::Null)
    }

    fn document(&self, used: &Usage) -> Json {
        let content = self.blocks.iter().map(Block::document);
        let (reason, text) = self.stop();
        Json::object([
            ("id", self.id().into()),
            ("type", "message".into()),
            ("role", "assistant".into()),
            ("model", self.model.as_str().into()),
            ("content", Json::array(content)),
            ("stop_reason", reason),
            ("stop_sequence", text),
            ("usage", usage(used)),
        ])
    }
}

/// Tokens that were computed before are counted apart.
fn usage(used: &Usage) -> Json {
    let computed = used.prompt_tokens.saturating_sub(used.cached_tokens);
    Json::object([
        ("input_tokens", computed.into()),
        ("cache_creation_input_tokens", 0_i64.into()),
        ("cache_read_input_tokens", used.cached_tokens.into()),
        ("output_tokens", used.generated_tokens.into()),
        (
            "output_tokens_details",
            Json::object([("thinking_tokens", used.thinking_tokens.into())]),
        ),
    ])
}

impl AnswerWriter for MessageAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Started {
                prompt_tokens,
                cached_tokens,
            } => {
                let used = Usage {
                    prompt_tokens: *prompt_tokens,
                    cached_tokens: *cached_tokens,
                    ..Usage::default()
                };
                self.begin(&used, out);
            }
            Event::Text { text, .. } => self.say(text, out),
            Event::Thinking { text, .. } => self.think(text, out),
            Event::Call { index, part, .. } => self.call(*index, part, out),
            Event::Prompt { .. } | Event::Progress { .. } | Event::Token { .. } => {}
            Event::Finished { reason, .. } => {
                self.close(out);
                self.finish = Some(reason.clone());
            }
            Event::Done { usage, .. } => self.end(usage, out),
            Event::Failed(fault) if self.stream => {
                server_sent(Some("error"), &errors::document(fault, &self.stamp), out);
            }
            Event::Failed(_) => {}
        }
    }

    fn answered_by(&mut self, model: &str) {
        if self.model.is_empty() {
            self.model = model.into();
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault, &self.stamp)
    }

    fn kept(&mut self) -> Option<Kept> {
        if !self.complete {
            return None;
        }
        let thread = self.options.thread.take()?;
        let mut messages = thread.messages;
        messages.push(self.message());
        Some(Kept {
            id: self.id(),
            document: thread.tools,
            messages,
            added: None,
        })
    }
}
