//! A model that is computed by whoever holds it, step by step: no thread, no operating system.

use crate::generation::Generation;
use alloc::boxed::Box;
use alloc::sync::Arc;
use strata_chat::{
    AnswerConstraint, Arrival, ContentPart, Fault, FaultKind, Generate, ModelFacts, ModelProfile,
    Prepared, Prompt, RequestContext, prepare, refusal,
};
use strata_engine::{AdapterId, ClientId, Constraint, Engine, SubmitError};
use strata_platform::Clock;

/// Compiles what an answer must look like.
pub type CompileConstraint<'c> =
    dyn FnMut(&AnswerConstraint) -> Result<Box<dyn Constraint>, Fault> + 'c;

/// A model in memory and the engine that runs it. `Model`, the handle of the std half, has the engine in a thread of its
/// own; this one computes when [`Generation::step`] or [`Engine::step`] is called.
pub struct LocalModel {
    /// What runs requests.
    pub engine: Engine,
    /// What requests see of the model.
    pub profile: Arc<ModelProfile>,
    /// What is known of it.
    pub facts: ModelFacts,
}

impl LocalModel {
    /// The model with a clock, by which steps are kept short and requests can be limited.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self {
            engine: self.engine.with_clock(clock),
            ..self
        }
    }

    /// Makes a request ready for [`start`](Self::start): its prompts tokenized. What its answer must look like is refused,
    /// and so are adapters.
    pub fn prepare(
        &self,
        request: &Generate,
        context: RequestContext<'_>,
    ) -> Result<Prepared, Fault> {
        self.prepare_with(request, context, &mut |_| {
            let problem = "nobody compiles grammars here: leave the form of the answer out";
            Err(Fault::new(FaultKind::Unsupported, problem))
        })
    }

    /// The same with somebody who compiles grammars, such as [`LocalGrammars`](crate::load::LocalGrammars).
    pub fn prepare_with(
        &self,
        request: &Generate,
        context: RequestContext<'_>,
        compile: &mut CompileConstraint<'_>,
    ) -> Result<Prepared, Fault> {
        if let Some(&(number, _)) = request.adapters.iter().find(|(_, scale)| *scale != 0.0) {
            let adapter = AdapterId(number as u64);
            return Err(refusal(&SubmitError::NoAdapter { adapter }));
        }
        if request.template.is_some() {
            let problem = "this machine uses the model's own template: leave template out";
            return Err(Fault::new(FaultKind::Unsupported, problem));
        }
        if has_media(request) {
            let problem = "this machine cannot read images and audio, whose decoders need an operating system: send text";
            return Err(Fault::new(FaultKind::Unsupported, problem));
        }
        let mut prepared = prepare(request, &self.profile, context)?;
        if !matches!(prepared.constraint, AnswerConstraint::Free) {
            let constraint = compile(&prepared.constraint)?;
            for request in &mut prepared.requests {
                request.constraint = Some(constraint.clone());
            }
        }
        Ok(prepared)
    }

    /// Hands a request that is ready to the engine.
    pub fn start(
        &mut self,
        request: &Generate,
        prepared: Prepared,
        arrival: Arrival,
    ) -> Result<Generation, Fault> {
        let caller = (ClientId::default(), arrival);
        Generation::start(&mut self.engine, request, prepared, &self.profile, caller)
    }
}

/// Whether a message has an image or audio.
fn has_media(request: &Generate) -> bool {
    let messages = request.prompts.iter().flat_map(|prompt| match prompt {
        Prompt::Chat(messages) => messages.as_slice(),
        _ => &[],
    });
    let mut parts = messages.flat_map(|message| &message.parts);
    parts.any(|part| !matches!(part, ContentPart::Text(_)))
}
