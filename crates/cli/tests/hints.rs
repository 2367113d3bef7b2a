//! What the program makes of slips, and what it says before and after it does something.

use crate::program::server::{Server, TestFolder};
use crate::program::{Scratch, command, fails, finish, scratch, strata, strata_reading};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

#[test]
fn slips_are_understood() {
    fails(
        2,
        &["'rnu'", "did you mean `strata run`?"],
        &["rnu", "tale"],
    );
    fails(2, &["did you mean `strata quantize`?"], &["quantise"]);
    fails(2, &["'llama3.2'", "strata help"], &["llama3.2"]);
    let folder = TestFolder::new("slips");
    // Nobody is asked: the registry of these names is not reachable from a test, and the answer comes at once.
    for (words, expected) in [
        (&["run", "tael", "Hello"][..], "did you mean tale?"),
        (&["serve", "talle"], "did you mean tale?"),
        (&["show", "tael"], "did you mean tale"),
        (&["cp", "tlae", "x"], "did you mean tale"),
    ] {
        let run = folder.strata(words, "");
        assert!(matches!(run.code, Some(1 | 2)), "{words:?}: {}", run.err);
        assert!(run.err.contains(expected), "{words:?}: {}", run.err);
    }
}

/// What a server says before it answers.
fn first_lines(words: &[&str]) -> Vec<String> {
    let mut server = command();
    server.args(["serve", "-t", "1"]).args(words);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let lines: Vec<String> = lines.map_while(Result::ok).take(2).collect();
    server.kill().unwrap();
    server.wait().unwrap();
    lines
}

#[test]
fn a_server_takes_a_port_and_says_what_to_open() {
    let free = || {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port()
    };
    let port = free().to_string();
    let lines = first_lines(&["--port", &port]);
    assert!(
        lines[0].contains(&format!("listening on http://127.0.0.1:{port}")),
        "{lines:?}"
    );
    assert!(
        lines[1].contains(&format!("open http://127.0.0.1:{port}")),
        "{lines:?}"
    );
    let port = free().to_string();
    let everywhere = [
        "--host",
        "0.0.0.0:1",
        "-p",
        &port,
        "--api-key",
        "a-long-key",
    ];
    let lines = first_lines(&everywhere);
    assert!(
        lines[1].contains(&format!("open http://127.0.0.1:{port}")),
        "{lines:?}"
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = strata(&["serve", "--port", &port]);
    assert_eq!(run.code, Some(1));
    for words in ["cannot listen on 127.0.0.1:", "--port"] {
        assert!(run.err.contains(words), "{}", run.err);
    }
    assert!(!run.err.contains("os error"), "{}", run.err);
    fails(2, &["--port"], &["serve", "--port", "99999"]);
}

#[test]
fn a_registry_without_tls_is_told_from_one_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 256];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let folder = TestFolder::new("plain-http");
    let run = folder.strata(&["pull", &format!("{host}/me/model")], "");
    assert_eq!(run.code, Some(1), "{}", run.err);
    for words in ["does not use TLS", "--insecure"] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
}

#[test]
fn tokens_go_through_a_pipe_and_come_back() {
    for text in [
        "Once upon  a time\n\n\"quoted\"  text  \"",
        "naïve 漢字\t🦙",
        "7  \"x\"",
    ] {
        let table = strata_reading(&["tokenize", "tale"], text).text();
        assert!(table.lines().count() > 3, "{table}");
        let back = strata_reading(&["detokenize", "tale"], &table).text();
        assert_eq!(back, format!("{text}\n"));
    }
    let ids = strata_reading(&["detokenize", "tale"], "[17,\n18] 19\n").text();
    assert_eq!(ids, strata(&["detokenize", "tale", "17,18,19"]).text());
}

#[test]
fn a_store_without_problems_is_said_to_have_none() {
    let folder = TestFolder::new("well");
    let empty = folder.strata(&["store", "check"], "").text();
    assert!(
        empty.contains("No problems found") && empty.contains("0 models"),
        "{empty}"
    );
    folder.create("mine", "FROM tale\n");
    let one = folder.strata(&["store", "check"], "").text();
    assert!(one.contains("(1 model)"), "{one}");
}

#[test]
fn a_template_is_checked_when_a_model_is_made() {
    let folder = TestFolder::new("bad-template");
    let file = folder.path().join("Modelfile");
    for template in [
        "{{ range .Messages }}{{ .Content }}",
        "{{ .Prompt",
        "{% for m in %}",
    ] {
        std::fs::write(
            &file,
            format!("FROM tale\nTEMPLATE \"\"\"{template}\"\"\"\n"),
        )
        .unwrap();
        let run = folder.strata(&["create", "x", "-f", file.to_str().unwrap()], "");
        assert_eq!(run.code, Some(2), "{template}: {}", run.err);
        assert!(run.err.contains("template"), "{template}: {}", run.err);
    }
    let server = Server::start(&folder.store(), &[]);
    let create = serde_json::json!({"model": "x", "from": "tale", "template": "{{ if }}"});
    let said = server.post_text("/api/create", &create);
    assert!(said.contains("template"), "{said}");
    let list = folder.strata(&["list"], "").text();
    assert!(!list.contains("x:latest"), "{list}");
}

#[test]
fn what_is_lost_is_said_before_it_is() {
    let out = Scratch(scratch("lossy.gguf"));
    let words = ["quantize", "tale", "q5_0", "-o", out.path()];
    let once = strata(&words);
    assert!(once.err.contains("already quantized"), "{}", once.err);
    assert!(!once.err.contains("replaced"), "{}", once.err);
    assert_eq!(once.code, Some(0));
    let again = strata(&words);
    assert!(again.err.contains("will be replaced"), "{}", again.err);
    let plain = Scratch(scratch("plain.gguf"));
    strata(&["synth", plain.path(), "--mix", "f16"]).text();
    let mut quantize = command();
    quantize.args(["quantize", plain.path(), "q8_0", "--dry-run"]);
    assert_eq!(finish(quantize).err, "");
}
