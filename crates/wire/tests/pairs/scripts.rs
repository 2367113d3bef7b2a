//! What the engine is told to answer, by name.

use std::time::Duration;
use strata_chat::json::Json;
use strata_chat::{
    CallPart, Event, Fault, FaultKind, Finish, Timings, TokenLogprob, TokenLogprobs, ToolCall,
    Usage,
};

fn text(choice: usize, text: &str) -> Event {
    let text = text.into();
    Event::Text { choice, text }
}

fn finished(choice: usize, reason: Finish) -> Event {
    Event::Finished { choice, reason }
}

fn done() -> Event {
    Event::Done {
        usage: Usage {
            prompt_tokens: 10,
            cached_tokens: 4,
            generated_tokens: 5,
            thinking_tokens: 2,
            drafted_tokens: 3,
            accepted_tokens: 1,
        },
        timings: Timings {
            total: Duration::from_millis(300),
            load: Duration::ZERO,
            prompt: Duration::from_millis(100),
            generate: Duration::from_millis(200),
        },
    }
}

fn call(index: usize, part: CallPart) -> Event {
    let choice = 0;
    Event::Call {
        choice,
        index,
        part,
    }
}

fn token(choice: usize, token: u32, bytes: &[u8], logprob: f32) -> Event {
    let one = |token, bytes: &[u8], logprob| TokenLogprob {
        token,
        bytes: bytes.into(),
        logprob,
    };
    Event::Token {
        choice,
        token,
        logprobs: Some(TokenLogprobs {
            chosen: one(token, bytes, logprob),
            top: [one(token, bytes, logprob), one(9, b"x", f32::NEG_INFINITY)].into(),
        }),
    }
}

fn told_prompt(prompt: usize, text: &str, tokens: u32) -> Event {
    Event::Prompt {
        prompt,
        text: text.into(),
        tokens: (1..=tokens).collect(),
        logprobs: Vec::new(),
    }
}

/// The log-probabilities of two tokens, of which the first has none.
fn scores() -> Vec<TokenLogprobs> {
    let one = |token, bytes: &[u8], logprob| TokenLogprob {
        token,
        bytes: bytes.into(),
        logprob,
    };
    [
        TokenLogprobs {
            chosen: one(4, b"Hi", f32::NAN),
            top: Vec::new(),
        },
        TokenLogprobs {
            chosen: one(5, b" you", -2.0),
            top: [one(9, b" all", -0.5)].into(),
        },
    ]
    .into()
}

fn progress(computed: usize, generated_tokens: usize) -> Event {
    let Event::Done { usage, timings } = done() else {
        panic!("an answer ends");
    };
    let usage = Usage {
        generated_tokens,
        ..usage
    };
    Event::Progress {
        computed,
        usage,
        timings,
    }
}

/// A call of a tool that takes free text.
fn custom_call() -> Vec<Event> {
    let input = Json::object([("input", "ls -l".into())]);
    let whole = ToolCall {
        id: "call_1".into(),
        name: "run".into(),
        arguments: input.clone(),
    };
    let begin = CallPart::Begin {
        id: "call_1".into(),
        name: "run".into(),
    };
    [
        call(0, begin),
        call(0, CallPart::Arguments(input.text())),
        call(0, CallPart::End(whole)),
        finished(0, Finish::ToolCalls),
        done(),
    ]
    .into()
}

fn plain_token(choice: usize, token: u32) -> Event {
    Event::Token {
        choice,
        token,
        logprobs: None,
    }
}

fn tool_calls() -> Vec<Event> {
    let whole = |id: &str, arguments: &[u8]| ToolCall {
        id: id.into(),
        name: "weather".into(),
        arguments: Json::parse(arguments).unwrap(),
    };
    let begin = |id: &str| CallPart::Begin {
        id: id.into(),
        name: "weather".into(),
    };
    let piece = |text: &str| CallPart::Arguments(text.into());
    let first = whole("call_1", "{\"city\": \"東京\"}".as_bytes());
    [
        text(0, "Let me look. "),
        call(0, begin("call_1")),
        call(0, piece("{\"city\": ")),
        call(0, piece("\"東京\"}")),
        call(0, CallPart::End(first)),
        call(1, begin("call_2")),
        call(1, CallPart::End(whole("call_2", b"{}"))),
        finished(0, Finish::ToolCalls),
        done(),
    ]
    .into()
}

/// What the engine answers.
pub(crate) fn script(name: &str) -> Vec<Event> {
    let started = Event::Started {
        prompt_tokens: 10,
        cached_tokens: 4,
    };
    let thought = |text: &str| Event::Thinking {
        choice: 0,
        text: text.into(),
    };
    let overloaded = Fault::new(
        FaultKind::Overloaded {
            retry_after: Duration::from_millis(1500),
        },
        "too many requests wait",
    );
    let mut events = match name {
        "" => return Vec::new(),
        "plain" => vec![
            text(0, "Grüße"),
            text(0, ", 世界"),
            text(0, " 👩‍🚀!\n"),
            finished(0, Finish::Stop),
            done(),
        ],
        "length" => vec![text(0, "Once upon"), finished(0, Finish::Length), done()],
        "stop_text" => vec![
            text(0, "one, two"),
            finished(0, Finish::StopText("three".into())),
            done(),
        ],
        "thinking" => vec![
            thought("The user "),
            thought("says 你好."),
            text(0, "Hello"),
            text(0, "!"),
            finished(0, Finish::Stop),
            done(),
        ],
        "choices" => vec![
            text(0, "a"),
            text(1, "b"),
            text(1, "b"),
            finished(1, Finish::Length),
            text(0, "a"),
            finished(0, Finish::Stop),
            done(),
        ],
        "logprobs" => vec![
            token(0, 5, b"Hi", -0.5),
            text(0, "Hi"),
            token(0, 6, &[0xf0, 0x9f], -1.0),
            token(0, 7, &[0x98, 0x80], -0.25),
            text(0, "😀"),
            token(0, 2, b"", -0.125),
            finished(0, Finish::Stop),
            done(),
        ],
        "echo" => vec![
            token(0, 4, b"Gr", f32::NAN),
            token(0, 6, &[0xc3], -1.0),
            token(0, 7, &[0xbc, b'n'], -0.25),
            text(0, "Grün"),
            token(0, 5, b"e", -0.5),
            text(0, "e"),
            finished(0, Finish::Length),
            done(),
        ],
        "scored" => vec![
            Event::Prompt {
                prompt: 0,
                text: "Hi you".into(),
                tokens: [4, 5].into(),
                logprobs: scores(),
            },
            text(0, "!"),
            finished(0, Finish::Length),
            done(),
        ],
        "progress" => vec![
            progress(4, 0),
            progress(10, 0),
            progress(10, 1),
            plain_token(0, 5),
            text(0, "Hi"),
            finished(0, Finish::Stop),
            done(),
        ],
        "custom" => custom_call(),
        "tokens" => vec![
            told_prompt(0, "<user>Hi", 3),
            plain_token(0, 5),
            text(0, "Grüß"),
            plain_token(0, 6),
            text(0, "e\n"),
            plain_token(0, 2),
            finished(0, Finish::Stop),
            done(),
        ],
        "prompts" => vec![
            told_prompt(0, "Hi", 2),
            told_prompt(1, "你好", 3),
            plain_token(1, 7),
            text(1, "再见"),
            plain_token(0, 5),
            text(0, "Bye"),
            finished(0, Finish::Length),
            finished(1, Finish::StopText("。".into())),
            done(),
        ],
        "tools" => tool_calls(),
        "failed" => vec![text(0, "Half an"), Event::Failed(overloaded)],
        "refused" => return vec![Event::Failed(overloaded)],
        other => panic!("there is no script {other:?}"),
    };
    events.insert(0, started);
    events
}
