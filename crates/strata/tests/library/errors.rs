//! What goes wrong, by its kind.

use crate::support::{greedy, open, tale, tale_file};
use std::fmt::Debug;
use std::time::Duration;
use strata::{Error, ErrorKind, Model, Options, Stream, user};

fn kind<T: Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_model_that_is_not_there_is_not_found() {
    let error = open("no-such-model.gguf", Options::default()).unwrap_err();
    assert_eq!(error.code(), "not_found");
    assert!(error.to_string().contains("no-such-model.gguf"), "{error}");
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("strata list"))
    );
    assert_eq!(
        kind(Model::plan("no-such-model", &Options::default())),
        ErrorKind::NotFound
    );
    let draft = Options::default().draft_model("no-such-model");
    assert_eq!(kind(open("tale", draft)), ErrorKind::NotFound);
    let adapter = Options::default().adapter("no-such-adapter.gguf", 1.0);
    assert_eq!(kind(open("tale", adapter)), ErrorKind::NotFound);
}

#[test]
fn a_damaged_file_is_an_invalid_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.gguf");
    let whole = tale_file();
    for (damage, bytes) in [
        ("cut in the weights", &whole[..whole.len() / 2]),
        ("cut in the metadata", &whole[..1000]),
        ("not a model", b"once upon a time"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(
            kind(open(&path, Options::default())),
            ErrorKind::InvalidModel,
            "{damage}"
        );
    }
}

#[test]
fn too_little_memory_is_told_before_anything_is_loaded() {
    for stream in [Stream::Auto, Stream::Never] {
        let tight = Options::default().memory("1M").stream(stream);
        let error = open("tale", tight.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("1.0 MB"), "{error}");
        assert!(!Model::plan("tale", &tight).unwrap().fits);
    }
}

#[test]
fn options_that_make_no_sense_are_invalid_arguments() {
    for size in ["lots", "-1G", "6X", ""] {
        let options = Options::default().memory(size);
        let error = open("tale", options.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{size:?}");
        assert!(error.to_string().contains(&format!("{size:?}")), "{error}");
        assert_eq!(
            kind(Model::plan("tale", &options)),
            ErrorKind::InvalidArgument
        );
    }
    let quantized = Options::default().quantize(strata::Mix::Q4KM);
    assert_eq!(kind(open("tale", quantized)), ErrorKind::InvalidArgument);
    assert_eq!(
        kind(open("tale", Options::default().context(0))),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_prompt_that_does_not_fit_exceeds_the_context() {
    let model = open("tale", Options::default().context(48)).unwrap();
    let long = "a fox and an owl ".repeat(20);
    assert_eq!(
        kind(model.chat([user(&*long)]).text()),
        ErrorKind::ContextExceeded
    );
    assert_eq!(
        kind(model.complete(&*long).stream()),
        ErrorKind::ContextExceeded
    );
    assert_eq!(kind(model.embed([&*long])), ErrorKind::ContextExceeded);
    assert_eq!(kind(model.score(&long)), ErrorKind::ContextExceeded);
    let mut session = model.session();
    session.append(&long);
    assert_eq!(kind(session.run(1, &greedy())), ErrorKind::ContextExceeded);
    // What fits is answered until the context is full.
    let answer = model.complete("a fox").temperature(0.0);
    let mut answer = answer.clone();
    answer.generate_mut().ignore_end = true;
    let usage = answer.run().unwrap().usage;
    assert_eq!(usage.prompt_tokens + usage.generated_tokens, 48);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    assert_eq!(kind(tale().complete("").text()), ErrorKind::InvalidArgument);
    let ask = || tale().complete("a fox").max_tokens(4);
    let mut none = ask();
    none.generate_mut().choices = 0;
    assert_eq!(kind(none.text()), ErrorKind::InvalidArgument);
    assert_eq!(
        kind(ask().temperature(f32::NAN).text()),
        ErrorKind::InvalidArgument
    );
    assert_eq!(kind(ask().adapter(0, 1.0).text()), ErrorKind::NotFound);
    assert_eq!(
        kind(tale().session().run(4, &greedy())),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn an_answer_that_takes_too_long_times_out() {
    let request = tale()
        .complete("a fox")
        .time_limit(Duration::from_micros(1));
    assert_eq!(kind(request.text()), ErrorKind::TimedOut);
}
