//! What requests mean.

use super::LLAMA;
use std::time::Duration;
use strata_chat::{Fault, Format, Generate, Prompt, PromptPart, SlotAction, TokenOrText};
use strata_wire::call::Call;

fn read(path: &str, body: &str) -> Result<Generate, Fault> {
    match LLAMA.open("POST", path, body.as_bytes()).unwrap()? {
        Call::Generate(request, _) => Ok(*request),
        _ => panic!("{path} asks for text"),
    }
}

/// A completion's request, with these fields besides its prompt.
fn completion(fields: &str) -> Result<Generate, Fault> {
    let comma = if fields.is_empty() { "" } else { "," };
    read(
        "/completion",
        &format!(r#"{{"prompt":"x"{comma}{fields}}}"#),
    )
}

#[test]
fn every_form_of_prompt_is_understood() {
    let prompts = |text: &str| {
        read("/completion", &format!(r#"{{"prompt":{text}}}"#)).map(|request| request.prompts)
    };
    let text = |text: &str| PromptPart::Text(text.into());
    let tokens = |list: &[u32]| PromptPart::Tokens(list.into());
    let raw = |pieces: &[PromptPart]| Prompt::Raw(pieces.into());
    assert_eq!(prompts(r#""a""#), Ok([raw(&[text("a")])].into()));
    assert_eq!(prompts("[1,2]"), Ok([raw(&[tokens(&[1, 2])])].into()));
    let mixed = raw(&[tokens(&[1]), text("a"), tokens(&[2, 3])]);
    assert_eq!(prompts(r#"[1,"a",2,3]"#), Ok([mixed.clone()].into()));
    assert_eq!(
        prompts(r#"["a",[1,"a",2,3],[4],{"prompt_string":"b"}]"#),
        Ok([
            raw(&[text("a")]),
            mixed,
            raw(&[tokens(&[4])]),
            raw(&[text("b")])
        ]
        .into())
    );
    for (bad, place) in [
        ("[]", "prompt"),
        ("[[]]", "prompt[0]"),
        ("[1,-2]", "prompt[1]"),
        ("[1,[2]]", "prompt[1]"),
        ("true", "prompt"),
        (
            r#"{"prompt_string":"b","multimodal_data":["aGk="]}"#,
            "prompt.multimodal_data",
        ),
    ] {
        let fault = prompts(bad).err().unwrap();
        assert_eq!(fault.field.as_deref(), Some(place), "{bad}");
    }
}

#[test]
fn the_beginning_of_an_answer_goes_on() {
    let chat = |fields: &str| {
        let messages = r#"[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]"#;
        let body = format!(r#"{{"messages":{messages}{fields}}}"#);
        let request = read("/chat/completions", &body).unwrap();
        (request.continues, request.closed)
    };
    assert_eq!(chat(""), (true, false));
    assert_eq!(chat(r#","continue_final_message":false"#), (false, false));
    assert_eq!(chat(r#","add_generation_prompt":true"#), (false, false));
    assert_eq!(chat(r#","add_generation_prompt":false"#), (false, true));
}

#[test]
fn silence_leaves_sampling_to_the_model() {
    let request = completion("").unwrap();
    assert_eq!(request.sampling, Default::default());
    assert!(request.cache && !request.stream);
    let seed = |text: &str| {
        completion(&format!(r#""seed":{text}"#))
            .unwrap()
            .sampling
            .seed
    };
    assert_eq!(
        [seed("-1"), seed("4294967295"), seed("3")],
        [None, None, Some(3)]
    );
    let limit = |text: &str| {
        completion(&format!(r#""n_predict":{text}"#))
            .unwrap()
            .max_tokens
    };
    assert_eq!(
        [limit("-1"), limit("0"), limit("3")],
        [None, Some(0), Some(3)]
    );
    let limit = completion(r#""t_max_predict_ms":50"#).unwrap().time_limit;
    assert_eq!(limit, Some(Duration::from_millis(50)));
    let bias = completion(r#""logit_bias":[["x",false],[5,-1.5]]"#).unwrap();
    assert_eq!(
        bias.sampling.logit_bias,
        [
            (TokenOrText::Text("x".into()), f32::NEG_INFINITY),
            (TokenOrText::Token(5), -1.5)
        ]
    );
}

#[test]
fn samplers_left_out_change_nothing_and_others_keep_their_place() {
    let sampling = |text: &str| {
        completion(&format!(r#""top_k":7,"min_p":0.2,"samplers":{text}"#))
            .map(|request| request.sampling)
    };
    let some = sampling(r#"["top_k","temperature"]"#).unwrap();
    assert_eq!(some, sampling(r#""kt""#).unwrap());
    assert_eq!((some.top_k, some.temperature), (Some(7), None));
    assert_eq!((some.min_p, some.top_p), (Some(0.0), Some(1.0)));
    let all = sampling(r#""edskypmxt""#).unwrap();
    assert_eq!((all.top_k, all.min_p), (Some(7), Some(0.2)));
    assert_eq!(sampling("[]").unwrap().temperature, Some(1.0));
    for bad in [
        r#"["temperature","top_k"]"#,
        r#""kk""#,
        r#"["infill"]"#,
        r#""z""#,
        "3",
    ] {
        let place = sampling(bad).err().unwrap().field.unwrap();
        assert!(place.starts_with("samplers"), "{bad}: {place}");
    }
}

#[test]
fn grammars_are_read_and_not_combined() {
    let format = |fields: &str| completion(fields).map(|request| request.format);
    assert!(matches!(
        format(r#""grammar":"root ::= \"x\"""#),
        Ok(Format::Gbnf(_))
    ));
    assert!(matches!(
        format(r#""json_schema":{}"#),
        Ok(Format::JsonSchema(_))
    ));
    assert!(format(r#""grammar":"root ::= \"x\"","json_schema":{}"#).is_err());
}

#[test]
fn what_cannot_be_done_is_refused_by_name() {
    for (fields, place) in [
        (r#""n_indent":2"#, "n_indent"),
        (r#""post_sampling_probs":1"#, "post_sampling_probs"),
        (r#""timings_per_token":1"#, "timings_per_token"),
        (r#""image_data":[{"data":"x","id":1}]"#, "image_data"),
        (r#""response_fields":[1]"#, "response_fields[0]"),
        (r#""mirostat":1"#, "mirostat"),
        (r#""n_probs":-1"#, "n_probs"),
        (r#""lora":[{"scale":1}]"#, "lora[0].id"),
    ] {
        let fault = completion(fields).err().unwrap();
        assert_eq!(fault.field.as_deref(), Some(place), "{fields}");
    }
}

#[test]
fn what_was_typed_stands_before_the_gap() {
    let body =
        r#"{"input_prefix":"a","input_suffix":"c","prompt":"b","input_extra":[{"text":"t"}]}"#;
    let request = read("/infill", body).unwrap();
    assert_eq!(
        request.prompts,
        [Prompt::Infill {
            prefix: "ab".into(),
            suffix: "c".into(),
            files: [(String::new(), "t".into())].into(),
        }]
    );
    let fault = read("/infill", r#"{"input_prefix":"a"}"#).err().unwrap();
    assert_eq!(fault.field.as_deref(), Some("input_suffix"));
}

#[test]
fn slots_are_saved_under_plain_names_only() {
    let act =
        |target: &str, body: &str| match LLAMA.open("POST", target, body.as_bytes()).unwrap()? {
            Call::SlotAction(action, _) => Ok(action),
            _ => panic!("{target} asks for an action"),
        };
    let save = |name: &str| {
        act(
            "/slots/2?action=save",
            &format!(r#"{{"filename":"{name}"}}"#),
        )
        .map_err(|f: Fault| f.field)
    };
    let file = "a b.bin".to_string();
    assert_eq!(save("a b.bin"), Ok(SlotAction::Save { slot: 2, file }));
    for name in [
        "",
        ".",
        "..",
        ".a",
        "a/b",
        "a\\\\b",
        "C:a",
        "a\\u0000",
        &"x".repeat(300),
    ] {
        assert_eq!(save(name), Err(Some("filename".into())), "{name}");
    }
    assert_eq!(
        act("/slots/1?x=y&action=erase", ""),
        Ok(SlotAction::Erase { slot: 1 })
    );
    for target in [
        "/slots/1",
        "/slots/1?action=eat",
        "/slots/-1?action=erase",
        "/slots/x?action=erase",
    ] {
        assert!(act(target, "{}").is_err(), "{target}");
    }
}
