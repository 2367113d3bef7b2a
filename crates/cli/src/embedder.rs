//! Texts as vectors: batches through an encoder, or one after the other through a decoder.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::scorer::{self, Scorer, refused};
use strata::load::Machine;
use strata::load::Needs;
use strata::load::{CheckedModel, LoadedModel};
use strata_model::spec::Role;
use strata_model::{BatchLimits, EncoderInput, Executor, Output, PageStorage, Pooled, Pooling};

/// A model loaded for texts that are known.
pub(crate) struct Embedder {
    loaded: LoadedModel,
    kv: PageStorage,
    needs: Needs,
}

impl Embedder {
    /// Loads a model to read `texts`, none of them longer than it can.
    pub(crate) fn load(
        checked: CheckedModel<'_>,
        texts: &[EncoderInput<'_>],
        arguments: &ComputeArguments,
        machine: &Machine,
    ) -> Result<Self, Failure> {
        let context = checked.blueprint.config().context;
        for (index, text) in texts.iter().enumerate() {
            let fault = match text.tokens.len() {
                0 => "has no tokens".into(),
                tokens if tokens > context => {
                    format!("has {tokens} tokens and the model reads {context}")
                }
                _ => continue,
            };
            return Err(
                Failure::new(Kind::Usage, format_args!("text {} {fault}", index + 1))
                    .hint("cut the text into parts"),
            );
        }
        let longest = texts
            .iter()
            .map(|text| text.tokens.len())
            .max()
            .unwrap_or(0);
        let mut needs = scorer::needs(longest, arguments, machine);
        needs.limits = match checked.role() {
            Role::Decoder => BatchLimits {
                logits: 0,
                ..needs.limits
            },
            // A text is never cut, so that the batch has to be as long as the longest.
            Role::Encoder => BatchLimits {
                tokens: longest.max(arguments.batch.into()),
                logits: 0,
            },
        };
        let (loaded, kv) = arguments.load_any(checked, needs, machine)?;
        Ok(Self { loaded, kv, needs })
    }

    /// How texts become vectors where nobody says.
    pub(crate) fn pooling(&self) -> Pooling {
        let config = self.loaded.model.config();
        config.pooling.unwrap_or(match config.spec.role {
            Role::Decoder => Pooling::Last,
            Role::Encoder => Pooling::Mean,
        })
    }

    /// The width of a vector.
    pub(crate) fn width(&self) -> usize {
        self.loaded.model.config().width
    }

    /// How many scores a text gets; 0 without a classifier.
    pub(crate) fn labels(&self) -> usize {
        self.loaded.model.labels()
    }

    /// Each text's vector, or with [`Pooling::None`] its tokens' one after the other.
    pub(crate) fn embed(
        self,
        texts: &[EncoderInput<'_>],
        pooling: Pooling,
        machine: &Machine,
    ) -> Result<Vec<Vec<f32>>, Failure> {
        let width = self.width();
        let mut embeddings = Vec::with_capacity(texts.len());
        let mut keep = |states: &[f32]| {
            let mut pooled = Pooled::new(pooling, width);
            pooled.add(states);
            embeddings.push(pooled.finish());
        };
        match self.loaded.model.config().spec.role {
            Role::Encoder => {
                let limits = self.needs.limits;
                let mut executor = machine.executor(&self.loaded.model, self.kv, limits);
                for batch in batches(texts, limits.tokens) {
                    let mut states = executor.encode(batch).map_err(refused)?;
                    for text in batch {
                        let (own, rest) = states.split_at(text.tokens.len() * width);
                        keep(own);
                        states = rest;
                    }
                }
            }
            Role::Decoder => {
                let mut scorer = Scorer::new(&self.loaded, self.kv, &self.needs, machine);
                for text in texts {
                    scorer.restart();
                    let mut pooled = Pooled::new(pooling, width);
                    scorer.feed(text.tokens, Output::States, &mut |state| {
                        pooled.add(state);
                        Ok(())
                    })?;
                    embeddings.push(pooled.finish());
                }
            }
        }
        Ok(embeddings)
    }

    /// The classifier's scores, one text after the other.
    pub(crate) fn rank(
        self,
        texts: &[EncoderInput<'_>],
        machine: &Machine,
    ) -> Result<Vec<f32>, Failure> {
        let limits = self.needs.limits;
        let mut executor = machine.executor(&self.loaded.model, self.kv, limits);
        let mut scores = Vec::new();
        for batch in batches(texts, limits.tokens) {
            let found = executor.rank(batch);
            scores.extend_from_slice(found.map_err(refused)?);
        }
        Ok(scores)
    }
}

/// Runs of texts of at most so many tokens in all. Each text has no more than that.
fn batches<'t, 'a>(
    texts: &'t [EncoderInput<'a>],
    tokens: usize,
) -> impl Iterator<Item = &'t [EncoderInput<'a>]> {
    let mut rest = texts;
    std::iter::from_fn(move || {
        let mut room = tokens;
        let fit = rest.iter().take_while(|text| {
            let fits = text.tokens.len() <= room;
            room = room.saturating_sub(text.tokens.len());
            fits
        });
        let count = fit.count();
        let (now, later) = rest.split_at(count);
        rest = later;
        (!now.is_empty()).then_some(now)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_what_fits_and_leave_nothing_out() {
        let lengths = [3, 4, 1, 8, 2, 2, 5];
        let tokens = [0; 8];
        let texts = lengths.map(|n| EncoderInput::single(&tokens[..n]));
        let found: Vec<Vec<usize>> = batches(&texts, 8)
            .map(|batch| batch.iter().map(|text| text.tokens.len()).collect())
            .collect();
        assert_eq!(found, [vec![3, 4, 1], vec![8], vec![2, 2], vec![5]]);
    }
}
