//! Answers that must have a form.

use crate::support::tale;
use strata::{Error, ErrorKind, Format, Json, Request, user};

fn ask() -> Request {
    tale().chat([user("Who is the hero?")]).temperature(0.0)
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn an_answer_follows_its_json_schema() {
    let schema = br#"{
        "type": "object",
        "properties": {
            "animal": {"enum": ["fox", "owl"]},
            "friends": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2},
            "age": {"type": "integer", "minimum": 1, "maximum": 9}
        },
        "required": ["animal", "friends", "age"],
        "additionalProperties": false
    }"#;
    let schema = Json::parse(schema).unwrap();
    let text = ask().json_schema(schema).text().unwrap();
    let hero = Json::parse(text.as_bytes()).unwrap();
    let keys: Vec<&str> = hero
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, _)| &**key)
        .collect();
    assert_eq!(keys, ["animal", "friends", "age"], "{text}");
    assert!(["fox", "owl"].contains(&hero.get("animal").unwrap().as_str().unwrap()));
    let friends = hero.get("friends").unwrap().as_array().unwrap();
    assert!(friends.len() <= 2);
    assert!(
        friends
            .iter()
            .all(|name| name.as_str().unwrap().chars().count() <= 8)
    );
    assert!(matches!(hero.get("age"), Some(Json::Int(1..=9))), "{text}");
}

#[test]
fn an_answer_matches_its_regular_expression() {
    let text = ask().regex("[0-9]{3}-(fox|owl)").text().unwrap();
    let (number, animal) = text.split_once('-').unwrap();
    assert!(
        number.len() == 3 && number.bytes().all(|b| b.is_ascii_digit()),
        "{text}"
    );
    assert!(["fox", "owl"].contains(&animal), "{text}");
}

#[test]
fn an_answer_is_what_its_grammar_or_its_choices_allow() {
    let text = ask().grammar(r#"root ::= "yes" | "no""#).text().unwrap();
    assert!(["yes", "no"].contains(&&*text), "{text}");
    let choices = ["a tall tree", "a small stone"].map(String::from);
    let text = ask()
        .format(Format::Choice(choices.to_vec()))
        .text()
        .unwrap();
    assert!(choices.contains(&text), "{text}");
}

#[test]
fn a_form_that_does_not_compile_is_refused_before_anything_runs() {
    let schema = Json::parse(br#"{"type": "no such type"}"#).unwrap();
    assert_eq!(
        kind(ask().json_schema(schema).stream()),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(ask().regex("[a-").stream()),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        kind(ask().grammar("root ::= missing").stream()),
        ErrorKind::InvalidArgument
    );
}

/// An object that says nothing of other properties, which small models would add until their tokens run out.
#[test]
fn json_comes_to_an_end_without_being_told_to() {
    let schema = br#"{
        "type": "object",
        "properties": {"animal": {"enum": ["fox", "owl"]}, "age": {"type": "integer", "maximum": 99}},
        "required": ["animal", "age"]
    }"#;
    let schema = Json::parse(schema).unwrap();
    for seed in 0..6 {
        let ask = tale().chat([user("Describe the hero.")]).seed(seed);
        let request = ask.temperature(1.0).max_tokens(64);
        let answer = request.json_schema(schema.clone()).run().unwrap();
        let text = &answer.text;
        let hero = Json::parse(text.as_bytes());
        let hero = hero.unwrap_or_else(|error| panic!("seed {seed}: {error}: {text}"));
        assert_eq!(hero.as_object().map(<[_]>::len), Some(2), "{text}");
        assert!(!text.contains("  ") || text.starts_with("{\n"), "{text}");
    }
}
