//! What each call does.

use crate::access::Client;
use crate::body::ReplyBody;
use crate::embed;
use crate::generate::{generate, ready};
use crate::http::{Answered, answered, reply};
use crate::library::{Direction, ask, transfer};
use crate::manager::Lease;
use crate::state::Server;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_wire::call::{Call, ModelFacts, Slot};
use strata_wire::lang::{KeepAlive, Timings};
use strata_wire::route::{self, Dialect};
use strata_wire::{Fault, FaultKind, Reply, Stamp};

/// Does what a call asks for.
pub(crate) async fn answer(
    server: &Arc<Server>,
    client: &Client,
    call: Call,
    dialect: Dialect,
    stamp: &Stamp,
) -> Answered {
    match call {
        Call::Generate(request, answer) => generate(server, client, request, answer, stamp).await,
        Call::Pull(wanted, report) => {
            transfer(
                server.manager.models().clone(),
                wanted,
                Direction::Pull,
                report,
            )
            .await
        }
        Call::Push(wanted, report) => {
            transfer(
                server.manager.models().clone(),
                wanted,
                Direction::Push,
                report,
            )
            .await
        }
        Call::Front => reply(Reply::text("Ollama is running")),
        Call::Metrics => answered(
            200,
            "text/plain; version=0.0.4; charset=utf-8",
            ReplyBody::whole(crate::metrics::text(server)),
        ),
        call => {
            let made = quick(server, client, call, stamp).await;
            reply(made.unwrap_or_else(|fault| dialect.fault(&fault, stamp)))
        }
    }
}

/// Calls that end with one reply.
async fn quick(
    server: &Arc<Server>,
    client: &Client,
    call: Call,
    stamp: &Stamp,
) -> Result<Reply, Fault> {
    let lease = async |model: Option<&str>, keep_alive| -> Result<Lease, Fault> {
        let name = model.filter(|name| !name.is_empty());
        let lease = server.manager.lease(name, keep_alive).await?;
        client.allows(&lease.facts.name)?;
        Ok(lease)
    };
    Ok(match call {
        Call::Embed(request, write) => {
            let lease = lease(Some(&request.model), request.keep_alive).await?;
            write(&embed::embed(client, &lease, &request).await?)
        }
        Call::Rerank(request, write) => {
            let lease = lease(Some(&request.model), None).await?;
            write(&embed::rerank(client, &lease, &request).await?)
        }
        Call::Tokenize(request, write) => {
            let lease = lease(request.model.as_deref(), None).await?;
            write(&lease.worker.card.tokenize(&request))
        }
        Call::Detokenize(request, write) => {
            let lease = lease(request.model.as_deref(), None).await?;
            write(&lease.worker.card.detokenize(&request)?)
        }
        Call::Render(request, write) => {
            let lease = lease(Some(&request.model), request.keep_alive).await?;
            let prepared = ready(server, &lease, &request, stamp).await?;
            write(&prepared.rendered())
        }
        Call::Models(write) => write(&allowed(client, server.manager.models().list())),
        Call::Model(name, write) => {
            let facts = server.manager.models().find(name.as_deref())?;
            client.allows(&facts.name)?;
            write(&facts)
        }
        Call::ModelInFull(name, write) => {
            let facts = server.manager.models().find_in_full(&name)?;
            client.allows(&facts.name)?;
            write(&facts)
        }
        Call::Loaded(write) => write(&server.manager.loaded()),
        Call::Load(load, write) => {
            let start = Instant::now();
            let facts = server.manager.models().find(Some(&load.model))?;
            client.allows(&facts.name)?;
            let timings = match load.keep_alive {
                Some(KeepAlive::For(Duration::ZERO)) => {
                    server.manager.unload(&facts.name);
                    Timings::default()
                }
                keep_alive => {
                    let lease = lease(Some(&load.model), keep_alive).await?;
                    Timings {
                        total: start.elapsed(),
                        load: lease.waited,
                        ..Timings::default()
                    }
                }
            };
            write(&timings)
        }
        Call::Slots(write) => write(&slots(server)),
        Call::Adapters(write) => {
            let lease = lease(None, None).await?;
            write(&lease.worker.adapters.facts())
        }
        Call::ScaleAdapters(given, write) => {
            let lease = lease(None, None).await?;
            lease.worker.adapters.scale(&given)?;
            write(&())
        }
        Call::Copy(copying, write) => {
            let models = server.manager.models().clone();
            ask(models, move |library| library.copy(&copying)).await?;
            write(&())
        }
        Call::Delete(name, write) => {
            client.allows(&name)?;
            server.manager.unload(&name);
            let models = server.manager.models().clone();
            ask(models, move |library| library.delete(&name)).await?;
            write(&())
        }
        Call::BlobExists(digest, write) => {
            let models = server.manager.models().clone();
            write(&ask(models, move |library| library.has_blob(&digest)).await?)
        }
        Call::Stored(stored, write) => {
            let document = server.responses().act(&client.owner(), &stored)?;
            write(&document)
        }
        Call::Health => Reply::json(&strata_wire::json::Json::object([("status", "ok".into())])),
        Call::Ready => {
            if server.is_draining() {
                let kind = FaultKind::Unavailable {
                    retry_after: Duration::from_secs(5),
                };
                return Err(Fault::new(kind, "the server is shutting down"));
            }
            Reply::json(&strata_wire::json::Json::object([(
                "status",
                "ready".into(),
            )]))
        }
        Call::OpenApi => Reply::json(&route::openapi()),
        Call::Reply(reply) => reply,
        _ => {
            let message = "this server cannot do that yet";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
    })
}

fn allowed(client: &Client, list: Vec<ModelFacts>) -> Vec<ModelFacts> {
    let visible = |facts: &ModelFacts| client.allows(&facts.name).is_ok();
    list.into_iter().filter(visible).collect()
}

/// One slot for each text that runs or could: the engine has no fixed places, so they are numbered as clients expect.
fn slots(server: &Server) -> Vec<Slot> {
    let mut list = Vec::new();
    for (_, worker) in server.manager.workers() {
        let counters = worker.counters();
        let places = counters.running.max(worker.slots);
        list.extend((0..places).map(|i| Slot {
            id: i,
            busy: i < counters.running,
            context: worker.card.context,
            ..Slot::default()
        }));
    }
    list
}
