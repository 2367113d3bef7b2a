//! What a client is told, and when, for events in any order.

use super::*;
use crate::Prompt as Asked;
use crate::prepare::{RequestContext, prepare};
use alloc::string::ToString;
use alloc::vec;
use strata_engine::logprobs::TokenLogprob;
use strata_engine::{RequestError, SmallString, TokenLogprobs, Usage as EngineUsage};
use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Vocab};

/// One token for each ASCII character.
fn vocab() -> Vocab {
    let mut tokens = TokenTable::with_capacity(128);
    for byte in 0..=127u8 {
        let text = char::from(byte).to_string();
        tokens.push(&text, TokenKind::Normal, 0.0).unwrap();
    }
    let mut vocab = Vocab::new(ModelKind::Spm, tokens);
    vocab.space_prefix = false;
    vocab
}

fn profile() -> ModelProfile {
    let tokenizer = Tokenizer::from_vocab(vocab()).unwrap();
    ModelProfile::new(Arc::new(tokenizer), None, 64)
}

fn stream(request: &Generate) -> (AnswerStream, Vec<Request>) {
    stream_of(request, &profile())
}

fn stream_of(request: &Generate, profile: &ModelProfile) -> (AnswerStream, Vec<Request>) {
    let world = RequestContext {
        now: None,
        seed: 1,
        id: "x",
    };
    let prepared = prepare(request, profile, world).unwrap();
    let arrival = Arrival {
        at: Duration::from_secs(10),
        load: Duration::from_secs(1),
    };
    AnswerStream::new(request, prepared, profile, arrival)
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
    let tokens = |tokens: &[u32]| vec![crate::PromptPart::Tokens(tokens.to_vec())];
    for prompt in [
        Asked::text("abc"),
        Asked::Raw(tokens(&[97, 98, 99])),
        Asked::Raw([tokens(&[97]), vec![crate::PromptPart::Text("bc".into())]].concat()),
    ] {
        let request = Generate {
            echo: true,
            logprobs: Some(0),
            ..Generate::new("m", prompt)
        };
        let (mut stream, requests) = stream(&request);
        assert_eq!(requests[0].prompt_logprobs, Some(0));
        let mut events = Vec::new();
        let start = EventKind::Started { cached_tokens: 0 };
        stream.push(0, (0, start), at(11), &mut events);
        stream.push(0, (0, scored(1, &[98])), at(11), &mut events);
        assert_eq!(texts(&events), []);
        stream.push(0, (0, scored(2, &[99])), at(11), &mut events);
        assert_eq!(texts(&events), [(0, "abc")]);
        let told = |event: &Event| match event {
            Event::Token { logprobs, .. } => Some(logprobs.clone()?.chosen),
            _ => None,
        };
        let told: Vec<_> = events.iter().filter_map(told).collect();
        let bytes: Vec<&[u8]> = told.iter().map(|token| &*token.bytes).collect();
        assert_eq!(bytes, [b"a", b"b", b"c"]);
        assert!(told[0].logprob.is_nan() && told[1].logprob == -1.0);
    }
}

fn scored(from: usize, tokens: &[u32]) -> EventKind {
    let one = |&token: &u32| TokenLogprobs {
        chosen: TokenLogprob {
            token,
            logprob: -1.0,
        },
        top: Vec::new(),
    };
    EventKind::PromptLogprobs {
        from,
        logprobs: tokens.iter().map(one).collect(),
    }
}

#[test]
fn scores_of_a_prompt_come_without_an_echo_and_with_what_was_added() {
    let mut profile = profile();
    let mut vocab = vocab();
    vocab.special.bos = Some(1);
    vocab.added.bos = true;
    profile.tokenizer = Arc::new(Tokenizer::from_vocab(vocab).unwrap());
    let ask = |request: Generate| {
        let (mut stream, _) = stream_of(&request, &profile);
        let mut events = Vec::new();
        let start = EventKind::Started { cached_tokens: 0 };
        stream.push(0, (0, start), at(11), &mut events);
        stream.push(0, (0, scored(1, &[97, 98])), at(11), &mut events);
        events
    };
    let events = ask(Generate {
        prompt_logprobs: Some(2),
        ..asking(&["ab"])
    });
    let Some(Event::Prompt {
        tokens, logprobs, ..
    }) = events.last()
    else {
        panic!("{events:?}");
    };
    assert_eq!((&tokens[..], logprobs.len()), (&[1, 97, 98][..], 3));
    assert!(logprobs[0].chosen.logprob.is_nan() && logprobs[1].chosen.logprob == -1.0);
    // What was added is not in the text, so an echo leaves it out.
    let events = ask(Generate {
        echo: true,
        logprobs: Some(1),
        ..asking(&["ab"])
    });
    let echoed = |event: &Event| match event {
        Event::Token { logprobs, .. } => Some(logprobs.clone()?.chosen),
        _ => None,
    };
    let echoed: Vec<_> = events.iter().filter_map(echoed).collect();
    assert_eq!(echoed.len(), 2);
    assert!(echoed[0].logprob.is_nan() && echoed[0].bytes == b"a");
}

#[test]
fn progress_grows_and_a_request_that_is_given_up_has_its_tokens_counted() {
    let request = Generate {
        progress: true,
        ..asking(&["abc"])
    };
    let (mut stream, requests) = stream(&request);
    assert!(requests[0].progress);
    let mut events = Vec::new();
    let start = EventKind::Started { cached_tokens: 1 };
    let computed = |computed| EventKind::Progress { computed };
    let heard = [start, computed(2), computed(1), computed(3), token("A")];
    for (second, kind) in heard.into_iter().enumerate() {
        stream.push(0, (0, kind), at(11 + second as u64), &mut events);
    }
    let progress = |event: &Event| match event {
        Event::Progress {
            computed,
            usage,
            timings,
        } => Some((*computed, usage.generated_tokens, timings.total.as_secs())),
        _ => None,
    };
    let progress: Vec<_> = events.iter().filter_map(progress).collect();
    assert_eq!(progress, [(1, 0, 1), (2, 0, 2), (3, 0, 4), (3, 1, 5)]);
    assert_eq!(stream.usage().generated_tokens, 1);
    stream.push(0, (0, finished()), at(20), &mut events);
    assert_eq!(stream.usage().generated_tokens, 2);
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
fn a_grammar_beyond_its_limits_is_the_request_s_fault() {
    let what = "readings for a token";
    let error = RequestError::Constraint(ConstraintError::Limit { what, limit: 9 });
    assert_eq!(failure(&error).kind, FaultKind::BadRequest);
    let error = RequestError::Constraint(ConstraintError::DeadEnd);
    assert_eq!(failure(&error).kind, FaultKind::Internal);
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
