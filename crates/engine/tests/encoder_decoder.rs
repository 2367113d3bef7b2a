//! Encoder-decoders through the whole engine: batches, drafts, machines, preemption, what is cached and what is saved change how
//! an answer is computed, never the answer; and a source is shared only as a whole.

use crate::recurrent::{LOOKUP, alone, assert_all_same};
use crate::recurrent_cache::assert_same;
use crate::stateful::{Machine, Shape, Stateful, assert_no_leak};
use crate::tale::run;
use strata_engine::{
    AdapterId, Choices, Engine, ModelDigest, Pooling, Request, Session, Speculation, SubmitError,
    Task,
};
use strata_model::{Output, PAGE, Sequence, Span};

const START: u32 = 0;

/// A source of so many tokens, and the token that begins an answer.
fn prompt(model: &Stateful, seed: u64, source: usize) -> Vec<u32> {
    let mut tokens = model.prompt(seed, source);
    tokens.iter_mut().for_each(|token| *token = 3 + *token % 61);
    tokens.push(START);
    tokens
}

fn request(model: &Stateful, seed: u64, source: usize, more: usize) -> Request {
    Request {
        prompt: prompt(model, seed, source),
        ..model.request(seed, 1, more)
    }
}

/// Requests of many lengths, greedy and sampled in turn.
fn requests(model: &Stateful) -> Vec<Request> {
    let lengths = [5, 40, 3 * PAGE, 1, 70, 2 * PAGE + 1];
    let requests = (0..).zip(lengths);
    let mut requests: Vec<Request> = requests
        .map(|(seed, source)| request(model, seed, source, 30 + seed as usize))
        .collect();
    // Long enough to come back to what was said.
    requests[0].max_tokens = Some(150);
    requests
}

fn without_states(shape: Shape) -> Shape {
    Shape {
        states: Some(0),
        ..shape
    }
}

#[test]
fn batches_drafts_and_machines_change_nothing() {
    for (name, machines) in ["t5", "t5-gated"].into_iter().zip(Machine::all().chunks(3)) {
        let model = Stateful::named(name);
        let plain = requests(&model);
        let alone = alone(&model, &plain);
        let guessing: Vec<Request> = plain
            .iter()
            .map(|request| Request {
                speculation: LOOKUP,
                ..request.clone()
            })
            .collect();
        let shapes = [(98, 3), (110, 6), (512, 6)];
        for ((batch, slots), machine) in shapes.into_iter().zip(machines.iter().cycle()) {
            let shape = without_states(Shape {
                batch,
                requests: slots,
                max_draft: 8,
                machine: *machine,
                ..Shape::default()
            });
            assert_all_same(&model, shape, &plain, &alone);
            let counters = assert_all_same(&model, shape, &guessing, &alone);
            assert!(counters.drafted_tokens > 0, "{name}");
        }
    }
}

#[test]
fn an_engine_says_what_the_executor_says_token_by_token() {
    let model = Stateful::named("t5");
    let shape = without_states(Shape::default());
    let request = request(&model, 2, 2 * PAGE + 7, 20);
    let source = request.prompt.len() - 1;
    let mut executor = model.executor(shape);
    let mut table = executor.page_table();
    let (mut sequence, mut tokens) = (Sequence::default(), request.prompt.clone());
    sequence.set_source(source);
    let mut from = 0;
    for _ in 0..20 {
        table.reserve(&mut sequence, tokens.len() - from).unwrap();
        let span = Span {
            sequence: &mut sequence,
            tokens: &tokens[from..],
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        let logits = executor.forward(&table, &mut [span]).unwrap().logits;
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        from = tokens.len();
        tokens.push(best.unwrap() as u32);
    }
    let answer = model.alone(&request).tokens;
    assert_eq!(answer, tokens[request.prompt.len()..]);
}

#[test]
fn displaced_requests_come_back_with_the_same_answer() {
    let model = Stateful::named("t5");
    let requests: Vec<Request> = (0..4)
        .map(|seed| request(&model, seed, 20 + 13 * seed as usize, 60))
        .collect();
    let alone = alone(&model, &requests);
    let shape = without_states(Shape {
        pages: 6,
        batch: 66,
        requests: 4,
        ..Shape::default()
    });
    let counters = assert_all_same(&model, shape, &requests, &alone);
    assert!(counters.preemptions > 0);
}

#[test]
fn a_source_is_shared_as_a_whole_or_not_at_all() {
    let model = Stateful::named("t5");
    let shape = without_states(Shape::default());
    let mut engine = model.engine(shape);
    let first = request(&model, 0, 3 * PAGE + 10, 12);
    let source = first.prompt.len() - 1;
    assert_eq!(assert_same(&model, &mut engine, &first), 0);
    // The same source is read once, and so are its keys and values made.
    let again = Request {
        sampling: request(&model, 1, 1, 1).sampling,
        ..first.clone()
    };
    assert_eq!(assert_same(&model, &mut engine, &again), source);
    // One that begins so is another, and so is one that ends sooner, even where a page ends.
    let mut longer = first.clone();
    longer.prompt.splice(source..source, [9, 10]);
    assert_eq!(assert_same(&model, &mut engine, &longer), 0);
    for end in [2 * PAGE, 3 * PAGE, 3 * PAGE + 5] {
        let mut shorter = first.clone();
        shorter.prompt.drain(end..source);
        assert_eq!(assert_same(&model, &mut engine, &shorter), 0, "{end}");
    }
    // An answer that goes on shares what was written of it.
    let mut on = first.clone();
    on.prompt.extend(model.alone(&first).tokens);
    assert_eq!(
        assert_same(&model, &mut engine, &on),
        first.prompt.len() + 11
    );
    assert_no_leak(&mut engine, shape);
}

#[test]
fn several_answers_read_their_source_once() {
    let model = Stateful::named("t5");
    let shape = without_states(Shape {
        requests: 3,
        ..Shape::default()
    });
    let mut several = request(&model, 1, 50, 10);
    several.choices = Choices::Sample { n: 3, best_of: 3 };
    let mut engine = model.engine(shape);
    engine.submit(several.clone()).unwrap();
    let answers = run(&mut engine);
    assert_eq!(answers.len(), 1);
    // 51 tokens of the prompt, once; its last token once more for each of the others, and ten of each answer but the last.
    let computed: f64 = engine.counters().batch_tokens.sum;
    assert_eq!(computed, 51.0 + 2.0 + 3.0 * 9.0);
    let beams = Request {
        choices: Choices::Beams {
            width: 3,
            n: 2,
            length_penalty: 1.0,
        },
        ..several
    };
    let mut engine = model.engine(shape);
    engine.submit(beams).unwrap();
    assert!(run(&mut engine).values().all(|a| a.failure.is_none()));
    assert_no_leak(&mut engine, shape);
}

#[test]
fn sessions_go_on_after_they_were_saved() {
    let model = Stateful::named("t5");
    let shape = without_states(Shape::default());
    let digest = ModelDigest([7; 32]);
    let engine = || -> Engine { model.engine(shape).with_digest(digest) };
    let settings = request(&model, 1, 2 * PAGE + 5, 40);
    let (mut here, mut there) = (engine(), engine());
    let mut session = Session::open(settings.clone());
    session.run(&mut here, &mut |_| {}).unwrap();
    session.append(&[4, 5]);
    let saved = session.save(&mut here);
    let expected = model.alone(&session.request()).tokens;
    let same = session.run(&mut here, &mut |_| {}).unwrap();
    assert_eq!(same.tokens, expected);
    let mut restored = Session::restore(&mut there, settings.clone(), &saved).unwrap();
    let same = restored.run(&mut there, &mut |_| {}).unwrap();
    assert_eq!(same.tokens, expected);
    assert!(same.usage.cached_tokens >= 3 * PAGE);
    restored.forget(&mut there);
    // Pages that end inside a source are of no use.
    let mut early = Session::open(Request {
        max_tokens: Some(3),
        ..settings.clone()
    });
    early.run(&mut here, &mut |_| {}).unwrap();
    let saved = early.save(&mut here);
    let expected = model.alone(&early.request()).tokens;
    let mut restored = Session::restore(&mut there, early.request(), &saved).unwrap();
    let again = restored.run(&mut there, &mut |_| {}).unwrap();
    assert_eq!(again.tokens, expected);
    assert_eq!(again.usage.cached_tokens, 0);
    assert_no_leak(&mut there, shape);
    assert_no_leak(&mut here, shape);
}

#[test]
fn what_an_encoder_decoder_cannot_do_is_refused() {
    let model = Stateful::named("t5");
    let mut engine = model.engine(without_states(Shape {
        batch: 40,
        requests: 2,
        ..Shape::default()
    }));
    let mut refusal = |change: &dyn Fn(&mut Request)| {
        let mut request = request(&model, 2, 30, 5);
        change(&mut request);
        engine.submit(request).unwrap_err()
    };
    let source = |prompt: Vec<u32>| move |request: &mut Request| request.prompt = prompt.clone();
    assert_eq!(refusal(&source(vec![5, 6])), SubmitError::Source);
    assert_eq!(refusal(&source(vec![START, 6])), SubmitError::Source);
    let long = SubmitError::SourceTooLong {
        tokens: 40,
        room: 39,
    };
    assert_eq!(refusal(&source(prompt(&model, 1, 40))), long);
    let changes: [&dyn Fn(&mut Request); 4] = [
        &|request| request.task = Task::Embed(Pooling::Mean),
        &|request| request.prompt_logprobs = Some(1),
        &|request| request.adapter = Some(AdapterId(1)),
        &|request| request.speculation = Speculation::DraftModel { max_draft: 2 },
    ];
    for change in changes {
        let refused = refusal(change);
        let known = matches!(
            refused,
            SubmitError::Unsupported { .. }
                | SubmitError::NoAdapter { .. }
                | SubmitError::NoDraftModel
        );
        assert!(known, "{refused}");
    }
    assert!(engine.is_idle());
}
