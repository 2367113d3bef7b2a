//! Conversations through Go templates, as Ollama takes them there.
//!
//! A template that reads `.Messages` is given all of them at once. An older one only knows a system prompt, a prompt
//! and its response: it is run once for each such round, and the last time only up to the response, which is where the
//! model goes on.

use super::ast::{Branch, Node, Operand, Pipeline};
use super::error::GoError;
use super::eval::Interp;
use super::value::GoValue;
use super::{GoOptions, GoTemplate};
use alloc::string::String;
use alloc::vec::Vec;

/// A message of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What was said.
    pub content: String,
    /// The rest of what templates read: `thinking`, `tool_calls`, `tool_name`, `tool_call_id`.
    pub others: Vec<(&'static str, GoValue)>,
}

/// A conversation.
#[derive(Clone, Debug, Default)]
pub struct GoChat {
    /// What was said.
    pub messages: Vec<GoMessage>,
    /// The tools, as a list of objects.
    pub tools: GoValue,
    /// Whether the model shall think, where that was said.
    pub think: Option<bool>,
    /// How much, where that was said.
    pub think_level: Option<&'static str>,
}

impl GoTemplate {
    /// The prompt of a conversation.
    pub fn chat(&self, chat: &GoChat, options: &GoOptions) -> Result<String, GoError> {
        let (system, messages) = collate(&chat.messages);
        let mut interp = Interp::new(&self.ast, options.limits, options.now);
        if self.reads("Messages") {
            let messages = messages.iter().map(message);
            let data = self.data(
                chat,
                [
                    ("System", system.into()),
                    ("Messages", GoValue::list(messages)),
                    ("Response", "".into()),
                ],
            );
            interp.run(&self.ast.root, &data)?;
            return Ok(interp.out);
        }
        let mut round = Round::default();
        for message in &messages {
            let complete = match message.role.as_str() {
                "system" => !round.prompt.is_empty() || !round.response.is_empty(),
                "user" => !round.response.is_empty(),
                _ => false,
            };
            if complete {
                let data = self.data(chat, core::mem::take(&mut round).values());
                interp.run(&self.ast.root, &data)?;
            }
            let content = message.content.clone();
            match message.role.as_str() {
                "system" => round.system = content,
                "user" => round.prompt = content,
                "assistant" => round.response = content,
                _ => {}
            }
        }
        let data = self.data(chat, round.values());
        interp.run(&self.to_response, &data)?;
        Ok(interp.out)
    }

    /// The prompt for a gap between two texts.
    pub fn fill(&self, prefix: &str, suffix: &str, options: &GoOptions) -> Result<String, GoError> {
        let data = self.data(
            &GoChat::default(),
            [
                ("Prompt", prefix.into()),
                ("Suffix", suffix.into()),
                ("Response", "".into()),
            ],
        );
        let mut interp = Interp::new(&self.ast, options.limits, options.now);
        interp.run(&self.ast.root, &data)?;
        Ok(interp.out)
    }

    fn data(&self, chat: &GoChat, own: [(&'static str, GoValue); 3]) -> GoValue {
        let thinking = [
            ("Tools", chat.tools.clone()),
            ("Think", chat.think.unwrap_or(false).into()),
            ("ThinkLevel", chat.think_level.unwrap_or_default().into()),
            ("IsThinkSet", chat.think.is_some().into()),
        ];
        GoValue::map(own.into_iter().chain(thinking))
    }
}

/// What an older template knows at a time.
#[derive(Default)]
struct Round {
    system: String,
    prompt: String,
    response: String,
}

impl Round {
    fn values(self) -> [(&'static str, GoValue); 3] {
        [
            ("System", self.system.into()),
            ("Prompt", self.prompt.into()),
            ("Response", self.response.into()),
        ]
    }
}

fn message(message: &GoMessage) -> GoValue {
    let own = [
        ("role", message.role.as_str().into()),
        ("content", message.content.as_str().into()),
    ];
    let others = message.others.iter().cloned();
    GoValue::map(own.into_iter().chain(others))
}

/// The system prompts in one, and the messages with those of one speaker that follow each other joined.
fn collate(messages: &[GoMessage]) -> (String, Vec<GoMessage>) {
    let system = messages.iter().filter(|message| message.role == "system");
    let system: Vec<&str> = system.map(|message| message.content.as_str()).collect();
    let mut joined: Vec<GoMessage> = Vec::new();
    for message in messages {
        match joined.last_mut() {
            // Each result belongs to its own call.
            Some(last) if last.role == message.role && message.role != "tool" => {
                if !message.content.is_empty() {
                    last.content.push_str("\n\n");
                    last.content.push_str(&message.content);
                }
            }
            _ => joined.push(message.clone()),
        }
    }
    (system.join("\n\n"), joined)
}

/// The nodes up to the first that prints the response.
pub(super) fn up_to_response(nodes: &[Node]) -> Vec<Node> {
    let mut cut = Cut { done: false };
    cut.nodes(nodes)
}

struct Cut {
    done: bool,
}

impl Cut {
    fn nodes(&mut self, nodes: &[Node]) -> Vec<Node> {
        let mut kept = Vec::new();
        for node in nodes {
            if self.done {
                break;
            }
            kept.push(self.node(node));
        }
        kept
    }

    fn node(&mut self, node: &Node) -> Node {
        match node {
            Node::Action(pipeline) => {
                self.done = prints_response(pipeline);
                node.clone()
            }
            Node::If(branch) => Node::If(self.branch(branch)),
            Node::With(branch) => Node::With(self.branch(branch)),
            Node::Range(branch) => Node::Range(self.branch(branch)),
            other => other.clone(),
        }
    }

    fn branch(&mut self, branch: &Branch) -> Branch {
        Branch {
            pipeline: branch.pipeline.clone(),
            then: self.nodes(&branch.then),
            otherwise: self.nodes(&branch.otherwise),
        }
    }
}

fn prints_response(pipeline: &Pipeline) -> bool {
    let operands = pipeline.commands.iter().flatten();
    operands
        .into_iter()
        .any(|operand| matches!(operand, Operand::Field(fields) if fields.iter().any(|f| f == "Response")))
}
