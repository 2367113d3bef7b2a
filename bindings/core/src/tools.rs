//! Conversations with tools: where an answer ends with calls, the caller gives their results and the conversation goes on.

use crate::model::TextModel;
use crate::request::{Outcome, generate, read, stamp, work};
use crate::source::{Answer, Source};
use crate::stream::JsonStream;
use strata::chat_types::Event;
use strata::{
    CallPart, ContentPart, Error, ErrorKind, Generate, Json, Message, Prompt, Role, ToolCall,
    ToolChoice, tool_result,
};
use strata_wire::AnswerWriter;
use strata_wire::call::Call;

/// Rounds of tool calls at most, as with the library's own functions.
const MOST_ROUNDS: usize = 16;

const PATH: &str = "/v1/chat/completions";

/// Asks for the next message of a conversation, as a body of `/v1/chat/completions` says. Where an answer ends with calls,
/// a document `{"object":"tool.calls","calls":[{"id","name","arguments"}…]}` follows it, the stream waits for the
/// [results](JsonStream::tool_result), and the next answer follows. A choice that requires a call holds for the first answer
/// only.
pub fn chat_with_tools(model: &crate::Model, body: &[u8]) -> Result<JsonStream, Error> {
    let model = model.text_model()?;
    let (request, writer) = read_chat(body)?;
    if request.choices > 1 {
        let what = "n: results can be given to the tool calls of one answer only";
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let rounds = ToolRounds {
        request,
        body: body.to_vec(),
        rounds: 0,
        said: Message::new(Role::Assistant),
        calls: Vec::new(),
    };
    let stream = JsonStream::new(Some(model.clone()));
    work(model, &stream, move |model| {
        rounds.start(model, Some(writer))
    })?;
    Ok(stream)
}

fn read_chat(body: &[u8]) -> Result<(Generate, Box<dyn AnswerWriter>), Error> {
    match read(PATH, body, &stamp())? {
        Call::Generate(request, writer) => Ok((*request, writer)),
        _ => Err(Error::new(ErrorKind::Internal, "a chat is no chat")),
    }
}

/// A conversation on its way.
pub(crate) struct ToolRounds {
    /// What the next answer is asked with.
    request: Generate,
    /// What was asked first, for the writer of each answer.
    body: Vec<u8>,
    rounds: usize,
    /// What this answer says.
    said: Message,
    /// The calls of this answer, and their results.
    calls: Vec<(ToolCall, Option<String>)>,
}

impl ToolRounds {
    /// Asks for the next answer.
    fn start(
        mut self,
        model: &TextModel,
        writer: Option<Box<dyn AnswerWriter>>,
    ) -> Result<Outcome, Error> {
        let writer = match writer {
            Some(writer) => writer,
            None => read_chat(&self.body)?.1,
        };
        self.rounds += 1;
        let begun = generate(model, self.request.clone(), writer, &stamp(), None)?;
        Ok(match begun {
            Outcome::Begun(Source::Answer(answer)) => {
                let tools = Some(self);
                Outcome::Begun(Source::Answer(Box::new(Answer { tools, ..*answer })))
            }
            other => other,
        })
    }

    pub(crate) fn hear(&mut self, event: &Event) {
        match event {
            Event::Text { text, .. } => match self.said.parts.last_mut() {
                Some(ContentPart::Text(said)) => said.push_str(text),
                _ => self.said.parts.push(ContentPart::Text(text.clone())),
            },
            Event::Thinking { text, .. } => {
                self.said.thinking.get_or_insert_default().push_str(text);
            }
            Event::Call {
                part: CallPart::End(call),
                ..
            } => self.calls.push((call.clone(), None)),
            _ => {}
        }
    }

    /// At an answer's end: the document that asks for results, if there are calls.
    pub(crate) fn asks(&self) -> Option<String> {
        if self.calls.is_empty() || self.rounds > MOST_ROUNDS {
            return None;
        }
        let calls = self.calls.iter().map(|(call, _)| {
            Json::object([
                ("id", call.id.as_str().into()),
                ("name", call.name.as_str().into()),
                ("arguments", call.arguments.clone()),
            ])
        });
        let document = Json::object([
            ("object", "tool.calls".into()),
            ("calls", Json::array(calls)),
        ]);
        Some(document.text())
    }

    /// Takes a result. Says whether it was the last that was missing.
    pub(crate) fn result(&mut self, id: &str, text: &str) -> Result<bool, Error> {
        let mut open = self.calls.iter_mut();
        let Some((_, result)) = open.find(|(call, result)| call.id == id && result.is_none())
        else {
            let what = format!("there is no call {id:?} that waits for a result");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        *result = Some(text.to_owned());
        Ok(self.calls.iter().all(|(_, result)| result.is_some()))
    }

    /// Goes on with the results of the calls.
    pub(crate) fn go_on(mut self, model: &TextModel) -> Result<Outcome, Error> {
        if let Some(Prompt::Chat(messages)) = self.request.prompts.first_mut() {
            let mut said = std::mem::replace(&mut self.said, Message::new(Role::Assistant));
            said.tool_calls = self.calls.iter().map(|(call, _)| call.clone()).collect();
            messages.push(said);
            let results = self.calls.drain(..);
            let results =
                results.map(|(call, result)| tool_result(&call, result.unwrap_or_default()));
            messages.extend(results);
        }
        match &mut self.request.tools.choice {
            choice @ (ToolChoice::Required | ToolChoice::Named(_)) => *choice = ToolChoice::Auto,
            ToolChoice::Allowed { required, .. } => *required = false,
            ToolChoice::Auto | ToolChoice::None => {}
        }
        self.start(model, None)
    }
}
