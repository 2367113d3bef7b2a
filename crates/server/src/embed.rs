//! Embeddings and rankings: each text is a request of its own to the engine, so they share its batches.

use crate::generate::gone;
use crate::http::Caller;
use crate::manager::Lease;
use std::time::Instant;
use strata_chat::{Embed, Embeddings, Fault, FaultKind, Ranking, Rerank, Timings, refusal};
use strata_engine::{ClientId, EventKind, Request};

/// Embeds texts.
pub(crate) async fn embed(
    caller: &Caller,
    lease: &Lease,
    request: &Embed,
) -> Result<Embeddings, Fault> {
    let start = Instant::now();
    let requests = request.prepare(&lease.worker.profile)?;
    let tokens = requests.iter().map(|request| request.prompt.len()).sum();
    let mut rows = Vec::new();
    for vector in run(caller, lease, requests).await? {
        rows.push(vec![request.finish(vector)?]);
    }
    caller.observed.embedded(tokens);
    Ok(Embeddings {
        rows,
        tokens,
        timings: Timings {
            total: start.elapsed() + lease.waited,
            load: lease.waited,
            prompt: start.elapsed(),
            ..Timings::default()
        },
    })
}

/// Scores documents against a query.
pub(crate) async fn rerank(
    caller: &Caller,
    lease: &Lease,
    request: &Rerank,
) -> Result<Ranking, Fault> {
    let requests = request.prepare(&lease.worker.profile);
    let tokens = requests.iter().map(|request| request.prompt.len()).sum();
    let scores = run(caller, lease, requests).await?;
    caller.observed.embedded(tokens);
    let scores = scores
        .into_iter()
        .map(|values| values.first().copied().unwrap_or(0.0));
    Ok(Ranking {
        scores: scores.collect(),
        tokens,
    })
}

/// Runs texts side by side and gives their vectors in order.
async fn run(
    caller: &Caller,
    lease: &Lease,
    requests: Vec<Request>,
) -> Result<Vec<Vec<f32>>, Fault> {
    let mut running = Vec::new();
    for mut request in requests {
        request.client = ClientId(caller.client.number);
        let submitted = lease.worker.submit(request, &[]).await;
        running.push(
            submitted
                .ok_or_else(gone)?
                .map_err(|error| refusal(&error))?,
        );
    }
    let mut rows = Vec::new();
    for mut text in running {
        let mut values = Vec::new();
        loop {
            match text.next().await.ok_or_else(gone)?.kind {
                EventKind::Embedding(vector) => values = vector,
                EventKind::Finished { .. } => break,
                EventKind::Failed(error) => {
                    text.end();
                    return Err(Fault::new(FaultKind::Internal, error));
                }
                _ => {}
            }
        }
        text.end();
        rows.push(values);
    }
    Ok(rows)
}
