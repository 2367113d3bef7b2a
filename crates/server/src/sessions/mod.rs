//! Sessions of users of this machine, who are known by their sockets: conversations and texts that are gone on with, named,
//! forked, handed over, and that outlive their clients and, with a folder, the server.

mod session;
mod table;
mod turn;

pub use table::SessionSettings;
pub(crate) use table::Sessions;

use crate::access::Client;
use crate::call::model_facts;
use crate::http::{Answered, Caller, reply};
use crate::observation::Observation;
use crate::state::Server;
use session::{Handed, Session};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};
use strata_engine::ClientId;
use strata_platform::Sha256;
use strata_wire::Reply;
use strata_wire::Role;
use strata_wire::sessions::{Handover, OpenSession, SessionCall, SessionTurn};
use table::{Shared, failed, lock};
use turn::Turn;

/// Checkpoints of a session at most.
const CHECKPOINTS: usize = 64;

/// Does what a request about sessions asks for.
pub(crate) async fn answer(
    server: &Arc<Server>,
    caller: &Caller,
    call: SessionCall,
) -> Result<Answered, Fault> {
    let Some(uid) = caller.client.uid else {
        let problem =
            "sessions are for users of this machine, over the socket of `strata serve --socket`";
        return Err(Fault::new(FaultKind::Unsupported, problem));
    };
    if server.relay.is_some() {
        let problem = "a relay has no sessions: they live on the machine that computes them";
        return Err(Fault::new(FaultKind::Unsupported, problem));
    }
    bring_back(server, caller, uid);
    let sessions = &server.sessions;
    let told = |session: &Shared, whole| {
        let session = lock(session);
        reply(Reply::json(&session.told(sessions.keeps(&session), whole)))
    };
    Ok(match call {
        SessionCall::Open(open) => {
            let session = self::open(server, caller, uid, *open)?;
            let session = lock(&session);
            let document = session.told(sessions.keeps(&session), false);
            reply(Reply::with_status(201, &document))
        }
        SessionCall::List => {
            let all = sessions.of(uid);
            let all = all.iter().map(|session| {
                let session = lock(session);
                session.told(sessions.keeps(&session), false)
            });
            let list = [("object", "list".into()), ("data", Json::array(all))];
            reply(Reply::json(&Json::object(list)))
        }
        SessionCall::Get(id) => told(&sessions.get(uid, &id)?, true),
        SessionCall::Close(id) => {
            let session = sessions.remove(uid, &id)?;
            let turn = lock(&session).turn.take();
            if let Some(turn) = turn {
                turn.cancel();
            }
            let document = [
                ("id", id.into()),
                ("object", "session.deleted".into()),
                ("deleted", true.into()),
            ];
            reply(Reply::json(&Json::object(document)))
        }
        SessionCall::Turn(turn) => begin(server, caller, uid, *turn)?.follow(0).await,
        SessionCall::Answer(id, from) => {
            let turn = lock(&sessions.get(uid, &id)?).turn.clone();
            let none = || Fault::new(FaultKind::NotFound, "the session has no answer yet");
            turn.ok_or_else(none)?.follow(from).await
        }
        SessionCall::Cancel(id) => {
            let session = sessions.get(uid, &id)?;
            let turn = lock(&session).turn.clone();
            if turn.is_some_and(|turn| turn.cancel()) {
                sessions.write(&lock(&session)).map_err(|e| failed(&e))?;
            }
            told(&session, false)
        }
        SessionCall::Checkpoint(id, name) => {
            change(server, uid, &id, |session| {
                session.checkpoint(&name, CHECKPOINTS)
            })?;
            told(&sessions.get(uid, &id)?, false)
        }
        SessionCall::Return(id, name) => {
            change(server, uid, &id, |session| session.return_to(&name))?;
            told(&sessions.get(uid, &id)?, false)
        }
        SessionCall::Fork(id, from) => {
            let original = sessions.get(uid, &id)?;
            let fork = lock(&original).fork(new_id()?, from.as_deref(), now())?;
            let fork = sessions.add(fork)?;
            let fork = lock(&fork);
            let document = fork.told(sessions.keeps(&fork), false);
            reply(Reply::with_status(201, &document))
        }
        SessionCall::Hand(id, to) => reply(Reply::json(&hand(server, uid, &id, to)?)),
        SessionCall::Take(token) => told(&take(server, caller, uid, &token)?, false),
    })
}

/// Brings a user's sessions back after a restart; turns that it cut off are computed anew.
fn bring_back(server: &Arc<Server>, caller: &Caller, uid: u32) {
    let came = tokio::task::block_in_place(|| server.sessions.recall(uid));
    for session in came {
        let turn = {
            let session = lock(&session);
            session.turn.clone().filter(|_| session.is_running())
        };
        if let Some(turn) = turn {
            let mut again = caller.clone();
            again.client = server.settings.access.user(uid);
            again.stamp = turn.stamp.clone();
            let asked = ("POST", "/sessions/{id}/turns");
            again.observed = Observation::new(&server.observer, &turn.stamp.id, asked, None);
            again.observed.client(again.client.name.as_deref());
            turn::start(server, again, &session, &turn);
        }
    }
}

fn open(
    server: &Arc<Server>,
    caller: &Caller,
    uid: u32,
    open: OpenSession,
) -> Result<Shared, Fault> {
    let privacy = open.constraints.privacy;
    if privacy.never_off_machine && server.manager.models().leaves_machine() {
        let problem = "never_off_machine: this server's models are computed on other machines too";
        return Err(Fault::new(FaultKind::Unsupported, problem));
    }
    let facts = model_facts(server, &caller.client, open.model.as_deref())?;
    server.sessions.add(Session::new(
        (new_id()?, uid),
        (facts.name, facts.digest),
        (open.body, open.constraints),
        now(),
    ))
}

/// Begins a turn, which from then on is part of the session.
fn begin(
    server: &Arc<Server>,
    caller: &Caller,
    uid: u32,
    asked: SessionTurn,
) -> Result<Arc<Turn>, Fault> {
    let sessions = &server.sessions;
    let shared = sessions.get(uid, &asked.id)?;
    sessions.check_bytes(uid, asked.body.len())?;
    let mut request = asked.request;
    let (name, digest) = lock(&shared).model.clone();
    let facts = model_facts(server, &caller.client, Some(&name))?;
    if facts.digest != digest {
        let problem = format_args!("the session is with another {name:?} than the server has now");
        return Err(Fault::bad_request(problem));
    }
    let mut session = lock(&shared);
    session.still("the next one")?;
    session.join(&mut request)?;
    let framing = asked.answer.framing();
    let turn = Arc::new(Turn::new(asked.body, caller.stamp.clone(), framing));
    let before = session.turn.replace(Arc::clone(&turn));
    let written = tokio::task::block_in_place(|| sessions.write(&session));
    if let Err(error) = written {
        session.turn = before;
        return Err(failed(&error));
    }
    drop(session);
    turn::start(server, caller.clone(), &shared, &turn);
    Ok(turn)
}

/// Changes a session and writes it down.
fn change(
    server: &Server,
    uid: u32,
    id: &str,
    change: impl FnOnce(&mut Session) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let shared = server.sessions.get(uid, id)?;
    let mut session = lock(&shared);
    change(&mut session)?;
    let written = tokio::task::block_in_place(|| server.sessions.write(&session));
    written.map_err(|error| failed(&error))
}

/// A token with which another user, and nobody else, takes a session. It stands in place of any that was given out before.
fn hand(server: &Server, uid: u32, id: &str, to: Handover) -> Result<Json, Fault> {
    let secret = random()?;
    let until = now() + to.within.as_secs();
    change(server, uid, id, |session| {
        session.handed = Some(Handed {
            digest: Sha256::digest(secret.as_bytes()),
            uid: to.uid,
            until,
        });
        Ok(())
    })?;
    Ok(Json::object([
        ("object", "session.token".into()),
        ("token", format!("{uid}.{id}.{secret}").into()),
        ("uid", to.uid.into()),
        ("expires", until.into()),
    ]))
}

/// Gives a session to the user that its token is for.
fn take(server: &Arc<Server>, caller: &Caller, uid: u32, token: &str) -> Result<Shared, Fault> {
    // Whatever is wrong: whoever tries tokens learns nothing.
    let wrong = || {
        let problem = "the token is not one with which you can take a session now";
        Fault::new(FaultKind::NotFound, problem)
    };
    let mut parts = token.splitn(3, '.');
    let mut part = || parts.next().ok_or_else(wrong);
    let owner: u32 = part()?.parse().map_err(|_| wrong())?;
    let (id, secret) = (part()?, part()?);
    bring_back(server, caller, owner);
    let shared = server.sessions.get(owner, id).map_err(|_| wrong())?;
    let mut taken = lock(&shared).clone();
    let digest: [u8; 32] = Sha256::digest(secret.as_bytes());
    let fits =
        |handed: &Handed| handed.digest == digest && handed.uid == uid && now() <= handed.until;
    if !taken.handed.as_ref().is_some_and(fits) {
        return Err(wrong());
    }
    taken.still("taking it")?;
    caller.client.allows(&taken.model.0)?;
    taken.owner = uid;
    taken.handed = None;
    if owner == uid {
        *lock(&shared) = taken;
        return Ok(shared);
    }
    let taken = server.sessions.add(taken)?;
    // Of two who come at once, one finds it gone.
    if server.sessions.remove(owner, id).is_err() {
        let _ = server.sessions.remove(uid, id);
        return Err(wrong());
    }
    Ok(taken)
}

/// What users have taken since the server started: all of them for an administrator, and oneself for others.
pub(crate) async fn usage(server: &Arc<Server>, client: &Client) -> Json {
    let mut accounts = server.accounts.all();
    let own = client.name.clone().unwrap_or_default();
    accounts.entry(own.clone()).or_default().number = client.number;
    if client.may_act_as(Role::Administrator).is_err() {
        accounts.retain(|name, _| *name == own);
    }
    let numbers: Vec<ClientId> = accounts.values().map(|a| ClientId(a.number)).collect();
    let mut memory = vec![0; numbers.len()];
    for (_, served) in server.manager.serving() {
        let numbers = numbers.clone();
        let kept = served.with_slot(move |_, engine| {
            let kept = numbers.into_iter().map(|number| engine.kept_bytes(number));
            kept.collect::<Vec<usize>>()
        });
        let kept = kept.await.unwrap_or_default();
        memory
            .iter_mut()
            .zip(kept)
            .for_each(|(all, one)| *all += one);
    }
    let users: BTreeMap<String, u32> = accounts
        .keys()
        .filter_map(|name| {
            let uid = name.strip_prefix(Client::USER)?;
            Some((name.clone(), uid.parse().ok()?))
        })
        .collect();
    let lines = accounts
        .iter()
        .zip(memory)
        .map(|((name, account), memory)| {
            let uid = users.get(name).copied();
            let (sessions, bytes) = uid.map_or((0, 0), |uid| server.sessions.held(uid));
            Json::object([
                ("user", name.as_str().into()),
                ("uid", uid.into()),
                ("sessions", sessions.into()),
                ("session_bytes", bytes.into()),
                ("requests", account.requests.into()),
                ("prompt_tokens", account.prompt_tokens.into()),
                ("cached_tokens", account.cached_tokens.into()),
                ("completion_tokens", account.generated_tokens.into()),
                ("seconds", account.seconds.into()),
                ("cache_bytes", memory.into()),
            ])
        });
    Json::object([
        ("object", "usage".into()),
        ("seconds", server.started.elapsed().as_secs_f64().into()),
        ("users", Json::array(lines)),
    ])
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn new_id() -> Result<String, Fault> {
    random()
}

/// 128 bits that nobody can guess, in hexadecimal.
fn random() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    strata_host::fill_random(&mut bytes).map_err(|error| failed(&error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
