//! One answer: computed, streamed to standard output, timed.

use super::screen::Screen;
use super::story;
use crate::chat_template::Asked;
use crate::failure::{Failure, Kind};
use crate::sampling;
use std::path::Path;
use std::time::{Duration, Instant};
use strata::Size;
use strata_chat::{AnswerPart, Splitter};
use strata_constrain::Matcher;
use strata_engine::sampling::{SampleError, SamplerSettings};
use strata_engine::{
    AdapterId, Engine, EventKind, FinishReason, Request, RequestError, Speculation, SubmitError,
    Usage,
};
use strata_host::Usage as HostUsage;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// An engine with one conversation.
pub(crate) struct Speaker<'a> {
    pub(crate) engine: Engine,
    pub(crate) adapter: Option<AdapterId>,
    pub(crate) model: &'a Path,
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) sampling: SamplerSettings,
    /// What each answer must match.
    pub(crate) constraint: Option<Matcher>,
    pub(crate) max_tokens: Option<usize>,
    pub(crate) stop: Vec<String>,
    pub(crate) context: usize,
    pub(crate) verbose: bool,
    pub(crate) speculation: Speculation,
    /// Whether weights are read from the file as they are needed.
    pub(crate) streams: bool,
}

/// What was said, and why no more.
#[derive(Default)]
pub(crate) struct Answer {
    /// Without what the model thought.
    pub(crate) text: String,
    /// `None` if it was interrupted.
    pub(crate) reason: Option<FinishReason>,
    usage: Usage,
    /// Until the first token.
    prompt_time: Duration,
    decode_time: Duration,
    /// Bytes read from disks, where weights are left there.
    read: Option<u64>,
}

impl Speaker<'_> {
    /// What the answer begins with, put in the model's mouth; nothing where that would not match.
    pub(crate) fn beginning<'t>(&self, prompt: &'t str) -> &'t str {
        match self.constraint {
            None => story::beginning(self.model, prompt),
            Some(_) => "",
        }
    }

    fn request(&self, asked: Asked) -> Request {
        Request {
            spelled: asked.split.spelled(self.tokenizer),
            prompt: asked.tokens,
            adapter: self.adapter,
            sampling: self.sampling.clone(),
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            speculation: self.speculation,
            constraint: self
                .constraint
                .clone()
                .map(|matcher| Box::new(matcher) as _),
            ..Request::default()
        }
    }

    /// Answers a prompt on standard output, beginning with `beginning`, until the answer ends or `interrupted` says so,
    /// and ends the line.
    pub(crate) fn answer(
        &mut self,
        mut asked: Asked,
        beginning: &str,
        interrupted: &dyn Fn() -> bool,
        mut screen: Screen,
    ) -> Result<Answer, Failure> {
        let beginning_tokens = self.tokenizer.encode(beginning, EncodeOptions::default());
        asked.tokens.extend(beginning_tokens);
        let mut splitter = Splitter::new(asked.split.clone());
        let mut pieces = Vec::new();
        let request = self.request(asked);
        let read = read_bytes();
        let start = Instant::now();
        let mut first = None;
        let mut answer = Answer {
            text: beginning.into(),
            ..Answer::default()
        };
        let id = self.engine.submit(request).map_err(refused)?;
        screen
            .write(beginning)
            .map_err(|error| Failure::stdout(&error))?;
        while !self.engine.is_idle() {
            let mut failed = None;
            self.engine.step(&mut |event| match event.kind {
                EventKind::Token { text, .. } => {
                    first.get_or_insert_with(Instant::now);
                    answer.usage.generated_tokens += 1;
                    splitter.push(&text, &mut pieces);
                }
                EventKind::Finished {
                    text,
                    reason,
                    usage,
                } => {
                    splitter.push(&text, &mut pieces);
                    answer.reason = Some(reason);
                    answer.usage = usage;
                }
                EventKind::Failed(error) => failed = Some(error),
                _ => {}
            });
            answer.show(&mut pieces, &mut screen)?;
            if let Some(error) = failed {
                return Err(broken(error));
            }
            if interrupted() && !self.engine.is_idle() {
                self.engine.cancel(id);
            }
        }
        splitter.finish(&mut pieces);
        answer.show(&mut pieces, &mut screen)?;
        screen.end().map_err(|error| Failure::stdout(&error))?;
        let first = first.unwrap_or_else(Instant::now);
        answer.prompt_time = first - start;
        answer.decode_time = first.elapsed();
        if self.verbose {
            answer.read = self.streams.then(|| read_bytes().saturating_sub(read));
            answer.report();
        }
        Ok(answer)
    }
}

impl Answer {
    /// Shows what came, and keeps what is the answer.
    fn show(&mut self, pieces: &mut Vec<AnswerPart>, screen: &mut Screen) -> Result<(), Failure> {
        for piece in pieces.drain(..) {
            let shown = match piece {
                AnswerPart::Text(text) => {
                    self.text.push_str(&text);
                    screen.write(&text)
                }
                AnswerPart::Thinking(text) => screen.think(&text),
                // Nobody told the model of tools.
                AnswerPart::Call(_)
                | AnswerPart::CallBegin(_)
                | AnswerPart::CallArguments(_)
                | AnswerPart::CallEnd => Ok(()),
            };
            shown.map_err(|error| Failure::stdout(&error))?;
        }
        Ok(())
    }

    fn report(&self) {
        let per_second = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64();
        let usage = &self.usage;
        let computed = usage.prompt_tokens - usage.cached_tokens;
        // The first token comes with the prompt.
        let decoded = usage.generated_tokens.saturating_sub(1);
        let reason = match self.reason {
            None => "interrupted",
            Some(FinishReason::EndOfTurn(_)) => "the model ended its turn",
            Some(FinishReason::Stop(_)) => "a stop text",
            Some(FinishReason::Length) => "as many tokens as asked for",
            Some(FinishReason::ContextFull) => "the context is full",
            Some(_) => "the text is complete",
        };
        // An interrupted answer has no account of its prompt.
        if self.reason.is_some() {
            eprintln!(
                "prompt {} tokens ({} cached), {:.1} tok/s, first token after {:.3} s",
                usage.prompt_tokens,
                usage.cached_tokens,
                per_second(computed, self.prompt_time),
                self.prompt_time.as_secs_f64()
            );
        }
        eprintln!(
            "answer {} tokens, {:.1} tok/s; end: {reason}",
            usage.generated_tokens,
            per_second(decoded, self.decode_time)
        );
        if let Some(read) = self.read {
            let read = read / usage.generated_tokens.max(1) as u64;
            eprintln!("read {} from disk for each token", Size(read));
        }
        if usage.drafted_tokens > 0 {
            let (drafted, accepted) = (usage.drafted_tokens, usage.accepted_tokens);
            eprintln!(
                "guessed {drafted} tokens ahead, {accepted} of them right ({:.0}%); {:.2} tokens a pass",
                100.0 * accepted as f64 / drafted as f64,
                usage.generated_tokens as f64
                    / usage.generated_tokens.saturating_sub(accepted).max(1) as f64
            );
        }
    }
}

/// What was read from disks so far.
fn read_bytes() -> u64 {
    HostUsage::now().map_or(0, |usage| usage.read_bytes)
}

fn refused(error: SubmitError) -> Failure {
    match error {
        SubmitError::Settings(error) => sampling::unusable(&error),
        SubmitError::EmptyPrompt => Failure::new(Kind::Usage, error),
        SubmitError::TooLong { .. } => {
            Failure::new(Kind::Usage, error).hint("shorten it or give more room with --ctx")
        }
        error => Failure::new(Kind::Failed, error),
    }
}

fn broken(error: RequestError) -> Failure {
    match error {
        RequestError::Sample(SampleError::NotFinite { .. }) => Failure::new(Kind::BadModel, error)
            .hint("the model's weights are damaged, or too large for its activations"),
        RequestError::Sample(SampleError::AllBanned) => Failure::new(Kind::Usage, error),
        error => Failure::new(Kind::Failed, error),
    }
}
