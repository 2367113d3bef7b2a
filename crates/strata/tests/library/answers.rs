//! Answers in the forms they come in: whole, in pieces, from a future, as events.

use crate::support::{block_on, open, tale, tale_with_template};
use strata::{Event, Finish, Options, Request, user};

fn story() -> Request {
    let request = tale().chat([user("Tell me a story about a fox.")]);
    request.temperature(0.0).max_tokens(40)
}

#[test]
fn a_greedy_answer_is_the_same_each_time() {
    let (first, second) = (story().run().unwrap(), story().run().unwrap());
    assert_eq!(first.text, second.text);
    assert!(first.text.contains("fox"), "{first:?}");
    assert_eq!(first.finish, Some(Finish::Length));
    assert_eq!(first.usage.generated_tokens, 40);
    assert!(first.usage.prompt_tokens > 8);
    assert!(first.thinking.is_empty() && first.calls.is_empty());
}

#[test]
fn a_seed_makes_sampling_repeatable_and_none_makes_it_differ() {
    let ask = || story().temperature(1.5);
    let seeded = || ask().seed(7).text().unwrap();
    assert_eq!(seeded(), seeded());
    assert_ne!(ask().text().unwrap(), ask().text().unwrap());
}

#[test]
fn pieces_join_to_the_text_and_nothing_follows() {
    let mut answer = story().stream().unwrap();
    let joined: String = answer.by_ref().map(|delta| delta.unwrap().text).collect();
    assert_eq!(joined, story().text().unwrap());
    assert_eq!(answer.finish_reason(), Some(&Finish::Length));
    assert_eq!(answer.usage().generated_tokens, 40);
    assert!(answer.next().is_none() && answer.next().is_none());
}

#[test]
fn an_answer_can_be_finished_in_the_middle() {
    let whole = story().text().unwrap();
    let mut answer = story().stream().unwrap();
    let first = answer.next().unwrap().unwrap().text;
    let rest = answer.finish().unwrap();
    assert_eq!(first + &rest.text, whole);
    assert_eq!(rest.finish, Some(Finish::Length));
}

#[test]
fn a_future_gives_the_same_answer_as_waiting() {
    let whole = story().run().unwrap();
    let finished = block_on(async { story().stream_async().unwrap().finish().await });
    assert_eq!(finished.unwrap().text, whole.text);
    let joined = block_on(async {
        let mut answer = story().stream_async().unwrap();
        let mut text = String::new();
        while let Some(delta) = answer.next().await {
            text += &delta.unwrap().text;
        }
        assert_eq!(answer.finish_reason(), whole.finish.as_ref());
        assert!(answer.next().await.is_none());
        text
    });
    assert_eq!(joined, whole.text);
}

#[test]
fn a_stop_text_ends_the_answer_before_it() {
    let whole = story().text().unwrap();
    let stop = whole.split_whitespace().nth(5).unwrap();
    let stopped = story().stop(stop).run().unwrap();
    assert_eq!(stopped.finish, Some(Finish::StopText(stop.into())));
    assert_eq!(stopped.text, whole[..whole.find(stop).unwrap()]);
}

#[test]
fn several_choices_come_apart_by_their_numbers() {
    let mut request = story().temperature(1.5).seed(3);
    request.generate_mut().choices = 2;
    let mut texts = [String::new(), String::new()];
    for delta in request.clone().stream().unwrap() {
        let delta = delta.unwrap();
        texts[delta.choice] += &delta.text;
    }
    assert!(texts.iter().all(|text| !text.is_empty()));
    assert_ne!(texts[0], texts[1]);
    assert_eq!(request.clone().text().unwrap(), texts[0]);
    assert_eq!(request.run().unwrap().usage.generated_tokens, 80);
}

#[test]
fn events_end_once_and_then_there_are_none() {
    let mut events = story().max_tokens(3).events().unwrap();
    let mut all = Vec::new();
    while !events.has_ended() {
        all.extend(events.next_blocking());
    }
    assert!(matches!(all.first(), Some(Event::Started { .. })));
    let ends = |event: &&Event| matches!(event, Event::Done { .. } | Event::Failed(_));
    assert_eq!(all.iter().filter(ends).count(), 1);
    assert!(matches!(all.last(), Some(Event::Done { usage, .. }) if *usage == events.usage()));
    assert!(!events.has_failed() && events.failure().is_none());
    assert_eq!(events.next_blocking(), []);
    assert_eq!(events.next_within(std::time::Duration::MAX), Ok(Vec::new()));
}

#[test]
fn thinking_is_told_apart_from_the_answer() {
    const OPEN: &str = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n\
                        {% endfor %}<|im_start|>assistant\n<think>\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thinker.gguf");
    std::fs::write(&path, tale_with_template(OPEN)).unwrap();
    let model = open(&path, Options::default()).unwrap();
    assert_eq!(model.facts().name, "thinker");
    let ask = || model.chat([user("Why?")]).temperature(0.0).max_tokens(12);
    let thought = ask().run().unwrap();
    assert!(thought.text.is_empty() && !thought.thinking.is_empty());
    assert_eq!(thought.message().thinking, Some(thought.thinking.clone()));
    // A constraint is for the answer: what the template opened is closed first.
    let constrained = ask().regex("[a-z]{3,8}").run().unwrap();
    assert!(constrained.thinking.is_empty());
    assert!((3..=8).contains(&constrained.text.len()), "{constrained:?}");
}
