//! What each call does.

use crate::access::Client;
use crate::embed;
use crate::generate::{generate, ready};
use crate::http::{Answered, Caller, reply, shutting_down};
use crate::lessons;
use crate::library::{Work, ask, perform};
use crate::manager::Lease;
use crate::sessions;
use crate::state::Server;
use crate::transcribe::transcribe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata::PeerState;
use strata::slots::Slots;
use strata_chat::json::Json;
use strata_chat::{
    Embed, Fault, FaultKind, Generate, KeepAlive, ModelFacts, Slot, SlotAction, SlotOutcome,
    Timings,
};
use strata_engine::{ClientId, Engine};
use strata_wire::call::{Call, Create};
use strata_wire::{Dialect, Reply, Role};

/// Does what a call asks for.
pub(crate) async fn answer(
    server: &Arc<Server>,
    caller: &Caller,
    call: Call,
    dialect: &Dialect,
) -> Answered {
    let client = &caller.client;
    match call {
        Call::Generate(request, answer) => generate(server, caller, request, answer).await,
        Call::Transcribe(request, writer) => transcribe(server, caller, *request, writer).await,
        Call::Pull(wanted, report) => match client.allows(&wanted.model) {
            Ok(()) => perform(server, Work::Pull(wanted), report).await,
            Err(fault) => reply(report.fault(&fault)),
        },
        Call::Push(wanted, report) => match client.allows(&wanted.model) {
            Ok(()) => perform(server, Work::Push(wanted), report).await,
            Err(fault) => reply(report.fault(&fault)),
        },
        Call::Create(create, report) => match allows_create(client, &create) {
            Ok(()) => perform(server, Work::Create(create), report).await,
            Err(fault) => reply(report.fault(&fault)),
        },
        Call::Session(wanted) => {
            let made = sessions::answer(server, caller, wanted).await;
            made.unwrap_or_else(|fault| reply(dialect.fault(&fault, &caller.stamp)))
        }
        call => {
            let made = quick(server, caller, call).await;
            reply(made.unwrap_or_else(|fault| dialect.fault(&fault, &caller.stamp)))
        }
    }
}

/// Calls that end with one reply.
async fn quick(server: &Arc<Server>, caller: &Caller, call: Call) -> Result<Reply, Fault> {
    let Caller { client, stamp, .. } = caller;
    let (pool, effort) = (&server.preparation, caller.large.effort());
    let lease_with = async |model: Option<&str>, keep_alive, context| {
        lease(server, caller, model, (keep_alive, context)).await
    };
    let lease = async |model: Option<&str>, keep_alive| lease_with(model, keep_alive, None).await;
    Ok(match call {
        Call::Embed(request, write) => {
            let Embed {
                keep_alive,
                context,
                ..
            } = request;
            let lease = lease_with(Some(&request.model), keep_alive, context).await?;
            write(&embed::embed(server, caller, &lease, request).await?)
        }
        Call::Rerank(request, write) => {
            let lease = lease(Some(&request.model), None).await?;
            write(&embed::rerank(server, caller, &lease, request).await?)
        }
        Call::Tokenize(request, write) => {
            let lease = lease(request.model.as_deref(), None).await?;
            let profile = Arc::clone(lease.served.model.profile());
            pool.run(effort, move || Ok(write(&profile.tokenize(&request)?)))
                .await?
        }
        Call::Detokenize(request, write) => {
            let lease = lease(request.model.as_deref(), None).await?;
            let profile = Arc::clone(lease.served.model.profile());
            pool.run(effort, move || Ok(write(&profile.detokenize(&request)?)))
                .await?
        }
        Call::Tokenizer(write) => {
            let lease = lease(None, None).await?;
            let template = lease.facts.template.clone();
            write(&lease.served.model.profile().tokenizer_facts(template))
        }
        Call::Render(request, write) => {
            let Generate {
                keep_alive,
                context,
                ..
            } = *request;
            let lease = lease_with(Some(&request.model), keep_alive, context).await?;
            let (_, prepared) = ready(server, caller, &lease, request).await?;
            write(&prepared.rendered())
        }
        Call::RenderEach(request, write) => {
            let wanted = (request.keep_alive, request.context);
            let lease = lease_with(Some(&request.model), wanted.0, wanted.1).await?;
            let (_, prepared) = ready(server, caller, &lease, request).await?;
            write(&prepared.prompts)
        }
        Call::Models(write) => {
            let models = Arc::clone(server.manager.models());
            write(&allowed(
                client,
                pool.run(effort, move || Ok(models.list())).await?,
            ))
        }
        Call::Model(name, write) => write(&model_facts(server, client, name.as_deref())?),
        Call::ModelInFull(name, write) => {
            model_facts(server, client, Some(&name))?;
            let models = Arc::clone(server.manager.models());
            write(&pool.run(effort, move || models.find_in_full(&name)).await?)
        }
        Call::Loaded(write) => {
            let mut loaded = server.manager.loaded();
            loaded.retain(|model| client.allows(&model.facts.name).is_ok());
            write(&loaded)
        }
        Call::Load(load, write) => {
            let start = Instant::now();
            let facts = model_facts(server, client, Some(&load.model))?;
            let timings = match load.keep_alive {
                Some(KeepAlive::For(Duration::ZERO)) => {
                    // Others may use it.
                    client.may_act_as(Role::Administrator)?;
                    server.manager.unload(&facts.name);
                    Timings::default()
                }
                keep_alive => {
                    let lease = lease_with(Some(&load.model), keep_alive, load.context);
                    let lease = lease.await?;
                    Timings {
                        total: start.elapsed(),
                        load: lease.waited,
                        ..Timings::default()
                    }
                }
            };
            write(&timings)
        }
        Call::Slots(write) => write(&slots(server, client)),
        Call::SlotAction(action, write) => {
            let lease = lease(None, None).await?;
            write(&act_on_slot(server, caller, &lease, action).await?)
        }
        Call::Adapters(write) => {
            let lease = lease(None, None).await?;
            write(&lease.served.model.worker().adapters().facts())
        }
        Call::ScaleAdapters(given, write) => {
            let lease = lease(None, None).await?;
            lease.served.model.worker().adapters().scale(&given)?;
            write(&())
        }
        Call::Copy(copying, write) => {
            client.allows(&copying.source)?;
            client.allows(&copying.destination)?;
            let models = server.manager.models().clone();
            let name = copying.destination.clone();
            ask(models, move |library| library.copy(&copying)).await?;
            server.manager.forget(&name);
            write(&())
        }
        Call::Delete(name, write) => {
            client.allows(&name)?;
            server.manager.forget(&name);
            let models = server.manager.models().clone();
            ask(models, move |library| library.delete(&name)).await?;
            write(&())
        }
        Call::BlobExists(digest, write) => {
            let models = server.manager.models().clone();
            write(&ask(models, move |library| library.has_blob(&digest)).await?)
        }
        Call::Stored(stored, write) => {
            let document = server.stored().act(&client.owner(), &stored)?;
            write(&document)
        }
        Call::Conversation(wanted, write) => {
            let new = (stamp.id.as_str(), stamp.unix_seconds);
            let document = server.stored().converse(&client.owner(), &wanted, new)?;
            write(&document)
        }
        Call::Lesson(lesson, write) => {
            let lease = lease(lesson.model(), None).await?;
            write(&lessons::answer(server, caller, &lease, lesson).await?)
        }
        Call::Usage => Reply::json(&sessions::usage(server, client).await),
        Call::Ready if server.is_draining() => return Err(shutting_down()),
        Call::Ready if server.relay.as_ref().is_some_and(|relay| !relay.is_ready()) => {
            let retry_after = Duration::from_secs(1);
            let kind = FaultKind::Unavailable { retry_after };
            return Err(Fault::new(kind, "no replica takes requests"));
        }
        Call::Ready => match server.manager.peers().into_iter().find_map(lost) {
            Some(fault) => return Err(fault),
            None => Reply::health("ready"),
        },
        Call::Health => match server.manager.peers() {
            peers if peers.is_empty() => Reply::health("ok"),
            peers => Reply::json(&Json::object([
                ("status", "ok".into()),
                ("peers", Json::array(peers.iter().map(peer))),
            ])),
        },
        Call::Metrics => crate::metrics::reply(server, client),
        call => {
            let unknown = "this server cannot do that yet";
            let unknown = |_| Fault::new(FaultKind::Unsupported, unknown);
            call.reply().map_err(unknown)?
        }
    })
}

/// How a machine stands that has some of a model's layers. Everyone may ask, so its address is not told.
fn peer(state: &PeerState) -> Json {
    let error = state.fault.as_deref().map_or(Json::Null, Json::from);
    Json::object([
        ("first_layer", state.layers.start.into()),
        ("layers", state.layers.len().into()),
        ("reachable", state.fault.is_none().into()),
        ("error", error),
    ])
}

/// Why no request can be answered, if that is so.
fn lost(state: PeerState) -> Option<Fault> {
    let retry_after = Duration::from_secs(2);
    let (first, last) = (state.layers.start, state.layers.end.saturating_sub(1));
    let fault = state.fault?;
    let sentence =
        format_args!("the peer with layers {first} to {last} cannot be reached: {fault}");
    Some(Fault::new(FaultKind::Unavailable { retry_after }, sentence))
}

/// Both the model to make and the one that it is made of.
fn allows_create(client: &Client, create: &Create) -> Result<(), Fault> {
    client.allows(&create.model)?;
    create
        .from
        .as_deref()
        .map_or(Ok(()), |from| client.allows(from))
}

/// The use of the model that a request names, or of the one that answers where it names none or one that nobody knows.
pub(crate) async fn lease(
    server: &Server,
    caller: &Caller,
    model: Option<&str>,
    (keep_alive, context): (Option<KeepAlive>, Option<usize>),
) -> Result<Lease, Fault> {
    let name = model.filter(|name| !name.is_empty());
    // A model that the client may not use is not loaded either.
    let found = match model_facts(server, &caller.client, name) {
        Err(fault) if caller.any_model && fault.field.as_deref() == Some("model") => {
            model_facts(server, &caller.client, None)
        }
        found => found,
    };
    let name = found?.name;
    let lease = server
        .manager
        .lease(Some(&name), keep_alive, context)
        .await?;
    caller.observed.model(&lease.facts.name);
    Ok(lease)
}

/// A model that a client may use. Of others it does not even learn whether they are there.
pub(crate) fn model_facts(
    server: &Server,
    client: &Client,
    name: Option<&str>,
) -> Result<ModelFacts, Fault> {
    let found = server.manager.models().find(name);
    if let (Some(name), Err(_)) = (name, &found) {
        client.allows(name)?;
    }
    let facts = found?;
    client.allows(&facts.name)?;
    Ok(facts)
}

fn allowed(client: &Client, list: Vec<ModelFacts>) -> Vec<ModelFacts> {
    let visible = |facts: &ModelFacts| client.allows(&facts.name).is_ok();
    list.into_iter().filter(visible).collect()
}

/// The slots of all engines; those of the first come first, and requests that name no model mean these.
fn slots(server: &Server, client: &Client) -> Vec<Slot> {
    let serving = server.manager.serving();
    let visible = |name: &str| client.allows(name).is_ok();
    serving
        .iter()
        .filter(|(name, _)| visible(name))
        .flat_map(|(_, served)| served.slots().list())
        .collect()
}

/// Saves, restores or erases a slot of the model.
async fn act_on_slot(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    action: SlotAction,
) -> Result<SlotOutcome, Fault> {
    let start = Instant::now();
    let owner = caller.client.number;
    let of = move |slot| (slot, ClientId(owner));
    let served = &lease.served;
    let folder = || {
        let problem = "slots are not saved: the server was started without --slot-save-path";
        let folder = server.settings.slots.clone();
        folder.ok_or_else(|| Fault::new(FaultKind::Unsupported, problem))
    };
    let (tokens, bytes) = match action {
        SlotAction::Erase { slot } => {
            let erased = served.with_slot(move |slots, engine| slots.erase(engine, of(slot)));
            (erased.await.ok_or_else(Fault::unloaded)??, 0)
        }
        SlotAction::Save { slot, file } => {
            let folder = folder()?;
            let save = move |slots: &mut Slots, engine: &mut Engine| {
                slots.save(engine, of(slot), usize::MAX)
            };
            let saved = served.with_slot(save);
            let (bytes, tokens) = saved.await.ok_or_else(Fault::unloaded)??;
            let length = bytes.len();
            blocking(move || folder.write(owner, &file, &bytes)).await?;
            (tokens, length)
        }
        SlotAction::Restore { slot, file } => {
            let folder = folder()?;
            let bytes = blocking(move || folder.read(owner, &file)).await?;
            let length = bytes.len();
            let put = move |slots: &mut Slots, engine: &mut Engine| {
                slots.restore(engine, of(slot), &bytes)
            };
            (
                served.with_slot(put).await.ok_or_else(Fault::unloaded)??,
                length,
            )
        }
    };
    Ok(SlotOutcome {
        tokens,
        bytes: bytes as u64,
        timings: Timings {
            total: start.elapsed(),
            ..Timings::default()
        },
    })
}

/// Works with files on a thread that may wait for them.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        let message = "the file could not be worked with";
        Err(Fault::new(FaultKind::Internal, message))
    })
}
