//! Embeddings and rankings.

use crate::http::Caller;
use crate::manager::Lease;
use std::future::poll_fn;
use std::time::Instant;
use strata::worker::RequestHandle;
use strata::{finish_embed, finish_rerank, take};
use strata_chat::{Embed, Embeddings, Fault, Ranking, Rerank, Timings};

/// Embeds texts.
pub(crate) async fn embed(
    caller: &Caller,
    lease: &Lease,
    request: &Embed,
) -> Result<Embeddings, Fault> {
    let start = Instant::now();
    let model = &lease.served.model;
    let vectors = model.start_embed(request, caller.client.number)?;
    let (running, lengths) = (vectors.running, vectors.lengths);
    let profile = model.profile();
    let embeddings = finish_embed(request, profile, &wait(running).await?, &lengths)?;
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
    caller: &Caller,
    lease: &Lease,
    request: &Rerank,
) -> Result<Ranking, Fault> {
    let model = &lease.served.model;
    let vectors = model.start_rerank(request, caller.client.number)?;
    let tokens = vectors.tokens();
    let scores = wait(vectors.running).await?;
    caller.observed.embedded(tokens);
    Ok(Ranking {
        model: name(&request.model, lease),
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
