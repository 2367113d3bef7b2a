//! Guessing ahead changes how fast an answer comes, never the answer.

use crate::tale::{Answer, PAGES, Tale, load, run, run_one};
use std::sync::Arc;
use strata_engine::sampling::{
    Dry, Lookback, Mirostat, Penalties, SampleError, SamplerSettings, Xtc,
};
use strata_engine::{
    ClientId, Engine, EngineOptions, EventKind, FinishReason, Request, RequestError, RequestId,
    Speculation, SubmitError, VocabularyMismatch,
};
use strata_model::PAGE;
use strata_tokenizer::EncodeOptions;

const LOOKUP: Speculation = Speculation::PromptLookup { max_draft: 8 };
const DRAFT: Speculation = Speculation::DraftModel { max_draft: 6 };

const PROMPTS: [&str; 6] = [
    "Once upon a time",
    "The king said",
    "A fox and a hen. A fox and a hen. A fox and a",
    "Hello",
    "It was a dark and stormy night, and the wind was howling through the trees. Little Tom",
    "one two three one two three one two",
];

/// An engine that guesses, with a draft model.
fn engine(tale: &Tale, draft: &Tale, batch: usize, requests: usize) -> Engine {
    drafting(tale, draft, PAGES, options(batch, requests))
}

/// Options with room for drafts of eight.
fn options(batch: usize, requests: usize) -> EngineOptions {
    EngineOptions {
        context: 256,
        batch,
        requests,
        max_draft: 8,
        ..EngineOptions::default()
    }
}

/// An engine whose draft model has so many pages.
fn drafting(tale: &Tale, draft: &Tale, pages: usize, options: EngineOptions) -> Engine {
    tale.engine_with(PAGES, options)
        .with_draft_model(draft.executor(pages, &options), &draft.tokenizer)
        .unwrap()
}

fn with(request: &Request, speculation: Speculation) -> Request {
    Request {
        speculation,
        ..request.clone()
    }
}

#[track_caller]
fn assert_same(plain: &Answer, guessed: &Answer) {
    assert_eq!(plain.tokens, guessed.tokens);
    assert_eq!(plain.text, guessed.text);
    assert_eq!(plain.logprobs, guessed.logprobs);
    assert_eq!(plain.reason(), guessed.reason());
    let (plain_usage, usage) = (plain.usage(), guessed.usage());
    assert_eq!(plain_usage.generated_tokens, usage.generated_tokens);
    assert_eq!(
        (plain_usage.drafted_tokens, plain_usage.accepted_tokens),
        (0, 0)
    );
    assert!(usage.accepted_tokens <= usage.drafted_tokens);
    assert!(usage.accepted_tokens <= usage.generated_tokens + 1);
}

/// The request without guesses and with each drafter; returns what the drafters did.
#[track_caller]
fn assert_all_same(tale: &Tale, draft: &Tale, batch: usize, request: &Request) -> [Answer; 3] {
    let plain = run_one(&mut tale.engine(batch, 1), request.clone());
    let [lookup, drafted] = [LOOKUP, DRAFT].map(|speculation| {
        let mut engine = engine(tale, draft, batch, 1);
        let answer = run_one(&mut engine, with(request, speculation));
        assert_same(&plain, &answer);
        answer
    });
    [plain, lookup, drafted]
}

#[test]
fn guesses_change_no_token_whatever_the_prompt_seed_and_chunk() {
    let (tale, dimmed) = (Tale::load(), Tale::dimmed());
    let (mut lookups, mut drafts, mut wrong) = (0, 0, 0);
    for seed in [None, Some(7)] {
        for (prompt, batch) in PROMPTS.iter().zip([1, 7, 512, 2, 512, 3]) {
            let mut request = tale.request(prompt, seed);
            request.max_tokens = Some(40);
            request.logprobs = Some(2);
            let [_, lookup, draft] = assert_all_same(&tale, &dimmed, batch, &request);
            lookups += lookup.usage().accepted_tokens;
            drafts += draft.usage().accepted_tokens;
            wrong += draft.usage().drafted_tokens - draft.usage().accepted_tokens;
        }
    }
    assert!(lookups > 0 && drafts > 0, "{lookups} {drafts}");
    assert!(wrong > 0, "the draft model was never wrong");
}

#[test]
fn a_clients_other_texts_are_guessed_from_and_nobody_elses() {
    let tale = Tale::load();
    let mut request = with(&tale.request("Once upon a time", None), LOOKUP);
    request.max_tokens = Some(40);
    let plain = with(&request, Speculation::Off);
    let plain = run_one(&mut tale.engine(512, 1), plain);
    let mut engine = tale.engine_with(PAGES, options(512, 2));
    let ask = |engine: &mut Engine, client, cache| {
        let client = ClientId(client);
        let request = Request {
            client,
            cache,
            ..request.clone()
        };
        let answer = run_one(engine, request);
        assert_same(&plain, &answer);
        answer.usage().accepted_tokens
    };
    let first = ask(&mut engine, 1, true);
    let again = ask(&mut engine, 1, true);
    assert!(again > first + 15, "{first} and then {again}");
    assert_eq!(ask(&mut engine, 2, true), first, "another client's text");
    assert_eq!(ask(&mut engine, 1, false), first, "it keeps to itself");
    engine.clear_cache();
    assert_eq!(ask(&mut engine, 1, true), first, "forgotten");

    // A text that is still being written.
    let mut engine = tale.engine_with(PAGES, options(512, 2));
    engine.submit(request.clone()).unwrap();
    for _ in 0..30 {
        engine.step(&mut |_| {});
    }
    assert!(!engine.is_idle());
    engine.submit(request.clone()).unwrap();
    let late = run(&mut engine).into_values().next_back().unwrap();
    assert_eq!(late.tokens, plain.tokens);
    assert!(late.usage().accepted_tokens > first + 10);
}

#[test]
fn requests_that_guess_differently_share_a_batch() {
    let (tale, dimmed) = (Tale::load(), Tale::dimmed());
    for seed in [None, Some(5)] {
        let alone: Vec<Answer> = PROMPTS
            .iter()
            .map(|prompt| run_one(&mut tale.engine(512, 1), tale.request(prompt, seed)))
            .collect();
        for batch in [6, 21, 512] {
            let mut engine = engine(&tale, &dimmed, batch, PROMPTS.len());
            let kinds = [DRAFT, LOOKUP, LOOKUP, Speculation::Off, DRAFT, LOOKUP];
            for (prompt, kind) in PROMPTS.iter().zip(kinds) {
                let request = with(&tale.request(prompt, seed), kind);
                engine.submit(request).unwrap();
            }
            let together = run(&mut engine);
            for (plain, guessed) in alone.iter().zip(together.values()) {
                assert_same(plain, guessed);
            }
            engine.clear_cache();
            assert_eq!(engine.free_pages(), 1024 / PAGE, "no page is lost");
            assert_eq!(engine.free_draft_pages(), 1024 / PAGE, "no page is lost");
        }
    }
}

#[test]
fn every_sampler_chooses_the_same() {
    let (tale, dimmed) = (Tale::load(), Tale::dimmed());
    let base = SamplerSettings {
        seed: 11,
        ..SamplerSettings::llama_cpp()
    };
    let settings = [
        SamplerSettings {
            penalties: Penalties {
                lookback: Lookback::Last(32),
                repeat: 1.2,
                frequency: 0.1,
                presence: 0.1,
            },
            dry: Dry {
                multiplier: 0.8,
                ..Dry::default()
            },
            ..base.clone()
        },
        SamplerSettings {
            mirostat: Mirostat::V2 { tau: 3.0, eta: 0.1 },
            ..base.clone()
        },
        SamplerSettings {
            xtc: Xtc {
                probability: 0.5,
                threshold: 0.1,
            },
            temperature: 1.3,
            ..base
        },
    ];
    for sampling in settings {
        let mut request = tale.request(PROMPTS[2], None);
        request.sampling = sampling;
        request.max_tokens = Some(60);
        assert_all_same(&tale, &dimmed, 512, &request);
    }
}

/// How many steps a request took.
fn steps(engine: &mut Engine, request: Request) -> (usize, Answer) {
    engine.submit(request).unwrap();
    let (mut steps, mut answer) = (0, Answer::default());
    while !engine.is_idle() {
        steps += 1;
        engine.step(&mut |event| answer.take(event.kind));
    }
    (steps, answer)
}

#[test]
fn a_model_that_drafts_for_itself_is_always_right() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[0], None);
    request.max_tokens = Some(120);
    let mut engine = engine(&tale, &tale, 512, 1);
    let (steps, answer) = steps(&mut engine, with(&request, DRAFT));
    let usage = answer.usage();
    assert_eq!(usage.accepted_tokens, usage.drafted_tokens);
    assert_eq!(answer.tokens.len(), 120);
    // Each step gives a token for the model and one for each guess.
    assert_eq!(steps + usage.accepted_tokens, 120);
    assert!(steps < 120 / 5, "{steps} steps");
}

#[test]
fn a_draft_model_forgets_its_wrong_guesses() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[0], Some(2));
    // Mostly right, so that it goes on guessing.
    request.sampling.temperature = 0.5;
    request.max_tokens = Some(150);
    request.logprobs = Some(1);
    request.speculation = DRAFT;
    let mut engine = engine(&tale, &tale, 512, 1);
    engine.submit(request).unwrap();
    let (mut wrong, mut missed) = (0, 0);
    while !engine.is_idle() {
        let mut likeliest = Vec::new();
        engine.step(&mut |event| {
            if let EventKind::Token {
                token, logprobs, ..
            } = event.kind
            {
                likeliest.push(logprobs.unwrap().top[0].token == token);
            }
        });
        // A model guesses its own likeliest token, unless it remembers what was never said.
        match likeliest[..] {
            [true] => missed += 1,
            _ => wrong += usize::from(likeliest.last() == Some(&false)),
        }
    }
    assert!(wrong > 2, "{wrong} wrong guesses");
    // The first token comes with the prompt, and now and then nothing is guessed; with a wrong memory it is dozens.
    assert!(missed <= 15, "{missed} missed");
}

#[test]
fn text_that_repeats_itself_comes_in_few_steps() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[1], None);
    // The surest repetition: one token for ever.
    request.sampling.logit_bias = vec![(300, 1000.0)];
    request.max_tokens = Some(150);
    let plain = run_one(&mut tale.engine(512, 1), request.clone());
    let mut engine = tale.engine_with(PAGES, options(512, 1));
    let (steps, answer) = steps(&mut engine, with(&request, LOOKUP));
    assert_eq!(plain.tokens, answer.tokens);
    let usage = answer.usage();
    assert_eq!(steps + usage.accepted_tokens, 150);
    assert!(2 * steps < 150, "{steps} steps, {usage:?}");
}

#[test]
fn text_that_does_not_repeat_itself_is_seldom_guessed() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[0], Some(21));
    request.sampling.temperature = 3.0;
    request.sampling.top_k = 0;
    request.sampling.top_p = 1.0;
    request.sampling.min_p = 0.0;
    request.ignore_end = true;
    request.max_tokens = Some(150);
    let dimmed = Tale::dimmed();
    let [_, lookup, draft] = assert_all_same(&tale, &dimmed, 512, &request);
    assert!(draft.usage().drafted_tokens < 48, "{:?}", draft.usage());
    assert!(lookup.usage().drafted_tokens < 24, "{:?}", lookup.usage());
}

#[test]
fn an_answer_ends_inside_a_right_guess_as_it_would_without() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[0], None);
    request.ignore_end = true;
    for max_tokens in [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 500] {
        request.max_tokens = Some(max_tokens);
        let [plain, ..] = assert_all_same(&tale, &tale, 512, &request);
        let reason = if max_tokens == 500 {
            FinishReason::ContextFull
        } else {
            FinishReason::Length
        };
        assert_eq!(plain.reason(), reason);
    }
    request.max_tokens = None;
    let [plain, ..] = assert_all_same(&tale, &tale, 512, &request);
    assert_eq!(plain.reason(), FinishReason::ContextFull);
}

#[test]
fn a_stop_text_inside_a_right_guess_ends_the_answer_there() {
    let tale = Tale::load();
    let mut request = tale.request(PROMPTS[0], None);
    request.max_tokens = Some(60);
    let whole = run_one(&mut tale.engine(512, 1), request.clone()).text;
    for (at, _) in whole.char_indices().skip(4).step_by(23) {
        let stop: String = whole[at..].chars().take(5).collect();
        request.stop = vec![stop];
        let [plain, ..] = assert_all_same(&tale, &tale, 512, &request);
        if whole[at..].chars().count() >= 5 {
            assert_eq!(plain.reason(), FinishReason::Stop(0));
        }
    }
}

#[test]
fn the_end_of_a_turn_inside_a_guess_is_the_end() {
    let tale = Tale::load();
    let mut within = 0;
    for question in ["Hello!", "Who are you?", "What is two plus two?"] {
        let mut request = tale.request("", None);
        request.prompt = tale.turn(question);
        request.max_tokens = Some(120);
        let [plain, _, own] = assert_all_same(&tale, &tale, 512, &request);
        assert!(matches!(plain.reason(), FinishReason::EndOfTurn(_)));
        // Guesses after the end are never right.
        within += own.usage().drafted_tokens - own.usage().accepted_tokens;
    }
    assert!(within > 0, "no turn ended inside a draft");
}

#[test]
fn the_next_turn_goes_on_from_both_caches() {
    let (tale, dimmed) = (Tale::load(), Tale::dimmed());
    let converse = |speculation| {
        let mut engine = engine(&tale, &dimmed, 512, 1);
        let first = with(&tale.request(PROMPTS[4], None), speculation);
        let mut prompt = first.prompt.clone();
        let first = run_one(&mut engine, first);
        prompt.extend(&first.tokens);
        prompt.extend(tale.tokenizer.encode(" And then", EncodeOptions::default()));
        let next = Request {
            prompt,
            ..tale.request("", Some(2))
        };
        let second = run_one(&mut engine, with(&next, speculation));
        let cached = second.usage().cached_tokens;
        engine.clear_cache();
        assert_eq!(engine.free_pages(), 1024 / PAGE, "no page is lost");
        assert_eq!(engine.free_draft_pages(), 1024 / PAGE, "no page is lost");
        (first.tokens, second.tokens, cached)
    };
    let plain = converse(Speculation::Off);
    assert_eq!(converse(LOOKUP), plain);
    assert_eq!(converse(DRAFT), plain);
}

#[test]
fn a_draft_cache_that_is_too_small_only_means_no_guesses() {
    let tale = Tale::load();
    let mut engine = drafting(&tale, &tale, 1, options(512, 1));
    let request = with(&tale.request(PROMPTS[0], None), DRAFT);
    let mut longer = request.clone();
    longer.max_tokens = Some(100);
    longer.ignore_end = true;
    let plain = run_one(&mut tale.engine(512, 1), with(&longer, Speculation::Off));
    let answer = run_one(&mut engine, longer);
    assert_same(&plain, &answer);
    let drafted = answer.usage().drafted_tokens;
    assert!((1..=PAGE).contains(&drafted), "{drafted}");
}

#[test]
fn an_engine_without_room_for_guesses_makes_none() {
    let tale = Tale::load();
    let request = with(&tale.request(PROMPTS[5], None), LOOKUP);
    let answer = run_one(&mut tale.engine(512, 1), request);
    assert_eq!(answer.tokens.len(), 24);
    assert_eq!(answer.usage().drafted_tokens, 0);
}

#[test]
fn a_draft_model_of_another_vocabulary_is_refused() {
    let tale = Tale::load();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden/llama.gguf"
    );
    let tiny = Tale {
        model: load(&std::fs::read(path).unwrap()),
        tokenizer: Arc::clone(&tale.tokenizer),
    };
    let executor = tiny.executor(2, &options(512, 1));
    let error = tale
        .engine(512, 1)
        .with_draft_model(executor, &tale.tokenizer)
        .err();
    let token = tiny.model.config().vocabulary as u32;
    assert_eq!(error, Some(VocabularyMismatch { token }));

    let request = with(&tale.request(PROMPTS[0], None), DRAFT);
    let refused = tale.engine(512, 1).submit(request);
    assert_eq!(refused, Err(SubmitError::NoDraftModel));
}

#[test]
fn a_request_that_fails_leaves_the_others_their_answers() {
    let tale = Tale::load();
    let mut bad = tale.request(PROMPTS[1], None);
    let vocabulary = tale.model.config().vocabulary as u32;
    bad.sampling.logit_bias = (0..vocabulary).map(|t| (t, f32::NEG_INFINITY)).collect();
    let good = tale.request(PROMPTS[0], Some(4));
    let plain = run_one(&mut tale.engine(512, 1), good.clone());
    for speculation in [LOOKUP, DRAFT] {
        let mut engine = engine(&tale, &tale, 512, 3);
        let mut first = Answer::default();
        engine.submit(with(&good, speculation)).unwrap();
        for _ in 0..3 {
            engine.step(&mut |event| first.take(event.kind));
        }
        engine.submit(bad.clone()).unwrap();
        engine.submit(with(&good, speculation)).unwrap();
        let answers = run(&mut engine);
        let error = RequestError::Sample(SampleError::AllBanned);
        assert_eq!(answers[&RequestId(2)].failure, Some(error));
        first.tokens.extend(&answers[&RequestId(1)].tokens);
        assert_eq!(first.tokens, plain.tokens);
        assert_eq!(answers[&RequestId(3)].tokens, plain.tokens);
    }
}
