//! Where the documents of a stream come from: the events of an answer, or the vectors of texts.

use crate::session::SessionRun;
use crate::tools::ToolRounds;
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};
use strata::chat_types::{Event, Fault};
use strata::worker::RequestHandle;
use strata::{Error, Events, Vectors, take};
use strata_wire::{AnswerWriter, Framing, Reply};

pub(crate) enum Source {
    /// Another thread brings it.
    Awaited,
    Answer(Box<Answer>),
    Vectors(Box<VectorRun>),
    /// Calls wait for their results.
    Calls(Box<ToolRounds>),
    Over,
}

impl Source {
    /// Takes in what has happened. Ready if that may have added documents, or was the end; it is [`Over`](Self::Over) then.
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
        documents: &mut VecDeque<String>,
    ) -> Poll<Result<(), Error>> {
        let polled = match self {
            Self::Awaited | Self::Calls(_) => return Poll::Pending,
            Self::Over => return Poll::Ready(Ok(())),
            Self::Answer(answer) => {
                let polled = ready!(answer.poll(context, documents));
                if let Ok(true) = polled
                    && let Some(tools) = answer.tools.take()
                    && let Some(document) = tools.asks()
                {
                    documents.push_back(document);
                    *self = Self::Calls(Box::new(tools));
                    return Poll::Ready(Ok(()));
                }
                polled
            }
            Self::Vectors(run) => ready!(run.poll(context, documents)),
        };
        let over = match &polled {
            Ok(over) => *over,
            Err(_) => true,
        };
        if over {
            *self = Self::Over;
        }
        Poll::Ready(polled.map(drop))
    }
}

impl Source {
    /// Whether the engine still writes; then the task is woken when it has said everything.
    pub(crate) fn goes_on(&mut self, context: &mut Context<'_>) -> bool {
        match self {
            Self::Answer(answer) => answer.events.poll_over(context).is_pending(),
            _ => false,
        }
    }
}

/// Text on its way, written in the words of the dialect that asked.
pub(crate) struct Answer {
    pub(crate) events: Events,
    pub(crate) writer: Box<dyn AnswerWriter>,
    /// What is written and not yet a document.
    pub(crate) bytes: Vec<u8>,
    /// The session that the text belongs to.
    pub(crate) session: Option<SessionRun>,
    /// The conversation that goes on after its tool calls.
    pub(crate) tools: Option<ToolRounds>,
}

impl Answer {
    /// Says whether the answer is over.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        documents: &mut VecDeque<String>,
    ) -> Poll<Result<bool, Error>> {
        for event in ready!(self.events.poll_next(context)) {
            if let Event::Failed(fault) = event {
                let failure = self.events.failure().cloned();
                return Poll::Ready(Err(failure.unwrap_or_else(|| fault.into())));
            }
            if let Some(session) = &mut self.session {
                session.hear(&event);
            }
            if let Some(tools) = &mut self.tools {
                tools.hear(&event);
            }
            self.writer.event(&event, &mut self.bytes);
        }
        let over = self.events.has_ended();
        split(self.writer.framing(), over, &mut self.bytes, documents);
        if over && let Some(session) = self.session.take() {
            session.complete();
        }
        Poll::Ready(Ok(over))
    }
}

/// Takes the documents out of the bytes of a body.
pub(crate) fn split(
    framing: Framing,
    over: bool,
    bytes: &mut Vec<u8>,
    documents: &mut VecDeque<String>,
) {
    if framing == Framing::Whole && !over {
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    match framing {
        Framing::Whole => documents.push_back(text.into_owned()),
        // A document has no line breaks in it.
        Framing::Events => {
            let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
            documents.extend(data.filter(|data| *data != "[DONE]").map(String::from));
        }
        Framing::Lines => documents.extend(text.lines().map(String::from)),
    }
    bytes.clear();
}

/// Writes what was computed for texts of so many tokens.
type Finish = dyn FnOnce(&[Vec<f32>], &[usize]) -> Result<Reply, Fault> + Send;

/// Texts that are embedded or ranked.
pub(crate) struct VectorRun {
    waiting: VecDeque<RequestHandle>,
    lengths: Vec<usize>,
    rows: Vec<Vec<f32>>,
    finish: Option<Box<Finish>>,
}

impl VectorRun {
    pub(crate) fn new(vectors: Vectors, finish: Box<Finish>) -> Self {
        Self {
            waiting: vectors.running.into(),
            lengths: vectors.lengths,
            rows: vec![Vec::new()],
            finish: Some(finish),
        }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        documents: &mut VecDeque<String>,
    ) -> Poll<Result<bool, Error>> {
        while let (Some(first), Some(row)) = (self.waiting.front_mut(), self.rows.last_mut()) {
            let heard = ready!(first.poll_next(context)).ok_or_else(Fault::unloaded);
            if heard.and_then(|heard| take(heard, row))? {
                first.end();
                self.waiting.pop_front();
                self.rows.push(Vec::new());
            }
        }
        self.rows.pop();
        if let Some(finish) = self.finish.take() {
            let reply = finish(&self.rows, &self.lengths)?;
            documents.push_back(text(&reply));
        }
        Poll::Ready(Ok(true))
    }
}

/// The document of a reply.
pub(crate) fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}
