//! Calls are told as they are written, in whatever pieces they come.

use super::*;
use alloc::string::ToString;
use alloc::vec::Vec;

fn read(text: &str, step: usize) -> Vec<(String, String, bool)> {
    let (mut reader, tools) = (CallReader::default(), ["f".to_string(), "g".to_string()]);
    let mut calls: Vec<(String, String, bool)> = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(step) {
        let piece: String = piece.iter().collect();
        reader.feed(&piece, &tools, &mut |part| match part {
            Part::Begin(name) => calls.push((name, String::new(), false)),
            Part::Arguments(text) => calls.last_mut().unwrap().1.push_str(&text),
            Part::End => calls.last_mut().unwrap().2 = true,
        });
    }
    assert_eq!(reader.read(), text.len());
    calls
}

#[test]
fn arguments_are_told_as_they_are_written() {
    for step in [1, 2, 5, 100] {
        let one = read(
            "\n{\"id\": [1, {\"x\": \"}\"}], \"name\": \"f\", \"arguments\": {\"a\": \"}\\\"]{\", \"b\": [{}]}}\n",
            step,
        );
        let text = "{\"a\": \"}\\\"]{\", \"b\": [{}]}";
        assert_eq!(one, [("f".into(), text.into(), true)]);
        let two = read(
            "[{\"name\":\"f\",\"parameters\":{}}, {\"name\":\"g\",\"arguments\":{\"é\":\"漢\n😀\"}}]",
            step,
        );
        assert_eq!(two[0], ("f".into(), "{}".into(), true));
        assert_eq!(two[1], ("g".into(), "{\"é\":\"漢\\n😀\"}".into(), true));
        let cut = read("{\"name\":\"f\",\"arguments\":{\"a\":[1", step);
        assert_eq!(cut, [("f".into(), "{\"a\":[1".into(), false)]);
    }
}

#[test]
fn what_is_written_otherwise_is_left_alone() {
    for text in [
        "",
        "hello {\"name\":\"f\",\"arguments\":{}}",
        "{\"name\":\"unknown\",\"arguments\":{}}",
        "{\"arguments\":{},\"name\":\"f\"}",
        "{\"name\":\"f\",\"arguments\":\"{}\"}",
        "{\"name\":\"f\",\"arguments\":[1]}",
        "[{\"name\":\"unknown\",\"arguments\":{}},{\"name\":\"f\",\"arguments\":{}}]",
        "[{\"name\":\"g\"},{\"name\":\"f\",\"arguments\":{}}]",
        "{\"name\":3,\"arguments\":{}}",
        "{name:\"f\"}",
    ] {
        assert_eq!(read(text, 1), [], "{text}");
    }
}
