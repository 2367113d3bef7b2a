//! Beam search against a plain one, whatever else runs and however little memory there is.

use crate::spelling::{Fault, Rhythm};
use crate::tale::{Answer, Tale, run_one};
use std::collections::BTreeMap;
use strata_engine::{
    Choices, Constraint, ConstraintError, Engine, EngineOptions, FinishReason, Request,
    RequestError, RequestId, SubmitError, TokenMask,
};

fn engine(tale: &Tale, pages: usize, requests: usize) -> Engine {
    let options = EngineOptions {
        context: 256,
        requests,
        ..EngineOptions::default()
    };
    tale.engine_with(pages, options)
}

/// The tokens that may come after some.
fn allowed(tale: &Tale, rhythm: Option<&Rhythm>, tokens: &[u32]) -> TokenMask {
    let mut mask = TokenMask::new(tale.model.config().vocabulary);
    match rhythm {
        None => mask.allow_all(),
        Some(rhythm) => {
            let mut rhythm = rhythm.clone();
            tokens.iter().for_each(|&t| rhythm.accept(t).unwrap());
            rhythm.allowed(&mut mask).unwrap();
        }
    }
    mask
}

/// The search as it is told in textbooks, one text at a time. A text that a token ends is as long as what was scored,
/// that token included.
fn plain(
    tale: &Tale,
    prompt: &[u32],
    (width, length, penalty): (usize, usize, f64),
    rhythm: Option<&Rhythm>,
) -> Vec<Vec<u32>> {
    let mut engine = engine(tale, 64, 1);
    let mut beams = vec![(0.0, Vec::new())];
    let mut done: Vec<(f64, Vec<u32>)> = Vec::new();
    let rank = |score: f64, length: usize| score / (length as f64).powf(penalty);
    while done.len() < width {
        let mut steps = Vec::new();
        for (parent, (score, tokens)) in beams.iter().enumerate() {
            let mut request = tale.request("", None);
            request.prompt = [prompt, tokens].concat();
            request.logprobs = Some(match rhythm {
                None => 2 * width,
                Some(_) => tale.model.config().vocabulary,
            });
            request.max_tokens = Some(1);
            request.ignore_end = true;
            let answer = run_one(&mut engine, request);
            let mask = allowed(tale, rhythm, tokens);
            let top = &answer.logprobs[0].as_ref().unwrap().top;
            let top = top.iter().filter(|next| mask.is_allowed(next.token));
            for next in top.take(2 * width) {
                steps.push((score + f64::from(next.logprob), parent, next.token));
            }
        }
        steps.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut next = Vec::new();
        for (place, &(score, parent, token)) in steps.iter().enumerate() {
            let mut tokens: Vec<u32> = beams[parent].1.clone();
            if next.len() == width {
                break;
            }
            if tale.tokenizer.is_end_of_generation(token) {
                if place < width {
                    done.push((rank(score, tokens.len() + 1), tokens));
                }
                continue;
            }
            tokens.push(token);
            if rhythm.is_some_and(|rhythm| rhythm.length == tokens.len()) {
                if place < width {
                    done.push((rank(score, tokens.len()), tokens));
                }
                continue;
            }
            next.push((score, tokens));
        }
        beams = next;
        if beams.first().is_some_and(|beam| beam.1.len() == length) {
            done.extend(
                beams
                    .iter()
                    .map(|(score, tokens)| (rank(*score, tokens.len()), tokens.clone())),
            );
            break;
        }
    }
    done.sort_by(|a, b| b.0.total_cmp(&a.0));
    done.into_iter().map(|(_, tokens)| tokens).collect()
}

fn search(engine: &mut Engine, request: Request) -> Vec<Answer> {
    let id = engine.submit(request).unwrap();
    let mut answers = BTreeMap::<(RequestId, usize), Answer>::new();
    while !engine.is_idle() {
        engine.step(&mut |event| {
            let answer = answers.entry((event.request, event.choice)).or_default();
            answer.take(event.kind);
        });
    }
    let mine = answers
        .into_iter()
        .filter(|((request, _), _)| *request == id);
    mine.map(|(_, answer)| answer).collect()
}

#[test]
fn the_texts_are_those_of_a_plain_search() {
    let tale = Tale::load();
    let story = tale.request(
        "Once upon a time there was a little girl who lived near",
        None,
    );
    let question = Request {
        prompt: tale.turn("Hello!"),
        ..tale.request("", None)
    };
    for (request, width, n, penalty) in [(&story, 4, 2, 1.0), (&question, 3, 3, 0.5)] {
        let sizes = (width, 24, f64::from(penalty));
        let expected = plain(&tale, &request.prompt, sizes, None);
        // Plenty of room; fewer places than texts; hardly any pages.
        for (pages, requests) in [(64, 8), (64, 2), (6, 3)] {
            let mut engine = engine(&tale, pages, requests);
            for other in ["A fox", "The king said"] {
                engine.submit(tale.request(other, Some(1))).unwrap();
            }
            let mut request = request.clone();
            request.choices = Choices::Beams {
                n,
                width,
                length_penalty: penalty,
            };
            let answers = search(&mut engine, request);
            assert_eq!(answers.len(), n);
            for (answer, expected) in answers.iter().zip(&expected) {
                assert_eq!(&answer.tokens, expected, "{pages} pages, {requests} places");
                assert_eq!(answer.usage().generated_tokens, expected.len());
                assert!(matches!(
                    answer.reason(),
                    FinishReason::Length | FinishReason::EndOfTurn(_)
                ));
            }
            engine.clear_cache();
            assert_eq!(engine.free_pages(), pages, "no page is lost");
            assert_eq!(engine.counters().finished, 3);
        }
    }
}

#[test]
fn a_constraint_holds_for_every_beam_and_a_faulty_one_ends_the_search() {
    let tale = Tale::load();
    let beams = |rhythm: Rhythm| Request {
        choices: Choices::Beams {
            n: 3,
            width: 3,
            length_penalty: 1.0,
        },
        constraint: Some(Box::new(rhythm)),
        logprobs: Some(2),
        ..tale.request("Once upon a time there was", None)
    };
    let rhythm = Rhythm::new(10);
    let request = beams(rhythm.clone());
    let expected = plain(&tale, &request.prompt, (3, 24, 1.0), Some(&rhythm));
    assert_eq!(expected.len(), 3);
    for (pages, requests) in [(64, 8), (4, 2)] {
        let mut engine = engine(&tale, pages, requests);
        let answers = search(&mut engine, request.clone());
        for (answer, expected) in answers.iter().zip(&expected) {
            assert_eq!(&answer.tokens, expected);
            assert!(rhythm.holds(&answer.tokens));
            assert_eq!(answer.reason(), FinishReason::Complete);
            // Alternatives are told whether they were allowed or not.
            let told = answer.logprobs.iter().flatten();
            assert!(told.clone().all(|told| told.top.len() == 2));
            assert!(told.flat_map(|told| &told.top).any(|t| t.token % 3 != 1));
        }
        engine.clear_cache();
        assert_eq!(engine.free_pages(), pages, "no page is lost");
    }
    let mut engine = engine(&tale, 64, 8);
    let faulty = Rhythm {
        fault: Some((2, Fault::Error)),
        ..rhythm
    };
    let answers = search(&mut engine, beams(faulty));
    let error = RequestError::Constraint(ConstraintError::DeadEnd);
    assert_eq!(answers[0].failure, Some(error));
    engine.clear_cache();
    assert_eq!(engine.free_pages(), 64, "no page is lost");
}

#[test]
fn what_beams_cannot_have_is_refused() {
    let tale = Tale::load();
    let mut engine = engine(&tale, 16, 4);
    let beams = |n, width| Choices::Beams {
        n,
        width,
        length_penalty: 1.0,
    };
    let mut request = tale.request("Hello", None);
    request.choices = beams(3, 2);
    let refused = engine.submit(request.clone());
    assert_eq!(refused, Err(SubmitError::Choices { n: 3, generated: 2 }));
    request.choices = beams(1, 2);
    request.prompt_logprobs = Some(0);
    let refused = engine.submit(request);
    assert!(matches!(refused, Err(SubmitError::Unsupported { .. })));
}

#[test]
fn a_stop_text_ends_a_beam_and_log_probabilities_are_told() {
    let tale = Tale::load();
    let ranked = |stop: &[&str], logprobs, length_penalty| Request {
        stop: stop.iter().map(|text| (*text).into()).collect(),
        logprobs,
        choices: Choices::Beams {
            n: 2,
            width: 3,
            length_penalty,
        },
        ..tale.request("Once upon a time there was a little girl", None)
    };
    let request = |stop: &[&str], logprobs| ranked(stop, logprobs, 1.0);
    let run = |request| search(&mut engine(&tale, 64, 4), request);
    let plain = run(request(&[], None));
    assert!(
        plain
            .iter()
            .all(|answer| answer.logprobs.iter().all(Option::is_none))
    );
    // Nothing is found, so nothing changes, whatever is told.
    for (stop, logprobs) in [
        ("no such text", None),
        ("", Some(2)),
        ("no such text", Some(20)),
    ] {
        for (answer, plain) in run(request(&[stop], logprobs)).iter().zip(&plain) {
            assert_eq!((&answer.tokens, &answer.text), (&plain.tokens, &plain.text));
            for (token, told) in answer.tokens.iter().zip(&answer.logprobs) {
                assert_eq!(told.is_some(), logprobs.is_some());
                if let Some(told) = told {
                    assert_eq!(told.chosen.token, *token);
                    assert_eq!(told.top.len(), logprobs.unwrap_or(0));
                    assert!(told.top[0].logprob >= told.chosen.logprob);
                }
            }
        }
    }
    // The middle of what came is what it must stop at: a few bytes that no token has to itself.
    let text = &plain[0].text;
    let middle: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let (from, to) = (middle[middle.len() / 2], middle[middle.len() / 2 + 5]);
    let stop = &text[from..to];
    let answers = run(request(&["no such text", stop], None));
    assert_eq!(answers.len(), 2);
    assert_ne!(answers[0].text, plain[0].text);
    for answer in &answers {
        assert!(!answer.text.contains(stop), "{stop:?} in {:?}", answer.text);
        assert_eq!(answer.usage().generated_tokens, answer.tokens.len());
    }
    // Where length does not count for anything, the one that stopped is before those that had to go on.
    let answers = run(ranked(&["no such text", stop], None, 0.0));
    assert_eq!(answers[0].reason(), FinishReason::Stop(1));
    assert_eq!(answers[0].text, text[..from]);
}
