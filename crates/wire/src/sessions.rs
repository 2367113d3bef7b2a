//! Sessions: conversations and texts that the server holds for a user of its own machine, over a local socket.
//!
//! `docs/sessions.md` has the routes. A turn's body is OpenAI's: that of a chat with `messages`, or that of a completion
//! with `prompt`; so is the answer.

use crate::answer::{AnswerWriter, Framing};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::llama_server;
use crate::openai;
use crate::request_fields::answer_format;
use crate::request_fields::chat::LastAnswer;
use crate::route::{Route, RouteRequest};
use crate::stamp::Stamp;
use crate::url::queried;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::json::Fields;
use strata_chat::{Constraints, Fault, FaultKind, Generate};
use strata_engine::{Limits, Privacy};

/// What a request about sessions asks for.
pub enum SessionCall {
    /// A new session.
    Open(Box<OpenSession>),
    /// The caller's sessions.
    List,
    /// One of them.
    Get(String),
    /// Drops one.
    Close(String),
    /// Goes on with one.
    Turn(Box<SessionTurn>),
    /// The answer to its latest turn, from a byte on.
    Answer(String, usize),
    /// Ends its turn.
    Cancel(String),
    /// Names the place where it is.
    Checkpoint(String, String),
    /// Goes back to a checkpoint.
    Return(String, String),
    /// Another session like it, as it is or as it was at a checkpoint.
    Fork(String, Option<String>),
    /// Makes a token with which another user takes it.
    Hand(String, Handover),
    /// Takes a session with such a token.
    Take(String),
}

/// What a new session is opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenSession {
    /// The model; the default one if not given.
    pub model: Option<String>,
    /// What its turns are held to.
    pub constraints: Constraints,
    /// The request's body, from which all this can be [read](read_open) again.
    pub body: Vec<u8>,
}

/// A turn of a session.
pub struct SessionTurn {
    /// The session.
    pub id: String,
    /// What is added to it, as a request.
    pub request: Box<Generate>,
    /// Who writes the answer.
    pub answer: Box<dyn AnswerWriter>,
    /// The request's body, from which all this can be [read](read_turn) again.
    pub body: Vec<u8>,
}

/// To whom a session is handed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The user.
    pub uid: u32,
    /// How long the token is good for.
    pub within: Duration,
}

/// The routes.
pub(crate) static DIALECT: Dialect = Dialect {
    name: "sessions",
    routes: &[
        Route::post("/sessions", "Opens a session.", |asked| {
            let open = Box::new(read_open(asked.body)?);
            Ok(Call::Session(SessionCall::Open(open)))
        }),
        Route::get("/sessions", "The user's sessions.", |_| {
            Ok(Call::Session(SessionCall::List))
        }),
        Route::get("/sessions/{id}", "A session.", |asked| {
            of(asked, SessionCall::Get)
        }),
        Route::delete("/sessions/{id}", "Drops a session.", |asked| {
            of(asked, SessionCall::Close)
        }),
        Route::post("/sessions/{id}/turns", "Goes on with a session.", turn)
            .streams(Framing::Events),
        Route::get(
            "/sessions/{id}/answer",
            "The answer to the latest turn, from a byte on.",
            answer,
        )
        .streams(Framing::Events),
        Route::delete("/sessions/{id}/answer", "Ends a turn.", |asked| {
            of(asked, SessionCall::Cancel)
        }),
        Route::post(
            "/sessions/{id}/checkpoints",
            "Names the place where a session is.",
            |asked| named(asked, "name", SessionCall::Checkpoint),
        ),
        Route::post(
            "/sessions/{id}/return",
            "Goes back to a checkpoint.",
            |asked| named(asked, "checkpoint", SessionCall::Return),
        ),
        Route::post("/sessions/{id}/fork", "Another session like it.", fork),
        Route::post(
            "/sessions/{id}/hand",
            "A token with which another user takes a session.",
            hand,
        ),
        Route::post("/sessions/take", "Takes a session with a token.", |asked| {
            let mut fields = Fields::parse(asked.body)?;
            let token = fields.string("token")?;
            fields.finish()?;
            Ok(Call::Session(SessionCall::Take(token)))
        }),
        Route::get("/usage", "What users have taken.", |_| Ok(Call::Usage)),
    ],
    prefix: Some("/sessions"),
    request_id: "x-request-id",
    fault: |fault, _| llama_server::fault(fault),
};

/// Reads what a session is opened with.
pub fn read_open(body: &[u8]) -> Result<OpenSession, Fault> {
    let mut fields = Fields::parse(body)?;
    let milliseconds = |fields: &mut Fields, name: &str| {
        let found = fields.maybe_integer(name, 1..=i64::from(u32::MAX))?;
        Ok::<_, Fault>(found.map(|number| Duration::from_millis(number as u64)))
    };
    let limits = Limits {
        deadline: milliseconds(&mut fields, "deadline_ms")?,
        first_token: milliseconds(&mut fields, "first_token_ms")?,
        per_token: milliseconds(&mut fields, "token_ms")?,
        memory: {
            let bytes = fields.maybe_integer("memory", 1..=i64::MAX)?;
            bytes.and_then(|bytes| usize::try_from(bytes).ok())
        },
    };
    let privacy = Privacy {
        never_to_disk: fields.maybe_boolean("never_to_disk")?.unwrap_or(false),
        never_off_machine: fields.maybe_boolean("never_off_machine")?.unwrap_or(false),
    };
    let open = OpenSession {
        model: fields.maybe_string("model")?,
        constraints: Constraints {
            limits,
            format: answer_format::read(&mut fields)?,
            privacy,
        },
        body: body.to_vec(),
    };
    fields.finish()?;
    Ok(open)
}

/// Reads a turn: what it adds to the session, and who writes its answer.
pub fn read_turn(
    body: &[u8],
    stamp: &Stamp,
) -> Result<(Box<Generate>, Box<dyn AnswerWriter>), Fault> {
    let fields = Fields::parse(body)?;
    let (chat, text) = (fields.peek("messages"), fields.peek("prompt"));
    if chat.is_some() == text.is_some() {
        let problem = "a turn has either messages, as a chat, or a prompt, as a completion";
        return Err(Fault::bad_request(problem));
    }
    if fields.peek("store") == Some(&true.into()) {
        let problem = format_args!("a session keeps its turns itself");
        return Err(Fault::field(&fields.at("store"), problem));
    }
    let call = if chat.is_some() {
        openai::chat(body, stamp, LastAnswer::Stands)?
    } else {
        openai::complete(body, stamp)?
    };
    match call {
        Call::Generate(request, answer) => Ok((request, answer)),
        _ => Err(Fault::new(
            FaultKind::Internal,
            "the turn asks for no answer",
        )),
    }
}

fn of(asked: &mut RouteRequest<'_>, call: fn(String) -> SessionCall) -> Result<Call, Fault> {
    Ok(Call::Session(call(asked.id.into())))
}

fn named(
    asked: &mut RouteRequest<'_>,
    field: &str,
    call: fn(String, String) -> SessionCall,
) -> Result<Call, Fault> {
    let mut fields = Fields::parse(asked.body)?;
    let name = checkpoint(&mut fields, field)?.ok_or_else(|| fields.missing(field))?;
    fields.finish()?;
    Ok(Call::Session(call(asked.id.into(), name)))
}

fn fork(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let body = if asked.body.is_empty() {
        b"{}"
    } else {
        asked.body
    };
    let mut fields = Fields::parse(body)?;
    let from = checkpoint(&mut fields, "checkpoint")?;
    fields.finish()?;
    Ok(Call::Session(SessionCall::Fork(asked.id.into(), from)))
}

/// The longest name of a checkpoint, in bytes.
const LONGEST_NAME: usize = 64;

fn checkpoint(fields: &mut Fields, field: &str) -> Result<Option<String>, Fault> {
    let name = fields.maybe_string(field)?;
    if let Some(name) = &name
        && (name.is_empty() || name.len() > LONGEST_NAME)
    {
        let problem = format_args!("must have from 1 to {LONGEST_NAME} bytes");
        return Err(Fault::field(&fields.at(field), problem));
    }
    Ok(name)
}

fn hand(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let mut fields = Fields::parse(asked.body)?;
    let uid = fields.maybe_integer("uid", 0..=i64::from(u32::MAX))?;
    let uid = uid.ok_or_else(|| fields.missing("uid"))? as u32;
    let seconds = fields.maybe_integer("seconds", 1..=86_400)?.unwrap_or(60);
    fields.finish()?;
    let within = Duration::from_secs(seconds as u64);
    let handover = Handover { uid, within };
    Ok(Call::Session(SessionCall::Hand(asked.id.into(), handover)))
}

fn turn(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let (request, answer) = read_turn(asked.body, asked.stamp)?;
    Ok(Call::Session(SessionCall::Turn(Box::new(SessionTurn {
        id: asked.id.into(),
        request,
        answer,
        body: asked.body.to_vec(),
    }))))
}

fn answer(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let from = match queried(asked.query, "from") {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            let problem = format_args!("from: {text:?} is not a number of bytes");
            Fault::bad_request(problem)
        })?,
    };
    Ok(Call::Session(SessionCall::Answer(asked.id.into(), from)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_chat::{Format, Prompt};

    #[test]
    fn a_session_is_opened_with_its_constraints() {
        let body = br#"{"model":"m","memory":4096,"first_token_ms":5,"token_ms":6,"deadline_ms":7,
            "response_format":{"type":"json_object"},"never_to_disk":true}"#;
        let open = read_open(body).unwrap();
        assert_eq!(open.model.as_deref(), Some("m"));
        let Limits {
            deadline,
            first_token,
            per_token,
            memory,
        } = open.constraints.limits;
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!((first_token, per_token, deadline), (ms(5), ms(6), ms(7)));
        assert_eq!(memory, Some(4096));
        assert_eq!(open.constraints.format, Format::JsonObject);
        let privacy = open.constraints.privacy;
        assert!(privacy.never_to_disk && !privacy.never_off_machine);
        for wrong in [
            r#"{"memory":0}"#,
            r#"{"memory":"4G"}"#,
            r#"{"deadline_ms":-1}"#,
            r#"{"never_to_disk":1}"#,
            r#"{"colour":"red"}"#,
            r#"{"grammar":"root ::= \"a\"","response_format":{"type":"json_object"}}"#,
            "[]",
            "",
        ] {
            assert!(read_open(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_turn_is_a_chat_or_a_completion() {
        let stamp = Stamp {
            id: "6e789e6aa1b965f4".into(),
            unix_seconds: 1,
            nanoseconds: 0,
        };
        let read = |body: &str| read_turn(body.as_bytes(), &stamp).map(|(request, _)| request);
        let chat = read(r#"{"messages":[{"role":"user","content":"a"}]}"#).unwrap();
        assert!(matches!(&chat.prompts[..], [Prompt::Chat(_)]));
        let text = read(r#"{"prompt":"a","stream":true}"#).unwrap();
        assert!(matches!(&text.prompts[..], [Prompt::Raw(_)]) && text.stream);
        for wrong in [
            "{}",
            r#"{"messages":[{"role":"user","content":"a"}],"prompt":"a"}"#,
            r#"{"messages":[{"role":"user","content":"a"}],"store":true}"#,
            r#"{"prompt":1.5}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
