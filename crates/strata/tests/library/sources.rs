//! Encoder-decoders through the library: a prompt is a source, in a chat too, and what stands in a session before its first run.

use crate::support::{greedy, open};
use std::path::Path;
use strata::{Error, ErrorKind, Generate, Model, Options, Prompt, Session, assistant, user};

const SOURCE: &str = "an eros tin is on an arena";

fn t5(options: Options) -> Model {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden/t5.gguf");
    open(golden, options).unwrap()
}

fn complete(model: &Model, prompt: &str) -> String {
    let request = model.complete(prompt).temperature(0.0).max_tokens(12);
    request.text().unwrap()
}

#[test]
fn a_prompt_is_a_source_through_every_door() {
    let model = t5(Options::default());
    let answer = complete(&model, SOURCE);
    assert!(!answer.is_empty());
    // A random model may answer both with its favourite token, so this one is drawn.
    let draw = |prompt: &str| {
        let request = model.complete(prompt).temperature(2.0).seed(7);
        request.max_tokens(12).text().unwrap()
    };
    assert_ne!(draw(SOURCE), draw("an eros tin"));
    let chat = |messages: Vec<strata::Message>| {
        let request = model.chat(messages).temperature(0.0).max_tokens(12);
        request.text().unwrap()
    };
    assert_eq!(chat(vec![user(SOURCE)]), answer);
    // What was said is one source, a line each.
    let said = vec![user("an eros"), assistant("tin"), user("is on")];
    assert_eq!(chat(said), complete(&model, "an eros\ntin\nis on"));
    let mut session = model.session();
    session.append(SOURCE);
    let (first, second) = (
        session.run(7, &greedy()).unwrap(),
        session.run(5, &greedy()).unwrap(),
    );
    assert_eq!(first + &second, answer);
    // Tokens are taken as they are: whose source has no end is another.
    let words = model.tokenize(SOURCE);
    assert_eq!(words.last(), session.tokens().get(words.len() - 1));
}

#[test]
fn a_saved_session_goes_on_with_its_source() {
    let open = || t5(Options::default().sessions(true));
    let model = open();
    let mut session = model.session();
    session.append(&SOURCE.repeat(2));
    session.run(40, &greedy()).unwrap();
    let saved = session.save().unwrap();
    let expected = session.run(10, &greedy()).unwrap();
    let model = open();
    let mut restored = Session::restore(&model, saved).unwrap();
    assert_eq!(restored.run(10, &greedy()).unwrap(), expected);
    assert!(model.counters().cached_tokens >= 32);
}

#[test]
fn what_a_source_does_not_have_is_refused() {
    let model = t5(Options::default());
    let refused = |result: Result<_, Error>| result.err().map(|error| error.kind());
    let embedded = model.embed(["an eros"]).map(|_| ());
    assert_eq!(refused(embedded), Some(ErrorKind::Unsupported));
    let scored = model.score("an eros").map(|_| ());
    assert_eq!(refused(scored), Some(ErrorKind::Unsupported));
    let mut before = Generate::new("", Prompt::text("is on"));
    before.before = model.tokenize("an eros tin");
    before.max_tokens = Some(3);
    assert!(model.generate(&before).is_ok());
    let long = "an ".repeat(400);
    let request = model.complete(&*long).max_tokens(3).text().map(|_| ());
    assert_eq!(refused(request), Some(ErrorKind::ContextExceeded));
}
