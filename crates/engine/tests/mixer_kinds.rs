//! Every kind of mixer through the whole engine: how an answer is computed never shows in it. Instruction sets and workers
//! change from one batch to the next; `every_machine_gives_the_same_answers` has all of them with everything.

use crate::recurrent::{LOOKUP, alone, assert_all_same, requests};
use crate::recurrent_cache::{after, assert_same};
use crate::stateful::{Machine, Shape, Stateful, assert_no_leak};
use strata_engine::{ModelDigest, Request, Session, Speculation};
use strata_model::PAGE;

/// Recurrences alone, with attention, beside attention; with experts; networks as layers of their own.
pub(crate) const RECURRENT: [&str; 15] = [
    "lfm2",
    "mamba",
    "mamba2",
    "jamba",
    "granitehybrid",
    "falcon-h1",
    "nemotron_h_moe",
    "qwen3next",
    "qwen35-mtp",
    "rwkv6",
    "arwkv7",
    "kimi-linear",
    "minimax-01",
    "recurrent-gemma",
    "rwkv4",
];

/// Attention: plain, with windows, chunks and sinks; of short vectors; with biases by distance; over shared keys; behind gates,
/// with heads by layer; with routers that see a layer's input.
const ATTENTION: [&str; 10] = [
    "llama",
    "glm4moe-mtp",
    "mistral-window",
    "gpt-oss",
    "llama4",
    "deepseek2",
    "bloom",
    "gemma3n",
    "laguna",
    "smallthinker",
];

fn kinds() -> impl Iterator<Item = &'static str> {
    RECURRENT.into_iter().chain(ATTENTION)
}

/// What drafts: texts, and the model's own layer where it has one.
fn drafts(name: &str) -> Speculation {
    if name.ends_with("-mtp") {
        Speculation::Auto { max_draft: 6 }
    } else {
        LOOKUP
    }
}

/// Slots for states: none where there are no states.
fn state_slots(name: &str, states: Option<usize>) -> Option<usize> {
    if ATTENTION.contains(&name) {
        Some(0)
    } else {
        states
    }
}

/// Batches of several sizes, with and without drafts, on these machines in turn.
fn assert_no_difference(name: &str, machines: &[Machine]) {
    let model = Stateful::named(name);
    let mut plain = requests(&model, 6);
    // Long enough to come back to what was said.
    plain[0].max_tokens = Some(200);
    let alone = alone(&model, &plain);
    let guessing: Vec<Request> = plain
        .iter()
        .map(|request| Request {
            speculation: drafts(name),
            ..request.clone()
        })
        .collect();
    let shapes = [(7, 3), (33, 6), (512, 6)];
    for ((batch, slots), machine) in shapes.into_iter().zip(machines.iter().cycle()) {
        let shape = Shape {
            batch,
            requests: slots,
            max_draft: 8,
            machine: *machine,
            states: state_slots(name, None),
            ..Shape::default()
        };
        assert_all_same(&model, shape, &plain, &alone);
        let counters = assert_all_same(&model, shape, &guessing, &alone);
        assert!(counters.drafted_tokens > 0, "{name}");
    }
}

#[test]
fn batches_chunks_drafts_and_machines_change_nothing() {
    let machines = Machine::all();
    for (index, name) in kinds().enumerate() {
        let mut machines = machines.clone();
        machines.rotate_left(3 * index % Machine::all().len());
        assert_no_difference(name, &machines);
    }
}

/// Minutes: `cargo test -p strata-engine --release --test engine -- --ignored every_machine`.
#[test]
#[ignore = "takes minutes"]
fn every_machine_gives_the_same_answers() {
    for name in kinds() {
        for machine in Machine::all() {
            assert_no_difference(name, &[machine]);
            displace(name, machine);
            go_on(name, machine);
        }
    }
}

#[test]
fn an_engine_says_what_the_executor_says_token_by_token() {
    for name in kinds() {
        let model = Stateful::named(name);
        let request = model.request(2, 2 * PAGE + 7, 20);
        let expected = model.greedy(&request.prompt, 20);
        assert_eq!(model.alone(&request).tokens, expected, "{name}");
    }
}

#[test]
fn pages_without_bytes_are_within_any_memory() {
    let model = Stateful::named("mamba");
    let mut request = model.request(2, PAGE + 7, 20);
    let expected = model.alone(&request).tokens;
    request.limits.memory = Some(1);
    assert_eq!(model.alone(&request).tokens, expected);
}

#[test]
fn displaced_requests_come_back_with_the_same_answer() {
    for (name, machine) in kinds().zip(Machine::all().into_iter().cycle()) {
        displace(name, machine);
    }
}

fn displace(name: &str, machine: Machine) {
    let model = Stateful::named(name);
    let requests: Vec<Request> = (0..4)
        .map(|seed| model.request(seed, 20 + 13 * seed as usize, 60))
        .collect();
    let alone = alone(&model, &requests);
    let shape = Shape {
        pages: 6,
        states: state_slots(name, Some(4)),
        batch: 64,
        requests: 4,
        max_draft: 0,
        machine,
        ..Shape::default()
    };
    let counters = assert_all_same(&model, shape, &requests, &alone);
    // Layers with windows give pages back before others need them.
    let windows = ATTENTION.contains(&name) || name == "recurrent-gemma";
    assert!(counters.preemptions > 0 || windows, "{name}");
}

#[test]
fn beginnings_turns_and_sessions_go_on_from_their_states() {
    for (name, machine) in kinds().zip(Machine::all().into_iter().rev().cycle()) {
        go_on(name, machine);
    }
}

/// How much of a prompt another has in common with what came of it.
fn common_tokens(prompt: &[u32], other: &[u32], answer: &[u32]) -> usize {
    let text = other.iter().chain(answer);
    prompt.iter().zip(text).take_while(|(a, b)| a == b).count()
}

fn go_on(name: &str, machine: Machine) {
    let model = Stateful::named(name);
    let shape = Shape {
        batch: 64,
        max_draft: 6,
        machine,
        states: state_slots(name, None),
        ..Shape::default()
    };
    let digest = ModelDigest([7; 32]);
    let mut engine = model.engine(shape).with_digest(digest);
    let first = model.request(0, 3 * PAGE + 10, 12);
    assert_eq!(assert_same(&model, &mut engine, &first), 0, "{name}");
    let next = after(&model, &first.prompt, 1, 20);
    let cached = assert_same(&model, &mut engine, &next);
    // States are kept where pages end; keys and values of every token.
    let attends = ATTENTION.contains(&name);
    let whole = |tokens: usize| {
        if attends {
            tokens
        } else {
            tokens / PAGE * PAGE
        }
    };
    // The answer may begin as the other prompt goes on.
    let common = common_tokens(&next.prompt, &first.prompt, &model.alone(&first).tokens);
    assert_eq!(cached, whole(common), "{name}");
    let mut turn = first.clone();
    turn.prompt.extend(model.alone(&first).tokens);
    turn.prompt.extend([3, 4, 5]);
    turn.speculation = drafts(name);
    let cached = assert_same(&model, &mut engine, &turn);
    assert_eq!(cached, first.prompt.len() + 11, "{name}");

    let settings = model.request(1, 2 * PAGE + 5, 20);
    let mut session = Session::open(settings.clone());
    session.run(&mut engine, &mut |_| {}).unwrap();
    session.append(&[4, 5]);
    let saved = session.save(&mut engine);
    let expected = model.alone(&session.request()).tokens;
    let here = session.run(&mut engine, &mut |_| {}).unwrap();
    assert_eq!(here.tokens, expected, "{name}");
    let mut there = model.engine(shape).with_digest(digest);
    let mut restored = Session::restore(&mut there, settings, &saved).unwrap();
    let same = restored.run(&mut there, &mut |_| {}).unwrap();
    assert_eq!(same.tokens, expected, "{name}");
    let kept = if attends { 2 * PAGE } else { 2 * PAGE + 24 };
    assert_eq!(same.usage.cached_tokens, kept, "{name}");
    restored.forget(&mut there);
    assert_no_leak(&mut there, shape);
    assert_no_leak(&mut engine, shape);
}
