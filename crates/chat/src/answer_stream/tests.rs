//! What a client is told, and when, for events in any order.

use super::*;
use crate::Prompt as Asked;
use crate::prepare::{RequestContext, prepare};
use alloc::string::ToString;
use alloc::vec;
use strata_engine::logprobs::TokenLogprob;
use strata_engine::{RequestError, SmallString, Usage as EngineUsage};
use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Vocab};

/// A model of one token for each ASCII character.
fn profile() -> ModelProfile {
    let mut tokens = TokenTable::with_capacity(128);
    for byte in 0..=127u8 {
        let text = char::from(byte).to_string();
        tokens.push(&text, TokenKind::Normal, 0.0).unwrap();
    }
    let mut vocab = Vocab::new(ModelKind::Spm, tokens);
    vocab.space_prefix = false;
    let tokenizer = Tokenizer::from_vocab(vocab).unwrap();
    ModelProfile::new(Arc::new(tokenizer), None, 64)
}

fn stream(request: &Generate) -> (AnswerStream, Vec<Request>) {
    let profile = profile();
    let world = RequestContext {
        now: None,
        seed: 1,
        id: "x",
    };
    let prepared = prepare(request, &profile, world).unwrap();
    let arrival = Arrival {
        at: Duration::from_secs(10),
        load: Duration::from_secs(1),
    };
    AnswerStream::new(request, prepared, &profile, arrival)
}

fn asking(prompts: &[&str]) -> Generate {
    let raw = |text: &&str| Asked::Raw(vec![crate::PromptPart::Text(text.to_string())]);
    Generate {
        prompts: prompts.iter().map(raw).collect(),
        ..Generate::new("m", raw(&""))
    }
}

fn token(text: &str) -> EventKind {
    EventKind::Token {
        token: 65,
        text: text.into(),
        logprobs: None,
    }
}

fn finished() -> EventKind {
    EventKind::Finished {
        text: SmallString::default(),
        reason: FinishReason::Length,
        usage: EngineUsage {
            generated_tokens: 2,
            ..EngineUsage::default()
        },
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn texts(events: &[Event]) -> Vec<(usize, &str)> {
    let text = |event| match event {
        &Event::Text { choice, ref text } => Some((choice, text.as_str())),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[test]
fn answers_to_several_prompts_are_told_in_the_order_of_the_prompts() {
    let (mut stream, requests) = stream(&asking(&["one", "two"]));
    assert_eq!(requests.len(), 2);
    let mut events = Vec::new();
    let started = || EventKind::Started { cached_tokens: 1 };
    stream.push(1, (0, started()), at(11), &mut events);
    stream.push(1, (0, token("B")), at(12), &mut events);
    stream.push(1, (0, finished()), at(12), &mut events);
    assert_eq!((events.len(), stream.awaited()), (0, Some(0)));
    stream.push(0, (0, started()), at(12), &mut events);
    stream.push(0, (0, token("A")), at(13), &mut events);
    assert_eq!(texts(&events), [(0, "A")]);
    stream.push(0, (0, finished()), at(15), &mut events);
    assert_eq!(texts(&events), [(0, "A"), (1, "B")]);
    assert!(stream.has_ended() && !stream.is_open(0) && stream.awaited().is_none());
    let Some(Event::Done { usage, timings }) = events.pop() else {
        panic!("{events:?}");
    };
    assert_eq!((usage.prompt_tokens, usage.generated_tokens), (6, 4));
    assert_eq!(usage.cached_tokens, 2);
    assert_eq!((timings.total, timings.load), (at(5), at(1)));
    assert_eq!((timings.prompt, timings.generate), (at(2), at(2)));
    let starts = |event: &&Event| matches!(event, Event::Started { .. });
    assert_eq!(events.iter().filter(starts).count(), 1);
    // Whatever still comes is nobody's.
    stream.push(0, (0, token("late")), at(16), &mut events);
    assert_eq!(texts(&events).len(), 2);
}

#[test]
fn a_scored_prompt_is_repeated_once_all_its_scores_are_there() {
    let request = Generate {
        echo: true,
        logprobs: Some(0),
        ..asking(&["abc"])
    };
    let (mut stream, requests) = stream(&request);
    assert_eq!(requests[0].prompt_logprobs, Some(0));
    let scored = |token: u32| TokenLogprobs {
        chosen: TokenLogprob {
            token,
            logprob: -1.0,
        },
        top: Vec::new(),
    };
    let logprobs = |from, tokens: &[u32]| EventKind::PromptLogprobs {
        from,
        logprobs: tokens.iter().map(|&token| scored(token)).collect(),
    };
    let mut events = Vec::new();
    let start = EventKind::Started { cached_tokens: 0 };
    stream.push(0, (0, start), at(11), &mut events);
    stream.push(0, (0, logprobs(1, &[98])), at(11), &mut events);
    assert_eq!(texts(&events), []);
    stream.push(0, (0, logprobs(2, &[99])), at(11), &mut events);
    assert_eq!(texts(&events), [(0, "abc")]);
    let bytes = |event: &Event| match event {
        Event::Token { logprobs, .. } => Some(logprobs.clone()?.chosen.bytes),
        _ => None,
    };
    let bytes: Vec<_> = events.iter().filter_map(bytes).collect();
    assert_eq!(bytes, [vec![], b"b".to_vec(), b"c".to_vec()]);
}

#[test]
fn a_failure_ends_it() {
    let (mut stream, _) = stream(&asking(&["one", "two"]));
    let mut events = Vec::new();
    let error = RequestError::Deadline { limit: at(1) };
    stream.push(0, (0, EventKind::Failed(error)), at(11), &mut events);
    assert!(matches!(&events[..], [Event::Failed(_)]), "{events:?}");
    assert!(stream.has_ended() && stream.is_open(1) && stream.awaited().is_none());
    stream.push(1, (0, token("B")), at(12), &mut events);
    stream.fail(Fault::bad_request("again"), at(12), &mut events);
    assert_eq!(events.len(), 1);
}

#[test]
fn no_prompt_is_an_error() {
    let world = RequestContext {
        now: None,
        seed: 1,
        id: "x",
    };
    assert!(prepare(&asking(&[]), &profile(), world).is_err());
}
