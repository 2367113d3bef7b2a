//! The whole server, from frames to answers, with the built-in model.

mod models;

use super::*;
use crate::model;
use crate::model::tests::{SETTINGS, platform, tale, with_damaged_row};
use crate::network::tests::{Client, settings as network_settings, wire};
use alloc::format;
use alloc::string::ToString;
use strata_chat::json::Json;

/// Time passes only when it is looked at.
#[derive(Default)]
struct Steps(core::sync::atomic::AtomicU64);

impl Clock for Steps {
    fn now_ns(&self) -> u64 {
        self.0
            .fetch_add(10_000, core::sync::atomic::Ordering::Relaxed)
    }
}

pub(crate) struct World<'w> {
    pub(crate) server: Server,
    pub(crate) network: Network<'w>,
    client: Client<'w>,
    clock: Arc<Steps>,
}

impl World<'_> {
    fn counters(&self) -> &Counters {
        self.server.counters().unwrap()
    }

    fn model(&mut self) -> &mut LocalModel {
        &mut self.server.models.loaded_mut().unwrap().model
    }

    pub(crate) fn step(&mut self) -> bool {
        self.clock
            .0
            .fetch_add(1_000_000, core::sync::atomic::Ordering::Relaxed);
        let now = || self.clock.now_ns();
        self.client.poll(now());
        self.network.poll(now());
        self.server.step(&mut self.network, now)
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.client.connect();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            self.step();
            if self.client.socket().can_send() {
                let sent = self.client.socket().send_slice(rest).unwrap();
                rest = &rest[sent..];
            }
        }
    }

    /// What comes until the server ends the connection.
    fn hear(&mut self) -> String {
        String::from_utf8(self.hear_bytes()).unwrap()
    }

    fn hear_bytes(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        for _ in 0..20_000 {
            self.step();
            let mut bytes = [0; 4096];
            let socket = self.client.socket();
            while let Ok(len @ 1..) = socket.recv_slice(&mut bytes) {
                heard.extend_from_slice(&bytes[..len]);
            }
            if !socket.may_recv() {
                socket.close();
                for _ in 0..5 {
                    self.step();
                }
                return heard;
            }
        }
        panic!("no end came: {}", String::from_utf8_lossy(&heard));
    }

    pub(crate) fn post(&mut self, path: &str, headers: &str, body: &str) -> String {
        let len = body.len();
        self.say(&format!(
            "POST {path} HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n{headers}content-length: {len}\r\n\r\n{body}"
        ));
        self.hear()
    }
}

pub(crate) fn with_server(access: Access, test: impl FnOnce(&mut World<'_>)) {
    with_model(tale(), access, None, test);
}

pub(crate) fn with_model(
    bytes: &'static [u8],
    access: Access,
    data: Option<DataStore>,
    test: impl FnOnce(&mut World<'_>),
) {
    let opened = platform(|platform| model::open(&bytes, "tale", SETTINGS, platform));
    let (model, _) = opened.unwrap();
    let clock = Arc::new(Steps::default());
    let settings = ServeSettings {
        access,
        seed: 1,
        guessable: false,
        epoch: 1_700_000_000,
    };
    let mut server = Server::new(model, Arc::<Steps>::clone(&clock), settings);
    if let Some(data) = data {
        server.keep(data, [7; 32]);
    }
    let (mut here, mut there) = wire();
    test(&mut World {
        server,
        network: Network::new(&mut here, &network_settings(), [1, 2], 0),
        client: Client::new(&mut there),
        clock,
    });
}

pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

/// The text of a streamed answer's chunks.
fn streamed(answer: &str) -> String {
    let mut text = String::new();
    for line in answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
    {
        let Ok(event) = Json::parse(line.as_bytes()) else {
            continue;
        };
        let delta = event.get("choices").and_then(|c| match c {
            Json::Array(list) => list.first()?.get("delta")?.get("content")?.as_str(),
            _ => None,
        });
        text.push_str(delta.unwrap_or_default());
    }
    text
}

const ASK: &str = r#""model":"tale","temperature":0,"max_tokens":12,"messages":[{"role":"user","content":"Tell me a story about a fox."}]"#;

#[test]
fn pages_and_encodings_are_answered_as_elsewhere() {
    let access = Access {
        key: Some("secret".into()),
        host: None,
    };
    with_server(access, |world| {
        world.say(
            "OPTIONS /v1/messages HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\norigin: http://localhost:3000\r\n\
             access-control-request-headers: x-api-key,x-stainless-os\r\n\r\n",
        );
        let allowed = world.hear();
        assert!(allowed.starts_with("HTTP/1.1 204"), "{allowed}");
        let names = "access-control-allow-headers: x-api-key, x-stainless-os\r\n";
        assert!(allowed.contains(names), "{allowed}");
        let key = "x-api-key: secret\r\n";
        let ask = format!("{{{ASK}}}");
        let packed = format!("{key}content-encoding: gzip\r\n");
        let refused = world.post("/v1/chat/completions", &packed, &ask);
        assert!(refused.starts_with("HTTP/1.1 415"), "{refused}");
        let answer = world.post("/v1/messages", key, &ask);
        assert!(answer.contains("\r\nrequest-id: req_"), "{answer}");
        let streamed = format!("{{{ASK},\"stream\":true}}");
        let answer = world.post("/v1/chat/completions", key, &streamed);
        assert!(answer.contains("\r\nx-request-id: req_"), "{answer}");
    });
}

#[test]
fn clients_are_answered() {
    with_server(Access::default(), |world| {
        world.say("GET /health HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n");
        let health = world.hear();
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
        assert_eq!(body(&health), r#"{"status":"ok"}"#);

        let whole = world.post("/v1/chat/completions", "", &format!("{{{ASK}}}"));
        let parsed = Json::parse(body(&whole).as_bytes()).unwrap();
        let Some(Json::Array(choices)) = parsed.get("choices") else {
            panic!("{whole}");
        };
        let message = choices[0].get("message").unwrap();
        let content = message.get("content").unwrap().as_str().unwrap();
        assert!(content.len() > 10, "{content}");
        let pieces = world.post(
            "/v1/chat/completions",
            "",
            &format!("{{{ASK},\"stream\":true}}"),
        );
        assert!(pieces.contains("transfer-encoding: chunked\r\n"));
        assert!(
            pieces.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"),
            "{pieces}"
        );
        assert_eq!(streamed(&pieces), content);

        let ask = |change: &str| format!("{{{ASK}{change}}}");
        let other = ask("").replace("\"tale\"", "\"other\"");
        for (path, request, word) in [
            ("/v1/chat/completions", &*other, "not found"),
            ("/v1/chat/completions", ASK, ""),
            ("/api/pull", r#"{"model":"x"}"#, "no files"),
            (
                "/v1/rerank",
                r#"{"model":"tale","query":"x","documents":["y"]}"#,
                "ranks no",
            ),
            ("/lora-adapters", r#"[{"id":0,"scale":1.0}]"#, "no adapters"),
            ("/nothing", "{}", "nothing"),
        ] {
            let answer = world.post(path, "", request);
            let refused = ["4", "5"].map(|class| format!("HTTP/1.1 {class}"));
            assert!(
                refused.iter().any(|head| answer.starts_with(head)),
                "{answer}"
            );
            assert!(body(&answer).contains(word), "{answer}");
        }
        world.say("GET /metrics HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n");
        let metrics = world.hear();
        // The self-test is one of them.
        assert!(
            metrics.contains("vllm:request_success_total{model_name=\"tale\",engine=\"0\"} 3"),
            "{metrics}"
        );
        assert_eq!(world.server.clients(), 0);
    });
}

#[test]
fn a_client_that_goes_takes_its_work_along() {
    with_server(Access::default(), |world| {
        let ask = ASK
            .replace("12", "1000")
            .replace("tale\"", "tale\",\"stream\":true");
        let len = ask.len() + 2;
        world.say(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 10.0.0.1\r\ncontent-length: {len}\r\n\r\n{{{ask}}}"
        ));
        while world.client.socket().recv_queue() < 500 {
            world.step();
        }
        assert_eq!(world.counters().running, 1);
        world.client.socket().abort();
        for _ in 0..5 {
            world.step();
        }
        assert_eq!(world.counters().running, 0);
        assert_eq!(world.counters().canceled, 1);
        assert!(!world.step(), "there is nothing left to compute");
    });
}

#[test]
fn the_key_is_asked_for() {
    let access = Access {
        key: Some("k".into()),
        host: None,
    };
    with_server(access, |world| {
        let ask = format!("{{{ASK}}}");
        let answer = world.post("/v1/chat/completions", "", &ask);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        let answer = world.post("/api/tags", "authorization: Bearer k\r\n", "");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        world.say("GET /health HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n");
        assert!(world.hear().starts_with("HTTP/1.1 200 "));
        world.say("junk\r\n\r\n");
        assert!(world.hear().starts_with("HTTP/1.1 400 "));
    });
}

#[test]
fn a_request_may_come_byte_by_byte() {
    with_server(Access::default(), |world| {
        world.client.connect();
        while !world.client.socket().can_send() {
            world.step();
        }
        for byte in b"GET /health HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n" {
            assert_eq!(world.client.socket().send_slice(&[*byte]), Ok(1));
            world.step();
        }
        let health = world.hear();
        assert!(health.starts_with("HTTP/1.1 200 OK\r\n"), "{health}");
    });
}

#[test]
fn clients_that_dawdle_lose_their_places_to_others() {
    with_server(Access::default(), |world| {
        for number in 0..CONNECTIONS {
            // From two addresses, of which none has more than its share.
            if number == CONNECTIONS / 2 {
                world.client.move_to(3);
            }
            world.client.connect_once_more();
            while !world.client.socket().can_send() {
                world.step();
            }
            world.client.socket().send_slice(b"GET /he").unwrap();
            for _ in 0..4 {
                world.step();
            }
        }
        assert_eq!(world.server.clients(), CONNECTIONS);
        world.client.move_to(9);
        world.client.connect_once_more();
        let begun = world.clock.now_ns();
        world.say("GET /health HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n");
        assert!(world.hear().starts_with("HTTP/1.1 200 "));
        assert!(world.clock.now_ns() - begun < 5_000_000_000);
    });
}

#[test]
fn clients_are_answered_while_the_shell_computes() {
    with_server(Access::default(), |world| {
        world.say("GET /health HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n");
        let mut steps = 0;
        let (server, network, client) = (&mut world.server, &mut world.network, &mut world.client);
        let clock = &world.clock;
        let mut heard = 0;
        let continued = server.continue_text(Some(network), "Once upon a time", 32, &mut |_| {
            steps += 1;
            client.poll(clock.now_ns());
            heard += client.socket().recv_slice(&mut [0; 512]).unwrap_or(0);
        });
        continued.unwrap();
        assert!(steps > 16 && heard > 100, "{heard} bytes in {steps} steps");
    });
}

#[test]
fn the_shell_continues_a_text_as_a_client_does() {
    with_server(Access::default(), |world| {
        let ask = r#"{"model":"tale","prompt":"Once upon a time","max_tokens":16,"temperature":0}"#;
        let answer = world.post("/v1/completions", "", ask);
        let parsed = Json::parse(body(&answer).as_bytes()).unwrap();
        let Some(Json::Array(choices)) = parsed.get("choices") else {
            panic!("{answer}");
        };
        let expected = choices[0].get("text").unwrap().as_str().unwrap();
        // The shell leaves sampling to the model.
        let profile = Arc::get_mut(&mut world.model().profile).unwrap();
        profile.sampling.temperature = Some(0.0);
        let mut told = String::new();
        let mut emit = |text: &str| told.push_str(text);
        let continued = world
            .server
            .continue_text(None, "Once upon a time", 16, &mut emit);
        continued.unwrap();
        assert_eq!(told, expected);
        let refused = world.server.continue_text(None, "", 16, &mut |_| {});
        assert_eq!(refused.is_ok(), world.model().profile.tokenizer.added().bos);
    });
}

/// What only the library's std half can do is refused before anything is computed.
#[test]
fn lark_bad_grammars_and_adapters_are_refused() {
    with_server(Access::default(), |world| {
        let schema = |schema: &str| {
            format!(
                r#","response_format":{{"type":"json_schema","json_schema":{{"name":"x","schema":{schema}}}}}"#
            )
        };
        for (change, word) in [
            (schema(r#"{"not":{"type":"string"}}"#), "not"),
            (schema(r#"{"type":"string","pattern":"(a"}"#), "unclosed"),
            (r#","lora":[{"id":1,"scale":0.5}]"#.to_string(), "adapter 1"),
        ] {
            let answer = world.post("/v1/chat/completions", "", &format!("{{{ASK}{change}}}"));
            assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
            assert!(body(&answer).contains(word), "{answer}");
        }
        assert_eq!(world.counters().finished, 1, "the self-test");
    });
}

/// The content of a whole answer.
pub(crate) fn content(answer: &str) -> Json {
    let parsed = Json::parse(body(answer).as_bytes()).unwrap();
    let Some(Json::Array(choices)) = parsed.get("choices") else {
        panic!("{answer}");
    };
    choices[0].get("message").unwrap().clone()
}

#[test]
fn answers_match_their_schema_and_tools_are_called() {
    with_server(Access::default(), |world| {
        let ask = ASK.replace("\"max_tokens\":12", "\"max_tokens\":60");
        let schema = r#"{"type":"object","properties":{"kind":{"enum":["fox","bear"]},"legs":{"type":"integer","minimum":2,"maximum":4}},"required":["kind","legs"]}"#;
        for form in [
            format!(r#"{{"type":"json_schema","json_schema":{{"name":"x","schema":{schema}}}}}"#),
            r#"{"type":"json_object"}"#.to_string(),
        ] {
            let request = format!("{{{ask},\"response_format\":{form}}}");
            let answer = world.post("/v1/chat/completions", "", &request);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let said = content(&answer);
            let said = said.get("content").and_then(Json::as_str).unwrap();
            if form.contains("schema") {
                let value = Json::parse(said.as_bytes()).unwrap();
                let kind = value.get("kind").and_then(Json::as_str).unwrap();
                assert!(["fox", "bear"].contains(&kind), "{said}");
            } else {
                assert!(said.starts_with('{'), "{said}");
            }
        }
        let tool = r#""tools":[{"type":"function","function":{"name":"tell","parameters":{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9}},"required":["n"]}}}]"#;
        let request = format!("{{{ask},{tool},\"tool_choice\":\"required\"}}");
        let answer = world.post("/v1/chat/completions", "", &request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(body(&answer).contains(r#""name":"tell""#), "{answer}");
        let request = format!(
            r#"{{"model":"tale","stream":false,"format":{schema},"messages":[{{"role":"user","content":"A fox."}}]}}"#
        );
        let answer = world.post("/api/chat", "", &request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(body(&answer).contains("legs"), "{answer}");
    });
}

#[test]
fn texts_are_embedded() {
    with_server(Access::default(), |world| {
        let request = r#"{"model":"tale","input":["a fox","a bear"]}"#;
        let answer = world.post("/v1/embeddings", "", request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let parsed = Json::parse(body(&answer).as_bytes()).unwrap();
        let Some(Json::Array(rows)) = parsed.get("data") else {
            panic!("{answer}");
        };
        assert_eq!(rows.len(), 2);
        let again = world.post("/v1/embeddings", "", request);
        assert_eq!(body(&answer), body(&again));
        let answer = world.post("/api/embed", "", request);
        assert!(body(&answer).contains("\"embeddings\":[["), "{answer}");
        let refused = world.post("/v1/embeddings", "", r#"{"model":"tale","input":""}"#);
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
        assert!(world.model().engine.is_idle());
    });
}

/// A row of the table of tokens that is damaged, and that the self-test has not met, makes answers fail; `/ready` says so
/// until an answer succeeds.
#[test]
fn a_machine_whose_answers_fail_is_not_ready() {
    let opened = platform(|platform| model::open(&tale(), "tale", SETTINGS, platform));
    let tokens = strata_chat::prompt::raw(&opened.unwrap().0.profile.tokenizer, "zebra");
    let damaged = with_damaged_row(*tokens.last().unwrap() as usize);
    with_model(damaged, Access::default(), None, |world| {
        let get = "GET /ready HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n";
        world.say(get);
        assert!(world.hear().starts_with("HTTP/1.1 200"));
        let ask = |word: &str| {
            format!(r#"{{"model":"tale","temperature":0,"max_tokens":2,"prompt":"{word}"}}"#)
        };
        let failed = world.post("/v1/completions", "", &ask("zebra"));
        assert!(failed.starts_with("HTTP/1.1 500"), "{failed}");
        world.say(get);
        let unready = world.hear();
        assert!(unready.starts_with("HTTP/1.1 503"), "{unready}");
        assert!(unready.contains("failing"), "{unready}");
        let well = world.post("/v1/completions", "", &ask("Once upon a time"));
        assert!(well.starts_with("HTTP/1.1 200"), "{well}");
        world.say(get);
        assert!(world.hear().starts_with("HTTP/1.1 200"));
    });
}

/// `crates/tls` has tests with other people's clients; here one that speaks no TLS is sent away.
#[test]
fn a_server_by_tls_takes_nothing_in_plain() {
    with_server(Access::default(), |world| {
        let identity = strata_tls::Identity::self_signed([1; 32], &["box"]);
        world.server.tls = Some(Tls::new(identity, [2; 32]));
        assert_eq!(world.server.scheme(), "https");
        world.say("GET /health HTTP/1.1\r\nhost: 10.0.0.1\r\n\r\n");
        let heard = world.hear_bytes();
        assert_eq!(heard, [21, 3, 3, 0, 2, 2, 10], "an alert, and nothing else");
        for _ in 0..5 {
            world.step();
        }
        assert_eq!(world.server.clients(), 0);
    });
}

#[test]
fn without_a_tpm_nothing_is_vouched_for() {
    let access = Access {
        key: Some("a-secret-key".into()),
        host: None,
    };
    with_server(access, |world| {
        let mut ask = |line: &str| {
            world.say(&format!(
                "{line} HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n"
            ));
            world.hear()
        };
        // Nobody sends a key to a machine that they do not trust yet.
        for (line, status, words) in [
            ("GET /attest?nonce=0011223344556677", "501", "has no TPM"),
            ("GET /attest", "400", "nonce must be"),
            ("GET /attest?nonce=00112233445566", "400", "nonce must be"),
            ("GET /attest?nonce=00112233445566zz", "400", "nonce must be"),
            ("POST /attest?nonce=0011223344556677", "405", "use GET"),
            ("GET /v1/models", "401", "key"),
        ] {
            let heard = ask(line);
            assert!(heard.starts_with(&format!("HTTP/1.1 {status} ")), "{heard}");
            assert!(heard.contains(words), "{heard}");
        }
    });
}
