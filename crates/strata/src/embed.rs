//! Embeddings, rankings and scores: each text is a request of its own to the engine, so they share its batches.

use crate::error::Error;
use crate::model::Model;
use crate::worker::{Heard, RequestHandle};
use std::collections::VecDeque;
use strata_chat::{
    Embed, Embeddings, Event, Fault, Generate, ModelProfile, Prompt, PromptPart, Ranking, Rerank,
    failure, rank_score, refusal,
};
use strata_engine::{ClientId, EventKind, Request};

/// Texts that wait in the engine at a time, at most: its queue is for others as well.
const MOST_WAITING: usize = 64;

/// Texts that the engine was handed, in order.
pub struct Vectors {
    /// One for each text.
    pub running: Vec<RequestHandle>,
    /// The tokens of each text.
    pub lengths: Vec<usize>,
}

impl Vectors {
    /// Tokens of all texts.
    pub fn tokens(&self) -> usize {
        self.lengths.iter().sum()
    }
}

impl Model {
    /// Embeds texts: one vector of length 1 for each.
    pub fn embed<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let request = Embed {
            model: String::new(),
            inputs: texts
                .into_iter()
                .map(|text| vec![PromptPart::Text(text.into())])
                .collect(),
            dimensions: None,
            pooling: None,
            normalize: true,
            truncate: false,
            keep_alive: None,
            context: None,
        };
        let embeddings = self.embed_request(&request)?;
        let rows = embeddings.rows.into_iter();
        Ok(rows.map(|mut rows| rows.swap_remove(0)).collect())
    }

    /// Embeds texts as a request in the form that every door shares says.
    pub fn embed_request(&self, request: &Embed) -> Result<Embeddings, Error> {
        let requests = request.prepare(self.profile())?;
        let lengths = lengths(&requests);
        let values = self.run_all(requests)?;
        Ok(finish_embed(request, self.profile(), &values, &lengths)?)
    }

    /// Hands the texts of a request to the engine.
    pub fn start_embed(&self, request: &Embed, client: u64) -> Result<Vectors, Fault> {
        Ok(self.submit_all(request.prepare(self.profile())?, client))
    }

    /// Scores documents by how well they answer a query; only models with a classifier can.
    pub fn rerank<T: Into<String>>(
        &self,
        query: &str,
        documents: impl IntoIterator<Item = T>,
    ) -> Result<Vec<f32>, Error> {
        let request = Rerank {
            model: String::new(),
            query: query.to_owned(),
            documents: documents.into_iter().map(Into::into).collect(),
            top_n: None,
            return_documents: false,
        };
        Ok(self.rerank_request(&request)?.scores)
    }

    /// Ranks documents as a request in the form that every door shares says.
    pub fn rerank_request(&self, request: &Rerank) -> Result<Ranking, Error> {
        let requests = request.prepare(self.profile())?;
        let tokens = lengths(&requests).iter().sum();
        Ok(finish_rerank(self.run_all(requests)?, tokens))
    }

    /// Hands the pairs of a request to the engine.
    pub fn start_rerank(&self, request: &Rerank, client: u64) -> Result<Vectors, Fault> {
        Ok(self.submit_all(request.prepare(self.profile())?, client))
    }

    /// The log-probability of each token of a text but the first, given those before it.
    pub fn score(&self, text: &str) -> Result<Vec<f32>, Error> {
        let mut request = Generate::new("", Prompt::text(text));
        request.max_tokens = Some(0);
        request.logprobs = Some(0);
        request.echo = true;
        let mut events = self.generate(&request)?;
        let mut scores = Vec::new();
        while !events.has_ended() {
            for event in events.next_blocking() {
                match event {
                    Event::Token {
                        logprobs: Some(logprobs),
                        ..
                    } if !logprobs.chosen.logprob.is_nan() => scores.push(logprobs.chosen.logprob),
                    Event::Failed(fault) => return Err(fault.into()),
                    _ => {}
                }
            }
        }
        Ok(scores)
    }

    fn submit_all(&self, requests: Vec<Request>, client: u64) -> Vectors {
        let lengths = lengths(&requests);
        let running = requests.into_iter().map(|mut request| {
            request.client = ClientId(client);
            self.submit(request, &[])
        });
        Vectors {
            running: running.collect(),
            lengths,
        }
    }

    /// Runs any number of texts, some at a time, and gives what the engine computed for each.
    fn run_all(&self, requests: Vec<Request>) -> Result<Vec<Vec<f32>>, Error> {
        let mut waiting = VecDeque::new();
        let mut all = Vec::with_capacity(requests.len());
        for request in requests {
            if waiting.len() == MOST_WAITING
                && let Some(first) = waiting.pop_front()
            {
                all.push(wait(first)?);
            }
            waiting.push_back(self.submit(request, &[]));
        }
        for running in waiting {
            all.push(wait(running)?);
        }
        Ok(all)
    }
}

fn lengths(requests: &[Request]) -> Vec<usize> {
    requests
        .iter()
        .map(|request| request.prompt.len())
        .collect()
}

/// Waits for what the engine computes for a text.
fn wait(mut running: RequestHandle) -> Result<Vec<f32>, Error> {
    let mut values = Vec::new();
    loop {
        let heard = running.next_blocking().ok_or_else(Error::closed)?;
        if take(heard, &mut values)? {
            break;
        }
    }
    running.end();
    Ok(values)
}

/// Takes in what happened to a text; says whether it was the last.
pub fn take(heard: Heard, values: &mut Vec<f32>) -> Result<bool, Fault> {
    let event = match heard {
        Heard::Refused(error) => return Err(refusal(&error)),
        Heard::Event(event) => event,
    };
    match event.kind {
        EventKind::Embedding(vector) => *values = vector,
        EventKind::Finished { .. } => return Ok(true),
        EventKind::Failed(error) => return Err(failure(&error)),
        _ => {}
    }
    Ok(false)
}

/// What the engine computed for texts of so many tokens, as a request wants it: cut and normalized.
pub fn finish_embed(
    request: &Embed,
    profile: &ModelProfile,
    values: &[Vec<f32>],
    lengths: &[usize],
) -> Result<Embeddings, Fault> {
    let rows = values
        .iter()
        .zip(lengths)
        .map(|(values, &tokens)| request.finish(profile, tokens, values))
        .collect::<Result<_, Fault>>()?;
    Ok(Embeddings {
        rows,
        model: request.model.clone(),
        tokens: lengths.iter().sum(),
        ..Embeddings::default()
    })
}

/// The scores of documents.
pub fn finish_rerank(scores: Vec<Vec<f32>>, tokens: usize) -> Ranking {
    Ranking {
        scores: scores.iter().map(|scores| rank_score(scores)).collect(),
        tokens,
        ..Ranking::default()
    }
}
