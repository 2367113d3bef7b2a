//! Embeddings and rankings.

use crate::http::Caller;
use crate::manager::Lease;
use crate::state::Server;
use std::future::poll_fn;
use std::time::Instant;
use strata::worker::RequestHandle;
use strata::{finish_embed, finish_rerank, take};
use strata_chat::{Embed, Embeddings, Fault, Ranking, Rerank, Timings};

/// Embeds texts.
pub(crate) async fn embed(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    request: Embed,
) -> Result<Embeddings, Fault> {
    let start = Instant::now();
    let model = &lease.served.model;
    let (starter, client) = (model.clone(), caller.client.number);
    let start_all = move || {
        let vectors = starter.start_embed(&request, client)?;
        Ok((vectors, request))
    };
    let effort = caller.large.effort();
    let (vectors, request) = server.preparation.run(effort, start_all).await?;
    caller.large.release();
    let (running, lengths) = (vectors.running, vectors.lengths);
    let profile = model.profile();
    let embeddings = finish_embed(&request, profile, &wait(running).await?, &lengths)?;
    caller.observed.embedded(embeddings.tokens);
    Ok(Embeddings {
        model: name(&request.model, lease),
        timings: Timings {
            total: start.elapsed() + lease.waited,
            load: lease.waited,
            prompt: start.elapsed(),
            ..Timings::default()
        },
        ..embeddings
    })
}

/// Scores documents against a query.
pub(crate) async fn rerank(
    server: &Server,
    caller: &Caller,
    lease: &Lease,
    request: Rerank,
) -> Result<Ranking, Fault> {
    let (model, client) = (lease.served.model.clone(), caller.client.number);
    let name = name(&request.model, lease);
    let start_all = move || model.start_rerank(&request, client);
    let vectors = server
        .preparation
        .run(caller.large.effort(), start_all)
        .await?;
    caller.large.release();
    let tokens = vectors.tokens();
    let scores = wait(vectors.running).await?;
    caller.observed.embedded(tokens);
    Ok(Ranking {
        model: name,
        ..finish_rerank(scores, tokens)
    })
}

/// The model as the request calls it, or as it is called where the request does not say.
fn name(asked: &str, lease: &Lease) -> String {
    let name = if asked.is_empty() {
        &lease.facts.name
    } else {
        asked
    };
    name.into()
}

/// Waits for the vectors of texts, in order.
async fn wait(runs: Vec<RequestHandle>) -> Result<Vec<Vec<f32>>, Fault> {
    let mut rows = Vec::new();
    for mut running in runs {
        let mut values = Vec::new();
        loop {
            let heard = poll_fn(|context| running.poll_next(context)).await;
            if take(heard.ok_or_else(Fault::unloaded)?, &mut values)? {
                break;
            }
        }
        running.end();
        rows.push(values);
    }
    Ok(rows)
}
