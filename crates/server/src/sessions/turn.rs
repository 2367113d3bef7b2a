//! A turn of a session: it runs whether its client waits for it or not, and its answer can be read again from any byte on.

use super::session::{History, Session};
use crate::body::ReplyBody;
use crate::generate::{Conversation, WAITING};
use crate::http::{Answered, Caller, answered, reply};
use crate::log::LogLevel;
use crate::state::Server;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_chat::json::Json;
use strata_chat::{CallPart, Event, Fault, Generate, Message, Prompt, Role, ToolCall};
use strata_wire::sessions::read_turn;
use strata_wire::{Framing, Reply, Stamp};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// A turn.
pub(crate) struct Turn {
    /// The body of its request; with the stamp it has the same answer whenever it is computed.
    body: Vec<u8>,
    pub(super) stamp: Stamp,
    framing: Framing,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

struct State {
    status: Status,
    /// The answer so far, as its clients get it.
    bytes: Vec<u8>,
    /// The reply instead of an answer, where nothing was answered.
    refused: Option<Reply>,
    task: Option<AbortHandle>,
}

/// How far it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    Complete,
    Failed,
    Canceled,
}

impl Status {
    const ALL: [(Self, &str); 4] = [
        (Self::Running, "running"),
        (Self::Complete, "complete"),
        (Self::Failed, "failed"),
        (Self::Canceled, "canceled"),
    ];

    fn word(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(status, _)| *status == self)
            .map_or("", |(_, word)| word)
    }
}

impl Turn {
    pub(super) fn new(body: Vec<u8>, stamp: Stamp, framing: Framing) -> Self {
        Self {
            body,
            stamp,
            framing,
            state: Mutex::new(State {
                status: Status::Running,
                bytes: Vec::new(),
                refused: None,
                task: None,
            }),
            changed: watch::Sender::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> Status {
        self.state().status
    }

    /// Bytes that it takes.
    pub(super) fn held(&self) -> usize {
        self.body.len() + self.state().bytes.len()
    }

    pub(super) fn told(&self) -> Json {
        let state = self.state();
        Json::object([
            ("status", state.status.word().into()),
            ("stream", (self.framing == Framing::Events).into()),
            ("bytes", state.bytes.len().into()),
        ])
    }

    pub(super) fn to_json(&self) -> Json {
        let state = self.state();
        // What runs is computed again: the same bytes.
        let answer = match state.status {
            Status::Running => "".into(),
            _ => String::from_utf8_lossy(&state.bytes),
        };
        let body = String::from_utf8_lossy(&self.body).into_owned();
        let mut json = Json::object([
            ("body", body.into()),
            ("stamp", self.stamp.header().into()),
            ("stream", (self.framing == Framing::Events).into()),
            ("status", state.status.word().into()),
            ("answer", answer.into_owned().into()),
        ]);
        if let Some(refused) = &state.refused {
            let body = String::from_utf8_lossy(&refused.body).into_owned();
            let reply = [
                ("status", u32::from(refused.status).into()),
                ("body", body.into()),
            ];
            json.push("refused", Json::object(reply));
        }
        json
    }

    pub(super) fn from_json(json: &Json) -> Option<Self> {
        let text = |key: &str| json.get(key)?.as_str().map(str::to_owned);
        let status = text("status")?;
        let mut all = Status::ALL.into_iter();
        let (status, _) = all.find(|(_, word)| *word == status)?;
        let framing = if json.get("stream")? == &true.into() {
            Framing::Events
        } else {
            Framing::Whole
        };
        let turn = Self::new(
            text("body")?.into_bytes(),
            Stamp::parse(&text("stamp")?)?,
            framing,
        );
        {
            let mut state = turn.state();
            state.status = status;
            state.bytes = text("answer")?.into_bytes();
            if let Some(refused) = json.get("refused") {
                state.refused = Some(Reply {
                    status: refused.get("status")?.text().parse().ok()?,
                    content_type: "application/json",
                    headers: Vec::new(),
                    body: refused.get("body")?.as_str()?.as_bytes().to_vec(),
                });
            }
        }
        Some(turn)
    }

    fn push(&self, bytes: &mut Vec<u8>) {
        if !bytes.is_empty() {
            self.state().bytes.append(bytes);
            self.changed.send_replace(());
        }
    }

    fn end(&self, status: Status, refused: Option<Reply>) {
        let mut state = self.state();
        if state.status == Status::Running {
            state.status = status;
            state.refused = refused;
        }
        state.task = None;
        drop(state);
        self.changed.send_replace(());
    }

    /// Ends it, if it runs; says whether it did.
    pub(super) fn cancel(&self) -> bool {
        let task = self.state().task.take();
        let ran = self.status() == Status::Running;
        if let Some(task) = task {
            task.abort();
        }
        let gone = Fault::bad_request("the turn was canceled before it said anything");
        let refused = self.state().bytes.is_empty().then(|| fault(&gone));
        self.end(Status::Canceled, refused);
        ran
    }

    /// The answer from a byte on, as it comes.
    pub(super) async fn follow(self: Arc<Self>, from: usize) -> Answered {
        let mut changed = self.changed.subscribe();
        loop {
            let whole = {
                let state = self.state();
                if let Some(refused) = &state.refused {
                    return reply(refused.clone());
                }
                let ended = state.status != Status::Running;
                if ended && from > state.bytes.len() {
                    let problem = format_args!("from: the answer has {} bytes", state.bytes.len());
                    return reply(fault(&Fault::bad_request(problem)));
                }
                match self.framing {
                    Framing::Whole if ended => Some(state.bytes[from..].to_vec()),
                    Framing::Whole => None,
                    _ if ended || state.bytes.len() > from => Some(Vec::new()),
                    _ => None,
                }
            };
            match whole {
                Some(bytes) if self.framing == Framing::Whole => {
                    return answered(Framing::Whole, ReplyBody::whole(bytes));
                }
                Some(_) => break,
                // It tells of its end before it is gone.
                None => {
                    let _ = changed.changed().await;
                }
            }
        }
        let framing = self.framing;
        let (sender, receiver) = mpsc::channel(WAITING);
        tokio::spawn(self.send(from, changed, sender));
        answered(framing, ReplyBody::Stream(receiver))
    }

    async fn send(
        self: Arc<Self>,
        mut from: usize,
        mut changed: watch::Receiver<()>,
        sender: mpsc::Sender<Bytes>,
    ) {
        loop {
            let (piece, ended) = {
                let state = self.state();
                let piece = Bytes::copy_from_slice(&state.bytes[from..]);
                (piece, state.status != Status::Running)
            };
            from += piece.len();
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return;
            }
            if ended {
                return;
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = sender.closed() => return,
            }
        }
    }
}

/// A fault in the words of sessions.
pub(super) fn fault(fault: &Fault) -> Reply {
    let stamp = Stamp {
        id: "0".repeat(16),
        unix_seconds: 0,
        nanoseconds: 0,
    };
    strata_wire::Dialect::of("/sessions", false).fault(fault, &stamp)
}

/// Computes a turn on a task of its own.
pub(super) fn start(
    server: &Arc<Server>,
    caller: Caller,
    session: &Arc<Mutex<Session>>,
    turn: &Arc<Turn>,
) {
    let work = run(
        Arc::clone(server),
        caller,
        Arc::clone(session),
        Arc::clone(turn),
    );
    // Until the handle is there, nobody can have ended it.
    let mut state = turn.state();
    let task = tokio::spawn(work);
    state.task = Some(task.abort_handle());
}

async fn run(server: Arc<Server>, caller: Caller, session: Arc<Mutex<Session>>, turn: Arc<Turn>) {
    let ended = compute(&server, caller, &session, &turn).await;
    let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
    match ended {
        Ok(history) => {
            session.history = history;
            turn.end(Status::Complete, None);
        }
        Err(refused) => turn.end(Status::Failed, refused),
    }
    if let Err(error) = server.sessions.write(&session) {
        let pairs = [("problem", error.to_string().into())];
        let log = &server.observer.log;
        log.say(LogLevel::Error, "a session could not be kept", &pairs);
    }
}

/// What was said after the turn; or the reply instead of an answer, unless that had begun.
async fn compute(
    server: &Arc<Server>,
    mut caller: Caller,
    session: &Mutex<Session>,
    turn: &Turn,
) -> Result<History, Option<Reply>> {
    let refused = |error: &Fault| Some(fault(error));
    let (mut request, mut answer) =
        read_turn(&turn.body, &turn.stamp).map_err(|error| refused(&error))?;
    {
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        session
            .join(&mut request)
            .map_err(|error| refused(&error))?;
        caller.constraints = Some(Arc::clone(&session.constraints));
        if session.constraints.privacy.never_off_machine {
            caller.observed.keep_on_machine();
        }
    }
    caller.any_model = false;
    let mut gathered = Gathered::of(&mut request);
    let begun = Conversation::begin(server, &caller, request).await;
    let mut conversation = begun.map_err(|error| Some(answer.fault(&error)))?;
    answer.answered_by(&conversation.lease.facts.name);
    let mut bytes = Vec::new();
    let mut silent = true;
    while !conversation.events.has_ended() {
        for event in conversation.next().await {
            if let (Event::Failed(error), true) = (&event, silent) {
                return Err(Some(answer.fault(error)));
            }
            if gathered.hear(&event) {
                answer.event(&event, &mut bytes);
            }
        }
        silent &= bytes.is_empty();
        turn.push(&mut bytes);
    }
    if conversation.events.has_failed() {
        return Err(None);
    }
    Ok(gathered.history())
}

/// What a turn adds to its session, gathered from its events.
enum Gathered {
    Chat {
        messages: Vec<Message>,
        text: String,
        thinking: String,
        calls: Vec<ToolCall>,
    },
    Text {
        tokens: Vec<u32>,
        /// Whether its client asked for the prompt's tokens, and for the answer's.
        told: (bool, bool),
    },
}

impl Gathered {
    /// Begins with what a request says; the tokens of texts are asked for.
    fn of(request: &mut Generate) -> Self {
        if let [Prompt::Chat(messages)] = &request.prompts[..] {
            return Self::Chat {
                messages: messages.clone(),
                text: String::new(),
                thinking: String::new(),
                calls: Vec::new(),
            };
        }
        let asked = std::mem::replace(&mut request.tokens, true);
        let scored = request.prompt_logprobs.is_some();
        Self::Text {
            tokens: Vec::new(),
            told: (asked || scored, asked || request.logprobs.is_some()),
        }
    }

    /// Takes an event in, and says whether the client's answer has it too.
    fn hear(&mut self, event: &Event) -> bool {
        match (self, event) {
            (Self::Chat { text, .. }, Event::Text { text: more, .. }) => text.push_str(more),
            (Self::Chat { thinking, .. }, Event::Thinking { text: more, .. }) => {
                thinking.push_str(more);
            }
            (
                Self::Chat { calls, .. },
                Event::Call {
                    part: CallPart::End(call),
                    ..
                },
            ) => calls.push(call.clone()),
            (Self::Text { tokens, told }, Event::Prompt { tokens: prompt, .. }) => {
                tokens.clone_from(prompt);
                return told.0;
            }
            (Self::Text { tokens, told }, Event::Token { token, .. }) => {
                tokens.push(*token);
                return told.1;
            }
            _ => {}
        }
        true
    }

    fn history(self) -> History {
        match self {
            Self::Text { tokens, .. } => History::Text(tokens),
            Self::Chat {
                mut messages,
                text,
                thinking,
                calls,
            } => {
                let mut answer = Message::text(Role::Assistant, text);
                answer.thinking = Some(thinking).filter(|thinking| !thinking.is_empty());
                answer.tool_calls = calls;
                messages.push(answer);
                History::Chat(messages)
            }
        }
    }
}
