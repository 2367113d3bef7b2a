//! A sequence that the engine is working on: its tokens, what is computed of them, and what becomes of it.

use crate::beams::Beam;
use crate::cache::CachedSequence;
use crate::images::Images;
use crate::prefix_tree::Salt;
use crate::request::{Request, RequestId, Usage};
use crate::scheduler::SequenceId;
use crate::speculation::Predictor;
use crate::speculation::prompt_lookup::Found;
use crate::writer::Writer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::{Adapted, Output, PAGE, Pooled, Pooling, Span};

/// How far apart the places are that other sequences may go on from for as long as there is room.
const LANDMARK: usize = 2048;
/// Tokens at a prompt's end that open the answer, and that the next turn may have written otherwise.
const OPENING: usize = 8;

/// A sequence that the engine is working on: one of a request's choices, or an input to embed or score.
pub(crate) struct ActiveSequence {
    pub(crate) id: SequenceId,
    pub(crate) request: RequestId,
    /// Which of the request's choices.
    pub(crate) choice: usize,
    pub(crate) salt: Salt,
    /// The prompt and what was generated after it; the first `held.sequence.len()` are computed.
    pub(crate) tokens: Vec<u32>,
    /// How many of them are the prompt.
    pub(crate) prompt: usize,
    pub(crate) images: Images,
    pub(crate) held: CachedSequence,
    /// What the draft model has computed of them.
    pub(crate) drafted: CachedSequence,
    pub(crate) aim: Aim,
    /// Whether it waits for the request's first sequence to have computed the prompt.
    pub(crate) parked: bool,
    /// Tokens of the sequence in the current batch.
    pub(crate) in_batch: usize,
    /// Tokens in the current batch that are drafted after them.
    pub(crate) draft: Vec<u32>,
    /// Tokens that are to be predicted after them.
    pub(crate) wanted: usize,
    /// Rows of logits that the current batch gives.
    pub(crate) rows: usize,
    /// Positions to keep of what the batch computed: drafts after them were rejected.
    pub(crate) keep: usize,
    /// Whether the batch computes all that there is of the sequence.
    pub(crate) whole: bool,
    /// How much of it the draft model may have computed: what was there before, and accepted drafts.
    pub(crate) known: usize,
    /// Whether it has been computed before.
    pub(crate) begun: bool,
    /// When its latest token came.
    pub(crate) latest: Option<Duration>,
    /// The state of its last token, if it is to be scored.
    pub(crate) last_state: Vec<f32>,
    /// Whether it has ended and is to be removed.
    pub(crate) ended: bool,
}

/// What becomes of a sequence.
pub(crate) enum Aim {
    /// It is continued.
    Write(Box<Writer>),
    /// It is pooled to a vector.
    Embed(Pooling, Pooled),
    /// It is scored by a classifier; where the second of two inputs begins.
    Score(usize),
    /// It is one beam of a beam search.
    Search(Beam),
}

impl ActiveSequence {
    /// A sequence that is the request's prompt so far.
    pub(crate) fn new(
        id: SequenceId,
        request: RequestId,
        salt: Salt,
        of: &Request,
        aim: Aim,
    ) -> Self {
        Self {
            id,
            request,
            choice: 0,
            salt,
            tokens: of.prompt.clone(),
            prompt: of.prompt.len(),
            images: Images::new(&of.images),
            held: CachedSequence::default(),
            drafted: CachedSequence::default(),
            aim,
            parked: false,
            in_batch: 0,
            draft: Vec::new(),
            wanted: 0,
            rows: 0,
            keep: usize::MAX,
            whole: false,
            known: 0,
            begun: false,
            latest: None,
            last_state: Vec::new(),
            ended: false,
        }
    }

    /// Tokens that have yet to be computed.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.held.sequence.len()
    }

    /// Tokens that must be computed together now: a source that has not been read.
    pub(crate) fn fewest(&self) -> usize {
        let computed = self.held.sequence.len();
        self.salt.source.saturating_sub(computed)
    }

    /// Whether the batch computes the one token that the next follows.
    pub(crate) fn decodes(&self) -> bool {
        self.in_batch == 1 && self.pending() == 1
    }

    /// How much of it may come from the cache: what nothing is wanted of any more.
    pub(crate) fn reusable(&self) -> usize {
        // The last token is computed in any case: its logits are needed.
        let most = self.tokens.len() - 1;
        match &self.aim {
            Aim::Write(writer) => most.min(writer.scored().unwrap_or(most)),
            Aim::Search(_) => most,
            Aim::Embed(..) | Aim::Score(_) => 0,
        }
    }

    /// Begins again with nothing computed.
    pub(crate) fn restart(&mut self, width: usize) {
        if let Aim::Embed(kind, pooled) = &mut self.aim {
            *pooled = Pooled::new(*kind, width);
        }
    }

    /// Rows of logits that a token in the batch takes.
    pub(crate) fn scores_prompt(&self) -> bool {
        match &self.aim {
            Aim::Write(writer) => {
                writer.scored().is_some() && self.held.sequence.len() < self.prompt
            }
            _ => false,
        }
    }

    /// Tokens generated.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// What it took.
    pub(crate) fn usage(&self) -> Usage {
        match &self.aim {
            Aim::Write(writer) => writer.usage,
            _ => Usage {
                prompt_tokens: self.prompt,
                ..Usage::default()
            },
        }
    }

    /// How likely it is.
    pub(crate) fn rank(&self) -> f64 {
        match &self.aim {
            Aim::Write(writer) => writer.rank(),
            _ => 0.0,
        }
    }

    /// Whether its pages can serve other sequences.
    pub(crate) fn leaves_pages(&self) -> bool {
        matches!(self.aim, Aim::Write(_) | Aim::Search(_))
    }

    /// Cuts what the batch computes so that it ends at a landmark: a recurrent state can be kept only where a batch ends.
    pub(crate) fn end_at_landmark(&mut self) {
        let computed = self.held.sequence.len();
        // The last token is computed in any case, after what others may share.
        let end = (computed + self.in_batch).min(self.tokens.len() - 1);
        let places = [
            (computed / LANDMARK + 1) * LANDMARK,
            self.stable_end(),
            end.min(self.prompt) / PAGE * PAGE,
        ];
        let mut ahead = places
            .into_iter()
            .filter(|at| (computed + 1..=end).contains(at));
        if self.in_batch > 1
            && self.leaves_pages()
            && let Some(landmark) = ahead.next()
        {
            self.in_batch = landmark - computed;
        }
    }

    /// Where the last page of the prompt ends that the next turn has in common with it.
    fn stable_end(&self) -> usize {
        self.prompt.saturating_sub(OPENING) / PAGE * PAGE
    }

    /// Whether other sequences may go on from where this one stands: after a page of its prompt, and now and then after
    /// it.
    pub(crate) fn is_landmark(&self) -> bool {
        let len = self.held.sequence.len();
        len <= self.prompt || len.is_multiple_of(LANDMARK)
    }

    /// Whether that is only because a batch of its prompt ends there.
    pub(crate) fn is_passing(&self) -> bool {
        let len = self.held.sequence.len();
        len < self.stable_end() && !len.is_multiple_of(LANDMARK)
    }

    /// What the batch computes: the sequence's next tokens and the draft, which stands in the sequence until
    /// [`withdraw`](Self::withdraw).
    pub(crate) fn span<'s>(&'s mut self, adapter: Option<Adapted<'s>>) -> Span<'s> {
        let from = self.held.sequence.len();
        self.whole = self.in_batch == self.pending();
        let (output, rows) = match &self.aim {
            Aim::Embed(..) | Aim::Score(_) => (Output::States, 0),
            Aim::Write(_) if self.scores_prompt() => (Output::AllLogits, self.in_batch),
            Aim::Write(_) | Aim::Search(_) => {
                if !self.whole {
                    (Output::None, 0)
                } else if self.draft.is_empty() {
                    (Output::LastLogits, 1)
                } else {
                    (Output::AllLogits, 1 + self.draft.len())
                }
            }
        };
        self.rows = rows;
        self.tokens.extend_from_slice(&self.draft);
        self.held.sequence.set_source(self.salt.source);
        Span {
            tokens: &self.tokens[from..from + self.in_batch + self.draft.len()],
            sequence: &mut self.held.sequence,
            output,
            adapter,
            embedded: self.images.runs(),
        }
    }

    /// Takes the draft out of the sequence.
    pub(crate) fn withdraw(&mut self) {
        let text = self.tokens.len() - self.draft.len();
        self.tokens.truncate(text);
    }

    /// What it says about how `text` goes on, if that is a text of the same client, or of the same request where that keeps
    /// to itself.
    pub(crate) fn recall(&self, salt: Salt, text: &[u32]) -> Option<Found<'_>> {
        let theirs = (self.salt.client, self.salt.alone) == (salt.client, salt.alone);
        match &self.aim {
            Aim::Write(writer) if theirs => {
                let lookup = writer.drafter.lookup.as_ref()?;
                lookup.find_elsewhere(&self.tokens, text)
            }
            _ => None,
        }
    }

    /// What predicts for it, apart from texts.
    pub(crate) fn predictor(&self) -> Option<Predictor> {
        match &self.aim {
            Aim::Write(writer) => writer.drafter.predictor(),
            _ => None,
        }
    }

    /// How many of the tokens from position `text` on were drafted.
    pub(crate) fn confirmed(&self, text: usize) -> usize {
        confirmed(&self.tokens[text..], &self.draft)
    }
}

/// How many of the tokens the draft has, from the first on.
pub(crate) fn confirmed(tokens: &[u32], draft: &[u32]) -> usize {
    tokens.iter().zip(draft).take_while(|(a, b)| a == b).count()
}
