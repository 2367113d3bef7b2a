//! Texts that are embedded: each is a request of its own to the engine.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_chat::{Embed, Embeddings, Fault, ModelProfile, failure, refusal};
use strata_engine::{Engine, Event, EventKind, RequestId};
use strata_wire::call::ReplyWriter;

/// The texts of a request on their way.
pub(crate) struct VectorRun {
    request: Embed,
    write: Option<ReplyWriter<Embeddings>>,
    profile: Arc<ModelProfile>,
    /// The name that the answer gives the model.
    model: String,
    texts: Vec<Text>,
}

struct Text {
    id: RequestId,
    tokens: usize,
    values: Vec<f32>,
    over: bool,
}

impl VectorRun {
    /// Hands the texts to the engine.
    pub(crate) fn start(
        engine: &mut Engine,
        profile: &Arc<ModelProfile>,
        model: &str,
        request: Embed,
        write: ReplyWriter<Embeddings>,
    ) -> Result<Self, Fault> {
        let name = if request.model.is_empty() {
            model
        } else {
            &request.model
        };
        let mut run = Self {
            write: Some(write),
            profile: Arc::clone(profile),
            model: name.into(),
            texts: Vec::new(),
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

    /// Takes an event of the engine.
    pub(crate) fn hear(&mut self, event: Event) -> Heard {
        let Some(text) = self.texts.iter_mut().find(|text| text.id == event.request) else {
            return Heard::Another(event);
        };
        match event.kind {
            EventKind::Embedding(values) => text.values = values,
            EventKind::Finished { .. } => text.over = true,
            EventKind::Failed(error) => return Heard::End(Err(failure(&error))),
            _ => {}
        }
        match self
            .write
            .take_if(|_| self.texts.iter().all(|text| text.over))
        {
            Some(write) => Heard::End(self.answer(write)),
            None => Heard::More,
        }
    }

    fn answer(&self, write: ReplyWriter<Embeddings>) -> Result<String, Fault> {
        let rows = self.texts.iter().map(|text| {
            self.request
                .finish(&self.profile, text.tokens, &text.values)
        });
        let reply = write(&Embeddings {
            rows: rows.collect::<Result<_, Fault>>()?,
            model: self.model.clone(),
            tokens: self.texts.iter().map(|text| text.tokens).sum(),
            ..Embeddings::default()
        });
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Ends what still runs.
    pub(crate) fn cancel(&self, engine: &mut Engine) {
        for text in &self.texts {
            engine.cancel(text.id);
        }
    }
}

/// What an event is to a request.
pub(crate) enum Heard {
    /// It belongs to another request.
    Another(Event),
    /// There is more to come.
    More,
    /// It was the last: the answer, or what went wrong.
    End(Result<String, Fault>),
}
