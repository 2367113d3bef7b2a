//! One session: what was said in it, what holds for it, and how it is written down.

use super::turn::{Status, Turn};
use std::sync::Arc;
use strata_chat::json::Json;
use strata_chat::{Constraints, Fault, FaultKind, Generate, Message, Prompt};
use strata_wire::call::Kept;
use strata_wire::openai::{kept_from_json, kept_to_json};
use strata_wire::sessions::read_open;

/// A session.
#[derive(Clone)]
pub(crate) struct Session {
    pub(super) id: String,
    /// The user whose it is.
    pub(super) owner: u32,
    /// The model's name, and the digest of its file.
    pub(super) model: (String, String),
    /// The body of the request that opened it.
    opened: Vec<u8>,
    pub(super) constraints: Arc<Constraints>,
    pub(super) history: History,
    /// Names of places, with the length of the history there.
    pub(super) checkpoints: Vec<(String, usize)>,
    pub(super) turn: Option<Arc<Turn>>,
    pub(super) handed: Option<Handed>,
    /// Seconds since 1970.
    created: u64,
    /// It was dropped: nothing of it is written any more.
    pub(super) closed: bool,
}

/// What was said so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum History {
    Empty,
    Chat(Vec<Message>),
    Text(Vec<u32>),
}

/// A token that was given out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Handed {
    /// SHA-256 of its secret part.
    pub(super) digest: [u8; 32],
    /// Who may take the session with it.
    pub(super) uid: u32,
    /// Until when, in seconds since 1970.
    pub(super) until: u64,
}

impl History {
    /// Messages, or tokens.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Chat(messages) => messages.len(),
            Self::Text(tokens) => tokens.len(),
        }
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Self::Empty => {}
            Self::Chat(messages) => messages.truncate(len),
            Self::Text(tokens) => tokens.truncate(len),
        }
        if len == 0 {
            *self = Self::Empty;
        }
    }
}

impl Session {
    pub(super) fn new(
        (id, owner): (String, u32),
        model: (String, String),
        (opened, constraints): (Vec<u8>, Constraints),
        created: u64,
    ) -> Self {
        Self {
            id,
            owner,
            model,
            opened,
            constraints: Arc::new(constraints),
            history: History::Empty,
            checkpoints: Vec::new(),
            turn: None,
            handed: None,
            created,
            closed: false,
        }
    }

    /// Whether it may be written to a disk.
    pub(super) fn may_be_kept(&self) -> bool {
        !self.constraints.privacy.never_to_disk
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let said = match &self.history {
            History::Empty => 0,
            History::Text(tokens) => tokens.len() * size_of::<u32>(),
            History::Chat(messages) => messages.iter().map(message_bytes).sum(),
        };
        let turn = self.turn.as_ref().map_or(0, |turn| turn.held());
        self.opened.len() + said + turn
    }

    pub(super) fn is_running(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| turn.status() == Status::Running)
    }

    /// Puts what was said before into a turn's request, and holds it to the constraints.
    pub(super) fn join(&self, request: &mut Generate) -> Result<(), Fault> {
        let (model, _) = &self.model;
        if !request.model.is_empty() && request.model != *model {
            let problem = format_args!("the session is with the model {model:?}");
            return Err(Fault {
                field: Some("model".into()),
                ..Fault::bad_request(problem)
            });
        }
        request.model.clone_from(model);
        self.constraints.shape(request)?;
        if request.choices != 1 || request.best_of != 1 || request.prompts.len() != 1 {
            let problem = "a turn has one prompt and one answer";
            return Err(Fault::bad_request(problem));
        }
        let wrong = |problem: &str| Err(Fault::bad_request(problem));
        if request.echo {
            return wrong("echo: the session has its text already");
        }
        match (&mut request.prompts[0], &self.history) {
            (Prompt::Chat(_), History::Text(_)) => {
                return wrong("the session is a text: its turns have a prompt, not messages");
            }
            (Prompt::Raw(_), History::Chat(_)) => {
                return wrong("the session is a chat: its turns have messages, not a prompt");
            }
            (Prompt::Infill { .. }, _) => return wrong("suffix: a session has no gaps"),
            (Prompt::Chat(messages), History::Chat(before)) => {
                messages.splice(0..0, before.iter().cloned());
            }
            (Prompt::Raw(_), History::Text(before)) => {
                request.before.clone_from(before);
                request.bos = false;
            }
            (_, History::Empty) => {}
        }
        Ok(())
    }

    /// Names the place where it is, instead of one that had the name before.
    pub(super) fn checkpoint(&mut self, name: &str, most: usize) -> Result<(), Fault> {
        self.still("a checkpoint")?;
        self.checkpoints.retain(|(known, _)| known != name);
        if self.checkpoints.len() >= most {
            let problem = format_args!("a session has {most} checkpoints at most");
            return Err(Fault::bad_request(problem));
        }
        self.checkpoints.push((name.into(), self.history.len()));
        Ok(())
    }

    /// Goes back to a checkpoint. Those behind it are gone, and so is the answer.
    pub(super) fn return_to(&mut self, name: &str) -> Result<(), Fault> {
        self.still("going back")?;
        let mut known = self.checkpoints.iter();
        let Some((_, len)) = known.find(|(known, _)| known == name) else {
            let problem = format_args!("the session has no checkpoint {name:?}");
            return Err(Fault::new(FaultKind::NotFound, problem));
        };
        let len = *len;
        self.history.truncate(len);
        self.checkpoints.retain(|(_, at)| *at <= len);
        self.turn = None;
        Ok(())
    }

    /// Another one like it, as it was before its turn if one runs.
    pub(super) fn fork(
        &self,
        id: String,
        checkpoint: Option<&str>,
        now: u64,
    ) -> Result<Self, Fault> {
        let mut fork = Self {
            id,
            turn: None,
            handed: None,
            created: now,
            ..self.clone()
        };
        if let Some(name) = checkpoint {
            fork.return_to(name)?;
        }
        Ok(fork)
    }

    /// An error while a turn runs.
    pub(super) fn still(&self, what: &str) -> Result<(), Fault> {
        if self.is_running() {
            let kind = FaultKind::Unavailable {
                retry_after: std::time::Duration::from_secs(1),
            };
            let problem = format_args!(
                "a turn of the session runs: {what} must wait, or DELETE its answer first"
            );
            return Err(Fault::new(kind, problem));
        }
        Ok(())
    }

    /// What its user is told of it; with all that was said if that is wanted.
    pub(super) fn told(&self, kept: bool, whole: bool) -> Json {
        let constraints = Json::parse(&self.opened).unwrap_or(Json::Null);
        let (kind, unit) = match &self.history {
            History::Empty => (Json::Null, "messages"),
            History::Chat(_) => ("chat".into(), "messages"),
            History::Text(_) => ("text".into(), "tokens"),
        };
        let state = if self.is_running() { "running" } else { "idle" };
        let checkpoints = self.checkpoints.iter().map(|(name, at)| {
            Json::object([("name", name.as_str().into()), ("length", (*at).into())])
        });
        let mut told = Json::object([
            ("id", self.id.as_str().into()),
            ("object", "session".into()),
            ("model", self.model.0.as_str().into()),
            ("uid", self.owner.into()),
            ("created", self.created.into()),
            ("state", state.into()),
            ("kept", if kept { "disk" } else { "memory" }.into()),
            ("kind", kind),
            ("length", self.history.len().into()),
            ("bytes", self.bytes().into()),
            ("opened", constraints),
            ("checkpoints", Json::array(checkpoints)),
        ]);
        if let Some(turn) = &self.turn {
            told.push("answer", turn.told());
        }
        if whole {
            match &self.history {
                History::Empty => {}
                History::Chat(messages) => told.push(unit, said(messages)),
                History::Text(tokens) => told.push(unit, tokens.clone()),
            }
        }
        told
    }

    /// The session as it is written down.
    pub(super) fn to_json(&self) -> Json {
        let (kind, tokens, messages) = match &self.history {
            History::Empty => ("empty", Vec::new(), Vec::new()),
            History::Chat(messages) => ("chat", Vec::new(), messages.clone()),
            History::Text(tokens) => ("text", tokens.clone(), Vec::new()),
        };
        let checkpoints = self.checkpoints.iter().map(|(name, at)| {
            Json::object([("name", name.as_str().into()), ("length", (*at).into())])
        });
        let opened = String::from_utf8_lossy(&self.opened).into_owned();
        let mut document = Json::object([
            ("owner", self.owner.into()),
            ("model", self.model.0.as_str().into()),
            ("digest", self.model.1.as_str().into()),
            ("opened", opened.into()),
            ("created", self.created.into()),
            ("kind", kind.into()),
            ("tokens", tokens.into()),
            ("checkpoints", Json::array(checkpoints)),
        ]);
        if let Some(turn) = &self.turn {
            document.push("turn", turn.to_json());
        }
        if let Some(handed) = &self.handed {
            let digits = handed.digest.iter().map(|byte| format!("{byte:02x}"));
            let handed = Json::object([
                ("digest", digits.collect::<String>().into()),
                ("uid", handed.uid.into()),
                ("until", handed.until.into()),
            ]);
            document.push("handed", handed);
        }
        kept_to_json(&Kept {
            id: self.id.clone(),
            document,
            messages,
            added: None,
        })
    }

    /// The session that JSON stands for; `None` if it stands for none.
    pub(super) fn from_json(id: &str, json: &Json) -> Option<Self> {
        let Kept {
            document, messages, ..
        } = kept_from_json(id, json)?;
        let text = |key: &str| document.get(key)?.as_str().map(str::to_owned);
        let opened = text("opened")?.into_bytes();
        let history = match document.get("kind")?.as_str()? {
            "empty" => History::Empty,
            "chat" => History::Chat(messages),
            "text" => {
                let tokens = document.get("tokens")?.as_array()?.iter();
                let tokens = tokens.map(|token| number(token).and_then(|n| n.try_into().ok()));
                History::Text(tokens.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let checkpoints = document.get("checkpoints")?.as_array()?.iter();
        let checkpoints = checkpoints.map(|one| {
            let at = usize::try_from(number(one.get("length")?)?).ok()?;
            let within = at <= history.len();
            within.then_some((one.get("name")?.as_str()?.to_owned(), at))
        });
        let turn = match document.get("turn") {
            Some(turn) => Some(Arc::new(Turn::from_json(turn)?)),
            None => None,
        };
        Some(Self {
            id: id.into(),
            owner: number(document.get("owner")?)?.try_into().ok()?,
            model: (text("model")?, text("digest")?),
            constraints: Arc::new(read_open(&opened).ok()?.constraints),
            opened,
            checkpoints: checkpoints.collect::<Option<_>>()?,
            history,
            turn,
            handed: document.get("handed").and_then(Handed::from_json),
            created: number(document.get("created")?)?,
            closed: false,
        })
    }
}

impl Handed {
    fn from_json(json: &Json) -> Option<Self> {
        let digits = json.get("digest")?.as_str()?;
        let mut digest = [0; 32];
        if digits.len() != 64 || !digits.is_ascii() {
            return None;
        }
        for (i, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * i..][..2], 16).ok()?;
        }
        Some(Self {
            digest,
            uid: number(json.get("uid")?)?.try_into().ok()?,
            until: number(json.get("until")?)?,
        })
    }
}

fn number(json: &Json) -> Option<u64> {
    json.text().parse().ok()
}

/// Messages as they are told: the items of `/v1/responses`.
fn said(messages: &[Message]) -> Json {
    let kept = kept_to_json(&Kept {
        messages: messages.to_vec(),
        ..Kept::default()
    });
    let list = |key: &str| {
        kept.get(key)
            .and_then(Json::as_array)
            .unwrap_or(&[])
            .to_vec()
    };
    Json::Array([list("given"), list("answer")].concat())
}

fn message_bytes(message: &Message) -> usize {
    use strata_chat::ContentPart;
    let parts = message.parts.iter().map(|part| match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Image(image) => image.bytes.len(),
        ContentPart::ImageUrl(image) => image.url.len(),
        ContentPart::Audio(audio) => audio.bytes.len(),
    });
    let calls = message.tool_calls.iter();
    let calls = calls.map(|call| call.name.len() + call.arguments.text().len());
    let thinking = message.thinking.as_ref().map_or(0, String::len);
    size_of::<Message>() + parts.sum::<usize>() + calls.sum::<usize>() + thinking
}
