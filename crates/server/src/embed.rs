//! Embeddings and rankings: each text is a request of its own to the engine, so they share its batches.

use crate::generate::gone;
use crate::http::Caller;
use crate::manager::Lease;
use std::time::Instant;
use strata_chat::{
    Embed, Embeddings, Fault, FaultKind, ModelProfile, PromptPart, Ranking, Rerank, Timings,
    refusal,
};
use strata_engine::{ClientId, EventKind, Pooling, Request, Task};
use strata_tokenizer::EncodeOptions;

/// Embeds texts.
pub(crate) async fn embed(
    caller: &Caller,
    lease: &Lease,
    request: &Embed,
) -> Result<Embeddings, Fault> {
    let start = Instant::now();
    let profile = &lease.worker.profile;
    let pooling = match request.pooling {
        None => profile.pooling,
        Some(strata_chat::Pooling::Mean) => Pooling::Mean,
        Some(strata_chat::Pooling::Cls) => Pooling::Cls,
        Some(strata_chat::Pooling::Last) => Pooling::Last,
        Some(strata_chat::Pooling::None) => {
            return Err(Fault::new(
                FaultKind::Unsupported,
                "embeddings of single tokens are not given: choose a pooling",
            ));
        }
    };
    let mut tokens = 0;
    let mut requests = Vec::new();
    for (i, input) in request.inputs.iter().enumerate() {
        let mut prompt = encode(profile, input);
        if prompt.is_empty() {
            return Err(Fault::bad_request(format!("input[{i}] is empty")));
        }
        if prompt.len() > profile.context && request.truncate {
            prompt.truncate(profile.context);
        }
        tokens += prompt.len();
        requests.push((prompt, Task::Embed(pooling)));
    }
    let mut rows = Vec::new();
    for mut values in run(caller, lease, requests).await? {
        if let Some(keep) = request.dimensions {
            if keep > values.len() {
                let problem = format!("dimensions: the model's embeddings have {}", values.len());
                return Err(Fault::bad_request(problem));
            }
            values.truncate(keep);
        }
        if request.normalize {
            normalize(&mut values);
        }
        rows.push(vec![values]);
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
    let profile = &lease.worker.profile;
    let mut tokens = 0;
    let mut requests = Vec::new();
    for document in &request.documents {
        let pair = profile.tokenizer.encode_pair(&request.query, document);
        tokens += pair.tokens.len();
        let second = pair.second;
        requests.push((pair.tokens, Task::Score { second }));
    }
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

fn encode(profile: &ModelProfile, input: &[PromptPart]) -> Vec<u32> {
    let mut tokens = Vec::new();
    for piece in input {
        match piece {
            PromptPart::Text(text) => {
                let options = EncodeOptions {
                    add_special: true,
                    parse_special: false,
                };
                tokens.extend(profile.tokenizer.encode(text, options));
            }
            PromptPart::Tokens(given) => tokens.extend(given),
        }
    }
    tokens
}

/// Runs texts side by side and gives their vectors in order.
async fn run(
    caller: &Caller,
    lease: &Lease,
    requests: Vec<(Vec<u32>, Task)>,
) -> Result<Vec<Vec<f32>>, Fault> {
    let mut running = Vec::new();
    for (prompt, task) in requests {
        let request = Request {
            prompt,
            task,
            client: ClientId(caller.client.number),
            ..Request::default()
        };
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

fn normalize(values: &mut [f32]) {
    let length = values
        .iter()
        .map(|x| f64::from(*x) * f64::from(*x))
        .sum::<f64>()
        .sqrt();
    if length > 0.0 {
        for x in values {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}
