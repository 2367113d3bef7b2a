//! Requests through the built-in model: the same answers alone and together, stop texts, the cache, refusals.

use crate::tale::{Answer, Tale, run, run_one};
use strata_engine::{ClientId, EventKind, FinishReason, Request, RequestId, Standing, SubmitError};
use strata_model::PAGE;
use strata_tokenizer::EncodeOptions;

const PROMPTS: [&str; 8] = [
    "Once upon a time",
    "The king said",
    "In a small village by the sea there lived an old fisherman who",
    "A fox",
    "\"Where are you going?\" asked the",
    "Hello",
    "It was a dark and stormy night, and the wind was howling through the trees. Little Tom",
    "The best thing about summer is",
];

#[test]
fn eight_requests_together_get_what_each_gets_alone() {
    let tale = Tale::load();
    for seed in [None, Some(7)] {
        let alone: Vec<Answer> = PROMPTS
            .iter()
            .map(|prompt| run_one(&mut tale.engine(512, 1), tale.request(prompt, seed)))
            .collect();
        // A small batch cuts the prompts up and mixes them with other requests' single tokens.
        for batch in [8, 19, 512] {
            let mut engine = tale.engine(batch, 8);
            for prompt in PROMPTS {
                engine.submit(tale.request(prompt, seed)).unwrap();
            }
            let together = run(&mut engine);
            for (one, other) in alone.iter().zip(together.values()) {
                assert_eq!(one.tokens, other.tokens);
                assert_eq!(one.text, other.text);
                assert_eq!(one.finish, other.finish);
            }
        }
    }
}

#[test]
fn prompts_in_chunks_give_the_same_text() {
    let tale = Tale::load();
    let whole = run_one(&mut tale.engine(512, 1), tale.request(PROMPTS[6], Some(3)));
    assert_eq!(whole.tokens.len(), 24);
    for chunk in [1, 7] {
        let cut = run_one(
            &mut tale.engine(chunk, 1),
            tale.request(PROMPTS[6], Some(3)),
        );
        assert_eq!(cut.tokens, whole.tokens);
    }
}

#[test]
fn a_stop_text_ends_the_answer_and_does_not_show() {
    let tale = Tale::load();
    let whole = run_one(&mut tale.engine(512, 1), tale.request(PROMPTS[0], None));
    let middle = whole
        .text
        .char_indices()
        .nth(whole.text.chars().count() / 2)
        .unwrap()
        .0;
    let stop: String = whole.text[middle..].chars().take(6).collect();
    let mut request = tale.request(PROMPTS[0], None);
    request.stop = vec!["never seen".into(), stop.clone()];
    let answer = run_one(&mut tale.engine(512, 1), request);
    assert_eq!(answer.finish.unwrap().0, FinishReason::Stop(1));
    assert_eq!(answer.text, whole.text[..whole.text.find(&stop).unwrap()]);
}

#[test]
fn the_next_turn_computes_only_what_is_new() {
    let tale = Tale::load();
    let mut engine = tale.engine(512, 1);
    let first = tale.request(PROMPTS[2], None);
    let mut prompt = first.prompt.clone();
    prompt.extend(run_one(&mut engine, first).tokens);
    prompt.extend(tale.tokenizer.encode(" And then", EncodeOptions::default()));
    let next = Request {
        prompt: prompt.clone(),
        ..tale.request("", None)
    };
    let warm = run_one(&mut engine, next.clone());
    let cold = run_one(&mut tale.engine(512, 1), next.clone());
    assert_eq!(warm.tokens, cold.tokens);
    assert_eq!(cold.usage().cached_tokens, 0);
    let cached = warm.usage().cached_tokens;
    assert!(cached > prompt.len() - 8, "{cached} of {}", prompt.len());
    // The same once more: all but the last token, whose logits are needed.
    let again = run_one(&mut engine, next.clone());
    assert_eq!(again.tokens, cold.tokens);
    assert_eq!(again.usage().cached_tokens, prompt.len() - 1);

    let mut stranger = next.clone();
    stranger.client = ClientId(7);
    let mut recluse = next;
    recluse.cache = false;
    for request in [stranger, recluse] {
        let answer = run_one(&mut engine, request);
        assert_eq!(answer.tokens, cold.tokens);
        assert_eq!(answer.usage().cached_tokens, 0);
    }
    engine.clear_cache();
    assert_eq!(engine.free_pages(), 1024 / PAGE, "no page is lost");
}

#[test]
fn log_probabilities_are_those_of_the_tokens() {
    let tale = Tale::load();
    let mut engine = tale.engine(512, 1);
    let request = Request {
        logprobs: Some(3),
        ..tale.request(PROMPTS[0], None)
    };
    engine.submit(request).unwrap();
    let mut seen = 0;
    while !engine.is_idle() {
        engine.step(&mut |event| {
            if let EventKind::Token {
                token, logprobs, ..
            } = event.kind
            {
                let logprobs = logprobs.unwrap();
                // The greedy choice is the likeliest token.
                assert_eq!(logprobs.chosen.token, token);
                assert_eq!(logprobs.top[0], logprobs.chosen);
                assert_eq!(logprobs.top.len(), 3);
                assert!(logprobs.top.iter().all(|t| t.logprob <= 0.0));
                seen += 1;
            }
        });
    }
    assert_eq!(seen, 24);
}

#[test]
fn an_answer_ends_where_the_context_does() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[0], None);
    request.max_tokens = None;
    request.ignore_end = true;
    let answer = run_one(&mut tale.engine(512, 1), request);
    let (reason, usage) = answer.finish.unwrap();
    assert_eq!(reason, FinishReason::ContextFull);
    assert_eq!(usage.prompt_tokens + usage.generated_tokens, 256);
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let tale = Tale::load();
    let mut engine = tale.engine(512, 1);
    let pages = engine.free_pages();
    let mut submit = |prompt: Vec<u32>| {
        let request = Request {
            prompt,
            ..tale.request("", None)
        };
        engine.submit(request).err()
    };
    assert_eq!(submit(vec![]), Some(SubmitError::EmptyPrompt));
    assert_eq!(
        submit(vec![5, 8192]),
        Some(SubmitError::Token {
            token: 8192,
            vocabulary: 8192
        })
    );
    assert_eq!(
        submit(vec![5; 256]),
        Some(SubmitError::TooLong {
            tokens: 256,
            context: 256
        })
    );
    assert_eq!(submit(vec![5]), None);
    assert!(engine.cancel(RequestId(1)));
    assert!(!engine.cancel(RequestId(1)));
    assert!(engine.is_idle());
    assert_eq!(engine.free_pages(), pages, "no page is lost");
}

#[test]
fn an_answer_that_is_cut_inside_a_character_ends_before_it() {
    let tale = Tale::load();
    let tokens = 0..tale.tokenizer.vocab_size() as u32;
    let half = |id: &u32| tale.tokenizer.token_bytes(*id).as_deref() == Some(b"\xc3");
    let half = tokens.clone().find(half).expect("a token for each byte");
    let mut request = tale.request("A fox", None);
    request.max_tokens = Some(1);
    request.sampling.logit_bias = vec![(half, 1000.0)];
    let answer = run_one(&mut tale.engine(512, 1), request);
    assert_eq!((answer.tokens.as_slice(), &*answer.text), (&[half][..], ""));
    assert_eq!(answer.reason(), FinishReason::Length);
}

#[test]
fn a_request_is_queued_then_computed_then_answered() {
    let tale = Tale::load();
    let mut engine = tale.engine(8, 1);
    let first = engine.submit(tale.request(PROMPTS[6], None)).unwrap();
    let second = engine.submit(tale.request(PROMPTS[0], None)).unwrap();
    let third = engine.submit(tale.request(PROMPTS[1], None)).unwrap();
    let total = tale.request(PROMPTS[6], None).prompt.len();
    assert_eq!(engine.standing(RequestId(99)), None);
    let queued = |ahead| Some(Standing::Queued { ahead });
    let all = [first, second, third].map(|id| engine.standing(id));
    assert_eq!(all, [queued(0), queued(1), queued(2)]);
    engine.step(&mut |_| {});
    let prefill = Some(Standing::Prefill { done: 8, total });
    let all = [first, second, third].map(|id| engine.standing(id));
    assert_eq!(all, [prefill, queued(0), queued(1)]);
    let mut seen = vec![prefill];
    while !engine.is_idle() {
        let standing = engine.standing(first);
        if seen.last() != Some(&standing) {
            seen.push(standing);
        }
        engine.step(&mut |_| {});
    }
    assert_eq!(seen.last(), Some(&None));
    assert_eq!(seen[seen.len() - 2], Some(Standing::Decode));
}
