//! Several models, of which one is in memory, and the change from one to another.

use super::*;

/// Tale under another name.
fn named(name: &str) -> LocalModel {
    let bytes = tale();
    let opened = platform(|platform| model::open(&bytes, name, SETTINGS, platform));
    opened.unwrap().0
}

fn owl() -> ModelFacts {
    model::facts(&tale(), "owl").unwrap()
}

impl World<'_> {
    fn get(&mut self, path: &str) -> String {
        self.say(&format!(
            "GET {path} HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n"
        ));
        self.hear()
    }

    fn ask(&mut self, model: &str) -> String {
        let body = format!("{{{ASK}}}").replace("\"tale\"", &format!("\"{model}\""));
        self.post("/v1/chat/completions", "", &body)
    }
}

#[test]
fn models_are_listed_and_a_request_chooses() {
    with_server(Access::default(), |world| {
        world.server.list(Vec::from([owl()]));
        for path in ["/v1/models", "/api/tags"] {
            let list = world.get(path);
            assert!(list.contains("\"tale") && list.contains("\"owl"), "{list}");
        }
        assert!(!world.get("/api/ps").contains("\"owl"));
        let known = world.get("/v1/models/owl");
        assert!(known.starts_with("HTTP/1.1 200"), "{known}");
        // The model that answers nobody yet stays for a while.
        let later = world.ask("owl");
        assert!(later.starts_with("HTTP/1.1 503"), "{later}");
        assert!(later.contains("\r\nretry-after: 1\r\n"), "{later}");
        assert!(body(&later).contains("being loaded"), "{later}");
        assert_eq!(world.server.take_wanted(), None);
        assert!(world.ask("tale").starts_with("HTTP/1.1 200"));
        assert!(world.ask("owl").starts_with("HTTP/1.1 503"));
        assert_eq!(world.server.take_wanted().as_deref(), Some("owl"));
        assert_eq!(world.server.take_wanted(), None);
        assert!(world.ask("eagle").starts_with("HTTP/1.1 404"));
        assert_eq!(world.server.take_wanted(), None);
        world.server.refuse_model("owl", "its SHA-256 is another");
        let refused = world.ask("owl");
        assert!(refused.starts_with("HTTP/1.1 500"), "{refused}");
        assert!(
            body(&refused).contains("its SHA-256 is another"),
            "{refused}"
        );
        assert!(world.ask("tale").starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn who_comes_before_the_model_waits_for_it() {
    with_server(Access::default(), |world| {
        let expected = body(&world.ask("tale")).to_string();
        let clock = Arc::<Steps>::clone(&world.clock);
        let settings = ServeSettings {
            seed: 1,
            epoch: 1_700_000_000,
            ..ServeSettings::default()
        };
        world.server = Server::starting("tale", clock, settings);
        assert!(world.get("/health").starts_with("HTTP/1.1 200"));
        assert!(body(&world.get("/ready")).contains("\"loading\""));
        let request = format!("{{{ASK}}}");
        world.say(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{request}",
            request.len()
        ));
        for _ in 0..100 {
            assert!(!world.step());
        }
        world.server.put_model(named("tale"), Duration::ZERO);
        let answer = world.hear();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let content = |text: &str| {
            let (_, rest) = text.split_once("\"content\":").unwrap();
            rest.split_once('}').unwrap().0.to_string()
        };
        assert_eq!(content(body(&answer)), content(&expected));
    });
}

#[test]
fn clients_stay_while_the_model_changes() {
    with_server(Access::default(), |world| {
        world.server.list(Vec::from([owl()]));
        let expected = streamed(&world.post(
            "/v1/chat/completions",
            "",
            &format!("{{{ASK},\"stream\":true}}"),
        ));
        // One that runs is answered to its end.
        let request = format!("{{{ASK},\"stream\":true}}");
        world.say(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{request}",
            request.len()
        ));
        while world.server.is_drained() {
            world.step();
        }
        world.server.retire("owl");
        assert_eq!(streamed(&world.hear()), expected);
        assert!(world.server.is_drained());
        // New ones are told to come again, until the other is there.
        for model in ["tale", "owl", ""] {
            let later = world.ask(model);
            assert!(later.starts_with("HTTP/1.1 503"), "{later}");
            assert!(later.contains("\r\nretry-after: "), "{later}");
        }
        world.server.take_model().unwrap();
        assert!(world.get("/health").starts_with("HTTP/1.1 200"));
        assert!(world.get("/metrics").starts_with("HTTP/1.1 200"));
        let ready = world.get("/ready");
        assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
        assert!(body(&ready).contains("\"status\":\"loading\""), "{ready}");
        assert!(world.ask("owl").starts_with("HTTP/1.1 503"));
        world.server.put_model(named("owl"), Duration::from_secs(7));
        let answer = world.ask("owl");
        assert!(answer.contains("\"model\":\"owl\""), "{answer}");
        // The first takes as long again.
        let later = world.ask("tale");
        assert!(later.contains("\r\nretry-after: 7\r\n"), "{later}");
        assert_eq!(world.server.take_wanted().as_deref(), Some("tale"));
        assert!(world.get("/ready").starts_with("HTTP/1.1 200"));
    });
}
