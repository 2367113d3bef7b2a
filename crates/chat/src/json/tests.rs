//! What clients send and get must survive the way through unchanged, and what is wrong must be named.

use super::{Fields, Json, JsonPath, parse_body};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

#[test]
fn keys_keep_their_order_and_numbers_their_kind() {
    let text = r#"{"z":1,"a":[1.0,-2,18446744073709551615,0.1,1e300],"m":{"b":null,"a":true}}"#;
    assert_eq!(Json::parse(text.as_bytes()).unwrap().text(), text);
}

#[test]
fn text_is_escaped_where_it_must_be() {
    let text = "\"\\\n\r\t\u{1}\u{7f}é漢😀";
    let written = Json::from(text).text();
    assert_eq!(written, "\"\\\"\\\\\\n\\r\\t\\u0001\\u007fé漢😀\"");
    assert_eq!(
        Json::parse(written.as_bytes()).unwrap().as_str(),
        Some(text)
    );
}

#[test]
fn numbers_without_a_form_become_null_and_floats_stay_short() {
    assert_eq!(Json::from(f64::NAN).text(), "null");
    assert_eq!(Json::from(f32::NEG_INFINITY).text(), "null");
    assert_eq!(Json::from(0.1_f32).text(), "0.1");
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\":1}x",
        "nul",
        "\"\\ud800\"",
        "1e999",
        "\"\n\"",
    ] {
        let error = Json::parse(text.as_bytes()).unwrap_err();
        assert!(error.line >= 1, "{text:?}: {error}");
    }
    assert!(Json::parse(b"\"\xff\"").is_err());
    let deep: Vec<u8> = [b'['; 100_000].into();
    assert!(Json::parse(&deep).is_err());
}

#[test]
fn fields_are_taken_apart_and_named_when_wrong() {
    let mut fields =
        Fields::parse(br#"{"n":3.0,"t":"x","w":"low","l":[1,"a"],"o":{"p":1},"gone":null}"#)
            .unwrap();
    assert_eq!(fields.maybe_integer("n", 0..=5).unwrap(), Some(3));
    assert_eq!(
        fields.maybe_word("w", &[("low", 1), ("high", 2)]).unwrap(),
        Some(1)
    );
    assert_eq!(fields.maybe_number("absent", 0.0..=1.0).unwrap(), None);
    let list = fields.take("l").unwrap();
    let fault = fields.at("l").strings(list).unwrap_err();
    assert_eq!(fault.message, "l[0]: must be a string, not an integer");
    let inner = fields.maybe_object("o").unwrap().unwrap();
    assert_eq!(inner.finish().unwrap_err().field.as_deref(), Some("o.p"));
    assert_eq!(fields.finish().unwrap_err().message, "t: is not supported");
}

#[test]
fn a_body_that_says_two_things_under_one_name_is_refused() {
    for (body, key) in [
        (r#"{"n":1,"t":2,"n":1}"#, "n"),
        (r#"{"a":[{"b":{"k":1,"k":2}}]}"#, "k"),
        (r#"{"k":1,"\u006b":2}"#, "k"),
    ] {
        let fault = Fields::parse(body.as_bytes()).unwrap_err();
        let expected = format!("the body has the key {key:?} twice in one object");
        assert_eq!(fault.message, expected);
    }
    assert!(Fields::parse(br#"{"a":{"k":1},"b":{"k":1},"k":[{"k":1},{"k":1}]}"#).is_ok());
}

#[test]
fn numbers_out_of_range_say_what_the_range_is() {
    let path = JsonPath::root().field("n");
    let message = |value: Json| path.integer(&value, 0..=5).unwrap_err().message;
    assert_eq!(message(6_i64.into()), "n: must be an integer from 0 to 5");
    assert_eq!(message(2.5.into()), "n: must be an integer from 0 to 5");
    assert_eq!(message("x".into()), "n: must be an integer, not a string");
    let fault = path.number(&Json::Int(3), 0.0..=2.0).unwrap_err();
    assert_eq!(
        fault.message.to_string(),
        format!("n: must be a number from 0 to 2")
    );
    let fault = Fields::parse(b"[]").unwrap_err();
    assert_eq!(
        fault.message,
        "the body must be a JSON object, not an array"
    );
}

#[test]
fn values_are_counted_before_they_take_memory() {
    assert!(Json::parse_within(b"[1, {\"a\": 2}]", 4).is_ok());
    let error = Json::parse_within(b"[1, {\"a\": 2}]", 3).unwrap_err();
    assert_eq!(error.what, "there are too many values");
    let many = alloc::format!("[{}0]", "0,".repeat(crate::budgets::VALUES_OF_A_BODY));
    assert!(parse_body(many.as_bytes()).is_err());
    assert!(Json::parse(b"[] 1").is_err());
}
