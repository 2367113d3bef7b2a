//! The commands of the store, through the program.

use crate::program::{Run, command, finish, scratch, tale};
use std::path::Path;

fn strata(store: &Path, words: &[&str]) -> Run {
    let mut command = command();
    command.env("OLLAMA_MODELS", store).args(words);
    finish(command)
}

#[test]
fn a_model_is_made_listed_shown_copied_run_and_removed() {
    let folder = scratch("store-commands");
    let store = folder.join("models");
    std::fs::create_dir_all(&folder).unwrap();
    let modelfile = folder.join("Modelfile");
    let text = format!(
        "FROM {}\nSYSTEM Tell short tales.\nPARAMETER stop <end>\n",
        tale()
    );
    std::fs::write(&modelfile, text).unwrap();

    strata(
        &store,
        &["create", "teller:v1", "-f", modelfile.to_str().unwrap()],
    )
    .text();
    let list = strata(&store, &["list"]).text();
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "ID", "SIZE", "MODIFIED"]);
    assert_eq!(lines[1][0], "tale:latest", "the built-in model comes first");
    assert_eq!(
        (lines.len(), lines[2][0], lines[2][3]),
        (3, "teller:v1", "MB")
    );

    let show = strata(&store, &["show", "teller:v1"]).text();
    for expected in [
        "  Model\n    architecture",
        "quantization",
        "stop    \"<end>\"",
        "Tell short tales.",
    ] {
        assert!(show.contains(expected), "{show}");
    }
    assert_eq!(
        strata(&store, &["show", "teller:v1", "--system"]).text(),
        "Tell short tales.\n"
    );

    strata(&store, &["cp", "teller:v1", "me/other"]).text();
    let json: serde_json::Value =
        serde_json::from_str(&strata(&store, &["ls", "--json"]).text()).unwrap();
    assert_eq!(json["models"].as_array().unwrap().len(), 3);

    // The same file by its path and by its name in the store: the same tokens.
    let by_name = strata(&store, &["inspect", "me/other", "--json"]).text();
    let by_path = strata(&store, &["inspect", &tale(), "--json"]).text();
    assert_eq!(by_name, by_path);

    // What other programs keep is shown with where it is, and never touched.
    let names = ["hub", "models--u--r", "snapshots", "abc", "r-Q4_0.gguf"];
    let kept = names
        .iter()
        .fold(folder.clone(), |path, name| path.join(name));
    std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
    std::fs::write(&kept, b"bytes").unwrap();
    let mut all = command();
    all.env("OLLAMA_MODELS", &store)
        .env("HF_HUB_CACHE", folder.join("hub"))
        .env("HOME", &folder)
        .env("USERPROFILE", &folder);
    all.args(["list", "--all"]);
    let all = finish(all).text();
    assert!(
        all.contains(kept.to_str().unwrap()) && all.contains("me/other:latest"),
        "{all}"
    );

    strata(&store, &["store", "check"]).text();
    strata(&store, &["rm", "teller:v1", "me/other"]).text();
    assert_eq!(strata(&store, &["list"]).text().lines().count(), 2);
    assert_eq!(std::fs::read_dir(store.join("blobs")).unwrap().count(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_built_in_model_is_one_of_them() {
    let place = scratch("built-in");
    let store = place.join("models");
    std::fs::create_dir_all(&place).unwrap();
    let show = |model: &str| strata(&store, &["show", model]).text();
    let built_in = show("tale");
    for words in ["architecture", "29.37M", "2048", "Q4_K_M", "tools", "mit"] {
        assert!(built_in.contains(words), "{words}: {built_in}");
    }
    assert_eq!(show("tale:latest"), built_in);
    let template = strata(&store, &["show", "tale", "--template"]).text();
    let card = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/chat_template.jinja"
    );
    assert_eq!(template, std::fs::read_to_string(card).unwrap());
    let json = strata(&store, &["list", "tale", "--json"]).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let bytes = std::fs::metadata(tale()).unwrap().len();
    assert_eq!(json["models"][0]["size"], bytes);
    assert!(!store.exists(), "looking makes nothing");

    strata(&store, &["cp", "tale", "mine"]).text();
    let modelfile = place.join("Modelfile");
    std::fs::write(&modelfile, "FROM tale\nPARAMETER num_predict 4\n").unwrap();
    let modelfile = modelfile.to_str().unwrap();
    strata(&store, &["create", "short", "-f", modelfile]).text();
    strata(&store, &["create", "eight", "-f", modelfile, "-q", "q8_0"]).text();
    let says = says(&store, "tale", &[]);
    for model in ["mine", "short", "tale:latest"] {
        assert_eq!(self::says(&store, model, &[]), says, "{model}");
    }
    assert_eq!(
        strata(&store, &["show", "mine", "--template"]).text(),
        template
    );
    assert!(show("eight").contains("Q8_0"));
    for words in [
        &["rm", "tale"][..],
        &["cp", "mine", "tale"],
        &["create", "tale:latest", "-f", modelfile],
    ] {
        let run = strata(&store, words);
        assert_eq!(run.code, Some(2), "{words:?}: {}", run.err);
        assert!(run.err.contains("built"), "{words:?}: {}", run.err);
    }
    let pull = strata(&store, &["pull", "tale"]);
    assert!(
        pull.code == Some(0) && pull.err.contains("built in"),
        "{}",
        pull.err
    );
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let store = scratch("no-such-store");
    for (words, code, expected) in [
        (
            &["show", "nothing"][..],
            2,
            "there is no model nothing:latest on this machine",
        ),
        (&["rm", "../passwd"], 2, "cannot have"),
        (&["cp", "a", "b"], 2, "there is no model a:latest"),
        (&["create", "x", "-f", "/no/Modelfile"], 1, "/no/Modelfile"),
        (&["push", "nothing"], 2, "there is no model"),
        (&["pull", "http://127.0.0.1:9/a/b"], 1, "without TLS"),
        (&["pull", "127.0.0.1:9/a/b:c:d"], 2, "cannot have"),
    ] {
        let run = strata(&store, words);
        assert_eq!(run.code, Some(code), "{words:?}: {}", run.err);
        assert!(run.err.contains(expected), "{words:?}: {}", run.err);
    }
    assert!(!store.exists(), "looking makes nothing");
}

fn folder() -> String {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../convert/tests/folders/gemma"
    )
    .into()
}

/// What a model says, which depends on each of its weights.
fn says(store: &Path, model: &str, more: &[&str]) -> String {
    let words = ["run", model, "AB", "-n", "4", "--temp", "0", "--raw"];
    strata(store, &[&words, more].concat()).text()
}

#[test]
fn a_hugging_face_folder_becomes_a_model() {
    let place = scratch("folder");
    let store = place.join("models");
    std::fs::create_dir_all(&place).unwrap();
    let modelfile = place.join("Modelfile");
    std::fs::write(&modelfile, format!("FROM {}\n", folder())).unwrap();
    let modelfile = modelfile.to_str().unwrap();
    strata(&store, &["create", "plain", "-f", modelfile]).text();
    strata(&store, &["create", "small", "-f", modelfile, "-q", "q8_0"]).text();
    assert_eq!(says(&store, "plain", &[]), says(&store, &folder(), &[]));
    let quantized = says(&store, &folder(), &["--quant", "q8_0"]);
    assert_eq!(says(&store, "small", &[]), quantized);
    let show = strata(&store, &["show", "small"]).text();
    assert!(show.contains("Q8_0"), "{show}");
    // So are those of a model that is here already, with what it has beside them.
    let dressed = "FROM plain\nSYSTEM Be kind.\nPARAMETER top_k 3\n";
    std::fs::write(modelfile, dressed).unwrap();
    strata(&store, &["create", "dressed", "-f", modelfile]).text();
    std::fs::write(modelfile, "FROM dressed\nPARAMETER seed 1\n").unwrap();
    strata(&store, &["create", "again", "-f", modelfile, "-q", "q8_0"]).text();
    assert_eq!(says(&store, "again", &[]), quantized);
    let show = strata(&store, &["show", "again", "--modelfile"]).text();
    for line in ["SYSTEM Be kind.", "PARAMETER top_k 3", "PARAMETER seed 1"] {
        assert!(show.contains(line), "{show}");
    }
    let wrong = strata(&store, &["create", "x", "-f", modelfile, "-q", "q9"]);
    assert!(
        wrong.code == Some(2) && wrong.err.contains("q4_k_m"),
        "{}",
        wrong.err
    );
    strata(&store, &["store", "check"]).text();
    std::fs::remove_dir_all(&place).unwrap();
}

/// A hub with one repository: the files of a folder.
fn hub(folder: String) -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("http://{}", listener.local_addr().unwrap());
    let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    let siblings: Vec<serde_json::Value> = files
        .iter()
        .map(|(name, bytes)| serde_json::json!({"rfilename": name, "size": bytes.len()}))
        .collect();
    let listing = serde_json::json!({"sha": "abc", "siblings": siblings}).to_string();
    let answer = move |stream: std::net::TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut out = stream;
        loop {
            let (mut line, mut range) = (String::new(), None);
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            loop {
                let mut header = String::new();
                reader.read_line(&mut header).unwrap();
                if header.trim().is_empty() {
                    break;
                }
                let header = header.trim().to_ascii_lowercase();
                if let Some(span) = header.strip_prefix("range: bytes=") {
                    let (from, to) = span.split_once('-').unwrap();
                    let ends = (from.parse().unwrap(), to.parse().unwrap());
                    range = Some::<(usize, usize)>(ends);
                }
            }
            let name = path.rsplit('/').next().unwrap();
            let body = if path.starts_with("/api/models/") {
                listing.clone().into_bytes()
            } else {
                let file = files.iter().find(|(known, _)| known == name);
                file.unwrap().1.clone()
            };
            let (status, body) = match range {
                Some((from, to)) => {
                    let to = (to + 1).min(body.len());
                    let about =
                        format!("content-range: bytes {from}-{}/{}\r\n", to - 1, body.len());
                    (format!("206 Partial\r\n{about}"), body[from..to].to_vec())
                }
                None => ("200 OK\r\n".into(), body),
            };
            let head = format!("HTTP/1.1 {status}content-length: {}\r\n\r\n", body.len());
            let sent = out
                .write_all(head.as_bytes())
                .and_then(|()| out.write_all(&body));
            if sent.is_err() {
                return;
            }
        }
    };
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    host
}

#[test]
fn a_checkpoint_of_the_hub_is_pulled_and_converted() {
    let place = scratch("hub");
    let host = hub(folder());
    let mut pull = command();
    pull.env("OLLAMA_MODELS", &place).env("HF_ENDPOINT", &host);
    pull.args(["pull", "--insecure", "hf.co/me/gemma:q8_0"]);
    let run = finish(pull);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("quantizing model to q8_0"), "{}", run.err);
    let quantized = says(&place, &folder(), &["--quant", "q8_0"]);
    assert_eq!(says(&place, "hf.co/me/gemma:q8_0", &[]), quantized);
    // Only the model is left, not what it was made of.
    let blobs = std::fs::read_dir(place.join("blobs")).unwrap().count();
    assert_eq!(blobs, 2);
    strata(&place, &["store", "check"]).text();
    std::fs::remove_dir_all(&place).unwrap();
}
