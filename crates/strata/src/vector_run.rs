//! Texts that are embedded by whoever holds the engine: each is a request of its own.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_chat::{Embed, Embeddings, Fault, ModelProfile, failure, refusal};
use strata_engine::{Engine, Event, EventKind, RequestId};

/// The texts of a request on their way.
pub struct VectorRun {
    request: Embed,
    profile: Arc<ModelProfile>,
    /// The name that the answer gives the model.
    model: String,
    texts: Vec<Text>,
    failure: Option<Fault>,
}

struct Text {
    id: RequestId,
    tokens: usize,
    values: Vec<f32>,
    over: bool,
}

impl VectorRun {
    /// Hands the texts to the engine. A request that names no model is answered in the name `model`.
    pub fn start(
        engine: &mut Engine,
        profile: &Arc<ModelProfile>,
        model: &str,
        request: Embed,
    ) -> Result<Self, Fault> {
        let name = if request.model.is_empty() {
            model
        } else {
            &request.model
        };
        let mut run = Self {
            profile: Arc::clone(profile),
            model: name.into(),
            texts: Vec::new(),
            failure: None,
            request,
        };
        for one in run.request.prepare(profile)? {
            let tokens = one.prompt.len();
            match engine.submit(one) {
                Ok(id) => run.texts.push(Text {
                    id,
                    tokens,
                    values: Vec::new(),
                    over: false,
                }),
                Err(error) => {
                    run.cancel(engine);
                    return Err(refusal(&error));
                }
            }
        }
        Ok(run)
    }

    /// Takes an event of the engine, or gives it back where it belongs to another request.
    pub fn push(&mut self, event: Event) -> Option<Event> {
        let Some(text) = self.texts.iter_mut().find(|text| text.id == event.request) else {
            return Some(event);
        };
        match event.kind {
            EventKind::Embedding(values) => text.values = values,
            EventKind::Finished { .. } => text.over = true,
            EventKind::Failed(error) => self.failure = Some(failure(&error)),
            _ => {}
        }
        None
    }

    /// The embeddings once there are all, or what went wrong.
    pub fn result(&mut self) -> Option<Result<Embeddings, Fault>> {
        if let Some(fault) = self.failure.take() {
            return Some(Err(fault));
        }
        let done = self.texts.iter().all(|text| text.over);
        done.then(|| {
            let rows = self.texts.iter().map(|text| {
                self.request
                    .finish(&self.profile, text.tokens, &text.values)
            });
            Ok(Embeddings {
                rows: rows.collect::<Result<_, Fault>>()?,
                model: self.model.clone(),
                tokens: self.texts.iter().map(|text| text.tokens).sum(),
                ..Embeddings::default()
            })
        })
    }

    /// Ends what still runs.
    pub fn cancel(&self, engine: &mut Engine) {
        for text in &self.texts {
            engine.cancel(text.id);
        }
    }
}
