//! One answer: asked for, streamed to standard output, timed.

use super::screen::Screen;
use crate::failure::{Failure, Kind};
use std::time::{Duration, Instant};
use strata::{
    Error, ErrorKind, Event, Events, Finish, Format, Generate, LoadReport, Model, Size, Usage,
};
use strata_host::Usage as HostUsage;

/// How often it is looked whether somebody interrupts.
const LOOK: Duration = Duration::from_millis(50);

/// What was said, and why no more.
#[derive(Default)]
pub(crate) struct Answer {
    /// Without what the model thought.
    pub(crate) text: String,
    /// Messages at the beginning of the conversation that were left out, so that it fits.
    pub(crate) dropped: usize,
    /// Whether it ended because the context is full.
    pub(crate) is_full: bool,
    /// `None` if it was interrupted.
    finish: Option<Finish>,
    usage: Usage,
    /// Until the first token.
    prompt_time: Duration,
    decode_time: Duration,
}

/// Answers a request on standard output until the answer ends or `interrupted` says so, and ends the line.
pub(crate) fn answer(
    model: &Model,
    request: &Generate,
    interrupted: &dyn Fn() -> bool,
    mut screen: Screen,
) -> Result<Answer, Failure> {
    let start = Instant::now();
    let mut events = model.generate(request).map_err(refused)?;
    let mut first = None;
    let mut answer = Answer {
        dropped: events.dropped_messages(),
        ..Answer::default()
    };
    while !events.has_ended() {
        for event in events.next_within(LOOK).unwrap_or_default() {
            if matches!(event, Event::Token { .. }) {
                first.get_or_insert_with(Instant::now);
            }
            answer.take_in(event, &mut screen)?;
        }
        if interrupted() {
            break;
        }
    }
    screen.end().map_err(|error| Failure::stdout(&error))?;
    let first = first.unwrap_or_else(Instant::now);
    answer.prompt_time = first - start;
    answer.decode_time = first.elapsed();
    answer.finish(&events, request, model);
    Ok(answer)
}

impl Answer {
    /// Shows what came, and keeps what is the answer.
    fn take_in(&mut self, event: Event, screen: &mut Screen) -> Result<(), Failure> {
        let shown = match event {
            Event::Text { text, .. } => {
                self.text.push_str(&text);
                screen.write(&text)
            }
            Event::Thinking { text, .. } => screen.think(&text),
            Event::Token { .. } => {
                self.usage.generated_tokens += 1;
                Ok(())
            }
            Event::Finished { reason, .. } => {
                self.finish = Some(reason);
                Ok(())
            }
            Event::Failed(fault) => return Err(broken(fault.into())),
            // Nobody told the model of tools.
            Event::Call { .. }
            | Event::Started { .. }
            | Event::Prompt { .. }
            | Event::Progress { .. }
            | Event::Done { .. } => Ok(()),
        };
        shown.map_err(|error| Failure::stdout(&error))
    }

    fn finish(&mut self, events: &Events, request: &Generate, model: &Model) {
        let told = events.usage();
        self.usage = Usage {
            // An interrupted answer has no account of its own.
            generated_tokens: self.usage.generated_tokens.max(told.generated_tokens),
            ..told
        };
        let asked = request.max_tokens.or(model.profile().max_tokens);
        let cut = self.finish == Some(Finish::Length);
        self.is_full = cut && asked.is_none_or(|most| self.usage.generated_tokens < most);
    }

    /// Tells on standard error what the answer took.
    pub(crate) fn report(&self, request: &Generate, load: &LoadReport, read: u64) {
        let per_second = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64();
        let usage = &self.usage;
        let computed = usage.prompt_tokens - usage.cached_tokens;
        // The first token comes with the prompt.
        let decoded = usage.generated_tokens.saturating_sub(1);
        let reason = match self.finish {
            None => "interrupted",
            Some(Finish::StopText(_)) => "stop text",
            Some(Finish::Length) if self.is_full => "context full",
            Some(Finish::Length) => "token limit reached",
            Some(_) if request.format == Format::Text => "end of turn",
            Some(_) => "complete",
        };
        if self.finish.is_some() {
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
        if load.streamed_bytes > 0 {
            let read = read / usage.generated_tokens.max(1) as u64;
            eprintln!("read {} from disk per token", Size(read));
        }
        if usage.drafted_tokens > 0 {
            let (drafted, accepted) = (usage.drafted_tokens, usage.accepted_tokens);
            eprintln!(
                "drafted {drafted} tokens, accepted {accepted} ({:.0}%); {:.2} tokens per step",
                100.0 * accepted as f64 / drafted as f64,
                usage.generated_tokens as f64
                    / usage.generated_tokens.saturating_sub(accepted).max(1) as f64
            );
        }
    }
}

/// What was read from disks so far.
pub(crate) fn read_bytes() -> u64 {
    HostUsage::now().map_or(0, |usage| usage.read_bytes)
}

/// A request that cannot be answered.
fn refused(error: Error) -> Failure {
    let kind = error.kind();
    let failure = Failure::from(error);
    match kind {
        ErrorKind::ContextExceeded => failure.hint("shorten it, or use a larger --ctx"),
        ErrorKind::Template | ErrorKind::InvalidModel => {
            failure.hint("use --raw to continue the text without a template")
        }
        _ => failure,
    }
}

/// A request that failed on its way.
fn broken(error: Error) -> Failure {
    let failure = Failure::from(error);
    match failure.kind() {
        Kind::BadModel => failure.hint("the model's weights may be damaged"),
        _ => failure,
    }
}
