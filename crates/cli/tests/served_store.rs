//! Models of the store behind a server: their Modelfiles count, and clients make and remove them.

mod program;

use program::{Run, command, finish};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

fn tale() -> String {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/tale-q4_k_m.gguf"
    )
    .into()
}

/// A folder with a store, gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = program::scratch(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("models")
    }

    fn strata(&self, words: &[&str], host: &str) -> Run {
        let mut command = command();
        command.env("OLLAMA_MODELS", self.store()).args(words);
        command.env("STRATA_HOST", host).current_dir(&self.0);
        finish(command)
    }

    fn create(&self, name: &str, modelfile: &str) {
        let path = self.0.join("Modelfile");
        std::fs::write(&path, modelfile).unwrap();
        self.strata(&["create", name, "-f", path.to_str().unwrap()], "")
            .text();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of its own.
struct Server {
    program: Child,
    host: String,
}

impl Server {
    fn start(store: &Path) -> Self {
        let mut program = command()
            .args([
                "serve",
                "--host",
                "127.0.0.1:0",
                "--threads",
                "2",
                "--ctx",
                "512",
            ])
            .env("OLLAMA_MODELS", store)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let (_, host) = line.split_once("listening on http://").expect(&line);
        Self {
            host: host.to_owned(),
            program,
        }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let status = std::str::from_utf8(&bytes[9..12]).unwrap().parse().unwrap();
        (status, bytes.split_off(end + 4))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, body) = self.ask("POST", path, body.to_string().as_bytes());
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        json
    }

    fn refused(&self, path: &str, body: &Value) -> String {
        let (status, body) = self.ask("POST", path, body.to_string().as_bytes());
        assert!((400..500).contains(&status), "{path}: {status}");
        String::from_utf8(body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

const TEMPLATE: &str = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}\n{{ end }}<assistant>";

#[test]
fn a_modelfile_counts_on_the_command_line_and_in_every_dialect() {
    let place = Place::new("modelfile-counts");
    place.create(
        "teller",
        &format!(
            "FROM {}\nTEMPLATE \"\"\"{TEMPLATE}\"\"\"\nSYSTEM Tell short tales.\nPARAMETER seed 7\n\
             PARAMETER temperature 0\nPARAMETER num_predict 5\nPARAMETER num_ctx 256\nPARAMETER stop <end>\n\
             MESSAGE user Hello\nMESSAGE assistant Hi.\n",
            tale()
        ),
    );
    let run = place.strata(&["run", "teller", "--verbose", "Who are you?"], "");
    for words in ["seed 7\n", "answer 5 tokens", "of 256 positions"] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
    let longer = place.strata(
        &["run", "teller", "--verbose", "-n", "7", "Who are you?"],
        "",
    );
    assert!(longer.err.contains("answer 7 tokens"), "{}", longer.err);

    let server = Server::start(&place.store());
    let user = json!([{"role": "user", "content": "Who are you?"}]);
    let rendered = server.post(
        "/apply-template",
        &json!({"model": "teller", "messages": user}),
    );
    let expected =
        "<system>Tell short tales.\n<user>Hello\n<assistant>Hi.\n<user>Who are you?\n<assistant>";
    assert_eq!(rendered["prompt"], expected);
    let own = json!([{"role": "system", "content": "Sing."}, {"role": "user", "content": "Go"}]);
    let rendered = server.post(
        "/apply-template",
        &json!({"model": "teller", "messages": own}),
    );
    let prompt = rendered["prompt"].as_str().unwrap();
    assert!(
        prompt.contains("Sing.") && !prompt.contains("tales"),
        "{prompt}"
    );

    let chat = json!({"model": "teller", "messages": user, "stream": false});
    let ollama = server.post("/api/chat", &chat);
    assert_eq!(ollama["eval_count"], 5);
    assert_eq!(ollama["done_reason"], "length");
    let openai = server.post("/v1/chat/completions", &chat);
    let text = &openai["choices"][0]["message"]["content"];
    assert_eq!(
        *text, ollama["message"]["content"],
        "the same words in each dialect"
    );
    assert_eq!(openai["usage"]["completion_tokens"], 5);
    let more = json!({"model": "teller", "messages": user, "stream": false, "options": {"num_predict": 6}});
    assert_eq!(server.post("/api/chat", &more)["eval_count"], 6);

    let show = server.post("/api/show", &json!({"model": "teller"}));
    assert_eq!(show["template"], TEMPLATE);
    assert_eq!(show["system"], "Tell short tales.");
    assert_eq!(show["messages"][1]["content"], "Hi.");
    let parameters = show["parameters"].as_str().unwrap();
    assert!(
        parameters.contains("stop") && parameters.contains("\"<end>\""),
        "{parameters}"
    );
    assert!(
        show["modelfile"]
            .as_str()
            .unwrap()
            .contains("SYSTEM Tell short tales.")
    );

    // What the server has in memory, asked by the program itself.
    let ps = place.strata(&["ps"], &server.host).text();
    let rows: Vec<Vec<&str>> = ps
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"]
    );
    assert_eq!((rows.len(), rows[1][0]), (2, "teller:latest"), "{ps}");
    assert!(ps.contains("minutes from now"), "{ps}");
    let json: Value =
        serde_json::from_str(&place.strata(&["ps", "--json"], &server.host).text()).unwrap();
    assert_eq!(json["models"][0]["context_length"], 512);
    place.strata(&["stop", "teller"], &server.host).text();
    for _ in 0..100 {
        if place.strata(&["ps"], &server.host).text().lines().count() == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(
        place.strata(&["ps"], &server.host).text().lines().count(),
        1
    );
    let unknown = place.strata(&["stop", "nothing"], &server.host);
    assert!(
        unknown.code == Some(2) && unknown.err.contains("no model nothing"),
        "{}",
        unknown.err
    );
    drop(server);
    let gone = place.strata(&["ps"], "127.0.0.1:9");
    assert!(
        gone.code == Some(1) && gone.err.contains("no server answers"),
        "{}",
        gone.err
    );
}

#[test]
fn the_template_of_the_file_counts_unless_someone_wrote_another_here() {
    let place = Place::new("which-template");
    place.create("plain", &format!("FROM {}\n", tale()));
    place.create("child", "FROM plain\nSYSTEM x\n");
    place.create("own", "FROM plain\nTEMPLATE {{ .Prompt }}=\n");
    place.create("grandchild", "FROM own\nSYSTEM y\n");
    // Ollama writes manifests that it fetched without a line feed at their end.
    place.create("fetched", "FROM plain\nTEMPLATE {{ .Prompt }}=\n");
    let manifest = "manifests/registry.ollama.ai/library/fetched/latest";
    let manifest = place.store().join(manifest);
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.trim_end()).unwrap();
    let server = Server::start(&place.store());
    let prompt = |model: &str| {
        let messages = json!([{"role": "user", "content": "Hi"}]);
        let body = json!({"model": model, "messages": messages});
        let rendered = server.post("/apply-template", &body);
        rendered["prompt"].as_str().unwrap().to_owned()
    };
    assert_eq!(prompt("own"), "Hi=");
    let file = prompt("plain");
    assert!(!file.contains("Hi=") && file.contains("Hi"), "{file}");
    assert!(prompt("child").contains('x'));
    assert_eq!(prompt("fetched"), file);
    // The base's template is inherited with its weights, and the file's own is nearer to them.
    assert_ne!(prompt("grandchild"), "Hi=");
}

fn lines(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    // The chunks' sizes stand between the lines.
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(Value::is_object)
        .collect()
}

#[test]
fn clients_upload_and_create_models() {
    let place = Place::new("uploads");
    let server = Server::start(&place.store());
    let file = std::fs::read(tale()).unwrap();
    let digest: String = {
        use sha2::{Digest, Sha256};
        Sha256::digest(&file)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    let path = format!("/api/blobs/sha256:{digest}");
    assert_eq!(server.ask("HEAD", &path, b"").0, 404);
    let create = json!({"model": "up", "files": {"tale.gguf": format!("sha256:{digest}")}});
    assert!(server.refused("/api/create", &create).contains("no blob"));

    let wrong = format!("/api/blobs/sha256:{}", "0".repeat(64));
    let (status, body) = server.ask("POST", &wrong, &file);
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&body));
    assert_eq!(server.ask("HEAD", &wrong, b"").0, 404);
    assert_eq!(
        server.ask("POST", "/api/blobs/sha256:..%2f..%2fx", b"x").0,
        400
    );

    assert_eq!(server.ask("POST", &path, &file).0, 201);
    assert_eq!(server.ask("HEAD", &path, b"").0, 200);
    let create = json!({
        "model": "up", "files": {"tale.gguf": format!("sha256:{digest}")}, "system": "Be kind.",
        "parameters": {"temperature": 0, "stop": ["<end>"], "num_predict": 3}, "license": "Free.",
        "messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}],
    });
    let (status, body) = server.ask("POST", "/api/create", create.to_string().as_bytes());
    let told = lines(&body);
    assert_eq!(status, 200);
    assert!(told.len() > 2 && told[0]["status"].is_string(), "{told:?}");
    assert_eq!(told.last().unwrap()["status"], "success");
    assert_eq!(
        told.iter()
            .filter(|line| line["status"] == "success")
            .count(),
        1
    );

    let show = server.post("/api/show", &json!({"model": "up"}));
    assert_eq!(
        (&show["system"], &show["license"]),
        (&json!("Be kind."), &json!("Free."))
    );
    let generate = json!({"model": "up", "prompt": "Hello", "stream": false});
    assert_eq!(server.post("/api/generate", &generate)["eval_count"], 3);
    // Made anew, it is another model at once.
    let again =
        json!({"model": "up", "from": "up", "parameters": {"num_predict": 4}, "stream": false});
    assert_eq!(server.post("/api/create", &again)["status"], "success");
    let mut count = Value::Null;
    for _ in 0..50 {
        count = server.post("/api/generate", &generate)["eval_count"].clone();
        if count == 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(count, 4);

    for (body, words) in [
        (
            json!({"model": "x", "from": "up", "parameters": {"temperature": "hot"}}),
            "temperature",
        ),
        (
            json!({"model": "x", "from": "up", "quantize": "q0"}),
            "quantize",
        ),
        (json!({"model": "../x", "from": "up"}), "cannot have"),
        (
            json!({"model": "x", "files": {"../y.gguf": format!("sha256:{digest}")}}),
            "files",
        ),
        (
            json!({"model": "x", "files": {"y.bin": format!("sha256:{digest}")}}),
            "config.json",
        ),
        (json!({"model": "x"}), "from"),
    ] {
        let said = server.refused("/api/create", &body);
        assert!(said.contains(words), "{body}: {said}");
    }
}
