//! What requests mean.

use super::OPENAI;
use strata_chat::json::Json;
use strata_chat::{
    ContentPart, Effort, Fault, Format, Generate, Message, Prompt, PromptPart, Role, Thinking,
    TokenOrText, ToolChoice,
};
use strata_wire::call::Call;

/// A chat's request, with these fields besides its message.
fn chat(fields: &str) -> Result<Generate, Fault> {
    let comma = if fields.is_empty() { "" } else { "," };
    let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{comma}{fields}}}"#);
    read("/v1/chat/completions", &body)
}

fn read(path: &str, body: &str) -> Result<Generate, Fault> {
    match OPENAI.open("POST", path, body.as_bytes()).unwrap()? {
        Call::Generate(request, _) => Ok(*request),
        _ => panic!("{path} asks for text"),
    }
}

fn messages(list: &str) -> Result<Vec<Message>, Fault> {
    let request = read("/v1/chat/completions", &format!(r#"{{"messages":{list}}}"#))?;
    match request.prompts.into_iter().next() {
        Some(Prompt::Chat(messages)) => Ok(messages),
        _ => panic!("a chat is a conversation"),
    }
}

#[test]
fn the_newest_limit_wins() {
    let limit = |fields: &str| chat(fields).unwrap().max_tokens;
    assert_eq!(limit(""), None);
    assert_eq!(limit(r#""max_tokens":5"#), Some(5));
    assert_eq!(
        limit(r#""max_tokens":5,"max_completion_tokens":9"#),
        Some(9)
    );
    assert_eq!(limit(r#""max_tokens":-1"#), None);
}

#[test]
fn sampling_is_read() {
    let sampling = chat(r#""seed":-2,"top_k":-1,"min_p":0.1,"repetition_penalty":1.2"#)
        .unwrap()
        .sampling;
    assert_eq!(sampling.seed, Some(-2_i64 as u64));
    assert_eq!(sampling.top_k, Some(0));
    assert_eq!(sampling.min_p, Some(0.1));
    assert_eq!(sampling.repeat_penalty, Some(1.2));
    assert_eq!(chat(r#""seed":-1"#).unwrap().sampling.seed, None);
    let seed = chat(r#""seed":18446744073709551615"#)
        .unwrap()
        .sampling
        .seed;
    assert_eq!(seed, Some(u64::MAX));
    let bias = chat(r#""logit_bias":{"5":-100,"6":1.5," fox":false}"#)
        .unwrap()
        .sampling
        .logit_bias;
    assert_eq!(
        bias,
        [
            (TokenOrText::Token(5), f32::NEG_INFINITY),
            (TokenOrText::Token(6), 1.5),
            (TokenOrText::Text(" fox".into()), f32::NEG_INFINITY)
        ]
    );
}

#[test]
fn what_vllm_and_llama_server_add_is_read() {
    let request = chat(
        r#""min_tokens":3,"stop_token_ids":[5,6],"skip_special_tokens":false,"prompt_logprobs":2,
           "include_stop_str_in_output":false,"guided_decoding_backend":"xgrammar","timings_per_token":true"#,
    )
    .unwrap();
    assert_eq!((request.min_tokens, request.prompt_logprobs), (3, Some(2)));
    assert_eq!(request.stop_tokens, [5, 6]);
    assert!(request.show_special && request.progress);
    let request = chat("").unwrap();
    assert!(!request.show_special && !request.progress && !request.closed);
    assert!(chat(r#""add_generation_prompt":false"#).unwrap().closed);
    let gbnf = chat(r#""guided_grammar":"root ::= [a]""#).unwrap();
    assert!(matches!(gbnf.format, Format::Gbnf(_)));
    let lark = chat(r#""structured_outputs":{"grammar":"start: /a/"}"#).unwrap();
    assert!(matches!(lark.format, Format::Lark(_)));
    for (wrong, place) in [
        (r#""prompt_logprobs":1,"stream":true"#, "prompt_logprobs"),
        (r#""prompt_logprobs":21"#, "prompt_logprobs"),
        (r#""stop_token_ids":["a"]"#, "stop_token_ids[0]"),
        (
            r#""include_stop_str_in_output":true"#,
            "include_stop_str_in_output",
        ),
        (r#""min_tokens":-1"#, "min_tokens"),
    ] {
        assert_eq!(chat(wrong).unwrap_err().field.as_deref(), Some(place));
    }
}

#[test]
fn tools_that_take_free_text_take_an_object_with_it() {
    let tool = |format: &str| {
        chat(&format!(
            r#""tools":[{{"type":"custom","custom":{{"name":"run","format":{format}}}}}],
               "tool_choice":{{"type":"custom","custom":{{"name":"run"}}}}"#
        ))
    };
    let request = tool(r#"{"type":"text"}"#).unwrap();
    assert_eq!(request.tools.choice, ToolChoice::Named("run".into()));
    let input = |request: &Generate| {
        let schema = &request.tools.list[0].parameters;
        let properties = schema.get("properties").unwrap();
        properties.get("input").unwrap().clone()
    };
    let string = Json::object([("type", "string".into())]);
    assert_eq!(input(&request), string);
    let regex = r#"{"type":"grammar","grammar":{"syntax":"regex","definition":"a+"}}"#;
    let pattern = input(&tool(regex).unwrap());
    assert_eq!(pattern.get("pattern"), Some(&"^(?:a+)$".into()));
    let lark = r#"{"type":"grammar","grammar":{"syntax":"lark","definition":"start: A"}}"#;
    let place = tool(lark).unwrap_err().field.unwrap();
    assert_eq!(place, "tools[0].custom.format.grammar.syntax");
    let called = messages(
        r#"[{"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"run","input":"ls"}}]}]"#,
    );
    let call = &called.unwrap()[0].tool_calls[0];
    assert_eq!(call.arguments.get("input"), Some(&"ls".into()));
}

#[test]
fn every_form_of_tool_choice_is_understood() {
    let tools = r#""tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}]"#;
    let choice = |text: &str| {
        chat(&format!(r#"{tools},"tool_choice":{text}"#)).map(|request| request.tools.choice)
    };
    assert_eq!(choice("null"), Ok(ToolChoice::Auto));
    assert_eq!(choice(r#""none""#), Ok(ToolChoice::None));
    assert_eq!(choice(r#""required""#), Ok(ToolChoice::Required));
    let named = choice(r#"{"type":"function","function":{"name":"b"}}"#);
    assert_eq!(named, Ok(ToolChoice::Named("b".into())));
    let allowed = choice(
        r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"a"}}]}}"#,
    );
    let names = ["a".into()].into();
    assert_eq!(
        allowed,
        Ok(ToolChoice::Allowed {
            names,
            required: true
        })
    );
    for wrong in [
        r#""always""#,
        r#"{"type":"function","function":{"name":"c"}}"#,
        r#"{"type":"custom","custom":{"name":"c"}}"#,
        "5",
    ] {
        let place = choice(wrong).unwrap_err().field.unwrap();
        assert!(place.starts_with("tool_choice"), "{wrong}: {place}");
    }
    let fault = chat(r#""tool_choice":"required""#).unwrap_err();
    assert_eq!(fault.message, "tool_choice: needs tools to call");
    let twice = tools.replace("\"b\"", "\"a\"");
    assert_eq!(
        chat(&twice).unwrap_err().message,
        "tools: \"a\" is there twice"
    );
}

#[test]
fn answers_can_be_given_a_form() {
    let format = |fields: &str| chat(fields).map(|request| request.format);
    assert_eq!(
        format(r#""response_format":{"type":"text"}"#),
        Ok(Format::Text)
    );
    assert_eq!(
        format(r#""response_format":{"type":"json_object"}"#),
        Ok(Format::JsonObject)
    );
    let schema = Json::object([("type", "string".into())]);
    for fields in [
        r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"string"}}}"#,
        r#""response_format":{"type":"json_object","schema":{"type":"string"}}"#,
        r#""json_schema":{"type":"string"}"#,
    ] {
        assert_eq!(
            format(fields),
            Ok(Format::JsonSchema(schema.clone())),
            "{fields}"
        );
    }
    assert_eq!(
        format(r#""grammar":"root ::= x""#),
        Ok(Format::Gbnf("root ::= x".into()))
    );
    let choice = format(r#""structured_outputs":{"choice":["a","b"]}"#);
    assert_eq!(choice, Ok(Format::Choice(["a".into(), "b".into()].into())));
    let two = format(r#""structured_outputs":{"regex":"a","json":{}}"#);
    assert_eq!(
        two.unwrap_err().field.as_deref(),
        Some("structured_outputs")
    );
    let both = format(r#""response_format":{"type":"json_object"},"grammar":"root ::= x""#);
    assert_eq!(both.unwrap_err().field.as_deref(), Some("grammar"));
    let none = format(r#""response_format":{"type":"json_schema","json_schema":{"name":"n"}}"#);
    let place = none.unwrap_err().field;
    assert_eq!(place.as_deref(), Some("response_format.json_schema.schema"));
}

#[test]
fn thinking_is_asked_for_in_several_ways() {
    let thinking = |fields: &str| chat(fields).unwrap().thinking;
    assert_eq!(thinking(""), Thinking::Default);
    assert_eq!(thinking(r#""reasoning_effort":"none""#), Thinking::Off);
    assert_eq!(
        thinking(r#""reasoning_effort":"low""#),
        Thinking::Effort(Effort::Low)
    );
    let object = r#""reasoning":{"effort":"max"}"#;
    assert_eq!(thinking(object), Thinking::Effort(Effort::High));
    let off = r#""chat_template_kwargs":{"enable_thinking":false}"#;
    assert_eq!(thinking(off), Thinking::Off);
    let on = r#""chat_template_kwargs":{"enable_thinking":true}"#;
    assert_eq!(thinking(on), Thinking::On { budget: None });
}

#[test]
fn conversations_are_read() {
    let list = messages(
        r#"[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
            {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
             {"id":"2","type":"function","function":{"name":"g","arguments":"oops {"}}]},
            {"role":"tool","tool_call_id":"2","content":"r"}]"#,
    )
    .unwrap();
    assert_eq!(list[0].role, Role::System);
    assert_eq!(list[0].joined(), "ab");
    let ContentPart::Image(image) = &list[1].parts[0] else {
        panic!("a picture");
    };
    assert_eq!(
        (image.media_type.as_deref(), &*image.bytes),
        (Some("image/png"), &[1, 2, 3][..])
    );
    let calls = &list[2].tool_calls;
    assert_eq!(calls[0].arguments.get("x"), Some(&Json::Int(1)));
    assert_eq!(calls[1].arguments.as_str(), Some("oops {"));
    assert_eq!(list[3].name.as_deref(), Some("g"));
}

#[test]
fn audio_and_pictures_come_from_users_and_tools() {
    let list = messages(
        r#"[{"role":"user","content":[{"type":"text","text":"a"},
             {"type":"input_audio","input_audio":{"data":"AQID","format":"wav"}},
             {"type":"input_audio","input_audio":{"data":"BAU=","format":"mp3"}}]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"1","content":[
             {"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},
             {"type":"input_audio","input_audio":{"data":"Bg==","format":"flac"}}]}]"#,
    )
    .unwrap();
    let audio = |part: &ContentPart| match part {
        ContentPart::Audio(audio) => (audio.format.clone(), audio.bytes.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        audio(&list[0].parts[1]),
        (Some("wav".into()), vec![1, 2, 3])
    );
    assert_eq!(audio(&list[0].parts[2]), (Some("mp3".into()), vec![4, 5]));
    assert!(matches!(&list[2].parts[0], ContentPart::Image(_)));
    assert_eq!(audio(&list[2].parts[1]), (Some("flac".into()), vec![6]));
}

#[test]
fn wrong_conversations_are_refused_where_they_are_wrong() {
    for (list, place) in [
        ("[]", "messages"),
        ("5", "messages"),
        (r#"[{"content":"x"}]"#, "messages[0].role"),
        (r#"[{"role":"king","content":"x"}]"#, "messages[0].role"),
        (r#"[{"role":"user"}]"#, "messages[0].content"),
        (r#"[{"role":"assistant"}]"#, "messages[0].content"),
        (r#"[{"role":"user","content":7}]"#, "messages[0].content"),
        (
            r#"[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]"#,
            "messages[0].content[0].input_audio.data",
        ),
        (
            r#"[{"role":"user","content":[{"type":"input_audio"}]}]"#,
            "messages[0].content[0].input_audio",
        ),
        (
            r#"[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"?","format":"wav"}}]}]"#,
            "messages[0].content[0].input_audio.data",
        ),
        (
            r#"[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}]"#,
            "messages[0].content[0].input_audio.data",
        ),
        (
            r#"[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AQID","format":"opus"}}]}]"#,
            "messages[0].content[0].input_audio.format",
        ),
        (
            r#"[{"role":"assistant","content":[{"type":"input_audio","input_audio":{"data":"AQID","format":"wav"}}]}]"#,
            "messages[0].content[0].type",
        ),
        (
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://h/x"}}]}]"#,
            "messages[0].content[0].image_url.url",
        ),
        (
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!!"}}]}]"#,
            "messages[0].content[0].image_url.url",
        ),
        (
            r#"[{"role":"user","content":"x","tool_calls":[]}]"#,
            "messages[0].tool_calls",
        ),
    ] {
        let fault = messages(list).unwrap_err();
        assert_eq!(
            fault.field.as_deref(),
            Some(place),
            "{list}: {}",
            fault.message
        );
    }
}

const LONG_LIST: &str = r#"["","","","","","","","","","","","","","","","","","","","","","","","","","","","","","","","",""]"#;

#[test]
fn numbers_out_of_range_name_their_field() {
    for (name, value) in [
        ("temperature", "2.1"),
        ("temperature", "1e400"),
        ("top_p", "-0.1"),
        ("n", "0"),
        ("n", "129"),
        ("n", "99999999999999999999"),
        ("max_tokens", "0"),
        ("max_tokens", "-5"),
        ("max_completion_tokens", "1.5"),
        ("top_logprobs", "3"),
        ("seed", "1.5"),
        ("seed", "\"x\""),
        ("stop", "\"\""),
        ("logit_bias", "5"),
        ("stream", "1"),
        ("stream_options", "{\"include_usage\":true}"),
        ("presence_penalty", "3"),
        ("top_k", "4294967296"),
        ("mirostat", "1"),
        ("dry_sequence_breakers", LONG_LIST),
        ("timings_per_token", "1"),
        ("reasoning_effort", "\"wild\""),
    ] {
        let fault = chat(&format!("\"{name}\":{value}")).unwrap_err();
        // JSON itself has no room for the one number.
        if value != "1e400" {
            assert_eq!(fault.field.as_deref(), Some(name), "{}", fault.message);
        }
    }
}

#[test]
fn prompts_of_completions_take_all_forms() {
    let prompts = |text: &str| {
        let body = format!(r#"{{"prompt":{text}}}"#);
        read("/v1/completions", &body).map(|request| request.prompts)
    };
    let tokens = |list: &[u32]| Prompt::Raw([PromptPart::Tokens(list.into())].into());
    assert_eq!(prompts(r#""a""#), Ok([Prompt::text("a")].into()));
    assert_eq!(
        prompts(r#"["a","b"]"#),
        Ok([Prompt::text("a"), Prompt::text("b")].into())
    );
    assert_eq!(prompts("[1,2]"), Ok([tokens(&[1, 2])].into()));
    assert_eq!(
        prompts("[[1],[2]]"),
        Ok([tokens(&[1]), tokens(&[2])].into())
    );
    let mixed = [PromptPart::Tokens([1].into()), PromptPart::Text("a".into())];
    assert_eq!(
        prompts(r#"[1,"a"]"#),
        Ok([Prompt::Raw(mixed.into())].into())
    );
    assert_eq!(
        prompts(r#"["a",[1]]"#),
        Ok([Prompt::text("a"), tokens(&[1])].into())
    );
    for (wrong, place) in [
        ("[]", "prompt"),
        ("[[1],[]]", "prompt[1]"),
        ("[-1]", "prompt[0]"),
        ("[4294967296]", "prompt[0]"),
        ("{}", "prompt.prompt_string"),
    ] {
        assert_eq!(
            prompts(wrong).unwrap_err().field.as_deref(),
            Some(place),
            "{wrong}"
        );
    }
    let infill = read("/v1/completions", r#"{"prompt":"a","suffix":"z"}"#).unwrap();
    let gap = Prompt::Infill {
        prefix: "a".into(),
        suffix: "z".into(),
        files: Vec::new(),
    };
    assert_eq!(infill.prompts, [gap]);
}

#[test]
fn choices_of_completions_are_bounded() {
    let place = |fields: &str| {
        let body = format!(r#"{{"prompt":"a",{fields}}}"#);
        read("/v1/completions", &body).unwrap_err().field
    };
    assert_eq!(place(r#""n":3,"best_of":2"#).as_deref(), Some("best_of"));
    assert_eq!(
        place(r#""n":1,"best_of":2,"stream":true"#).as_deref(),
        Some("best_of")
    );
    let many = format!(r#"{{"prompt":[{}"a"],"n":100}}"#, "\"a\",".repeat(50));
    let fault = read("/v1/completions", &many).unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("n"));
}

#[test]
fn the_last_message_is_completed_only_if_asked() {
    let body = |more: &str| {
        let list = r#"[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]"#;
        read(
            "/v1/chat/completions",
            &format!(r#"{{"messages":{list}{more}}}"#),
        )
    };
    assert!(!body("").unwrap().continues);
    let asked = r#","continue_final_message":true,"add_generation_prompt":false"#;
    assert!(body(asked).unwrap().continues);
    assert!(chat(r#""continue_final_message":true"#).is_err());
}
