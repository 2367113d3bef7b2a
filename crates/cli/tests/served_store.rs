//! Models of the store behind a server: their Modelfiles count, and clients make and remove them.

use crate::program::server::{Server, TestFolder};
use crate::program::tale;
use serde_json::{Value, json};
use std::time::Duration;

/// The built-in model's own format, as Ollama would write it.
const TEMPLATE: &str = "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}\
                        <|im_start|>assistant\n";

#[test]
fn a_modelfile_counts_on_the_command_line_and_in_every_dialect() {
    let folder = TestFolder::new("modelfile-counts");
    folder.create(
        "teller",
        &format!(
            "FROM {}\nTEMPLATE \"\"\"{TEMPLATE}\"\"\"\nSYSTEM Tell short tales.\nPARAMETER seed 7\n\
             PARAMETER temperature 0\nPARAMETER num_predict 5\nPARAMETER num_ctx 256\nPARAMETER stop <end>\n\
             MESSAGE user Hello\nMESSAGE assistant Hi.\n",
            tale()
        ),
    );
    let run = folder.strata(&["run", "teller", "--verbose", "Who are you?"], "");
    for words in ["seed 7\n", "answer 5 tokens", "of 256 positions"] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
    let longer = folder.strata(
        &["run", "teller", "--verbose", "-n", "7", "Who are you?"],
        "",
    );
    assert!(longer.err.contains("answer 7 tokens"), "{}", longer.err);

    let server = Server::start(&folder.store(), &[]);
    let user = json!([{"role": "user", "content": "Who are you?"}]);
    let rendered = server.post(
        "/apply-template",
        &json!({"model": "teller", "messages": user}),
    );
    let said = |role: &str, text: &str| format!("<|im_start|>{role}\n{text}<|im_end|>\n");
    let expected = [
        said("system", "Tell short tales."),
        said("user", "Hello"),
        said("assistant", "Hi."),
        said("user", "Who are you?"),
        "<|im_start|>assistant\n".into(),
    ]
    .concat();
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
    let ps = folder.strata(&["ps"], &server.host).text();
    let models = |ps: &str| ps.lines().take_while(|line| !line.is_empty()).count();
    let rows: Vec<Vec<&str>> = ps
        .lines()
        .take(models(&ps))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"]
    );
    assert_eq!((rows.len(), rows[1][0]), (2, "teller:latest"), "{ps}");
    assert!(ps.contains("minutes from now"), "{ps}");
    let json: Value =
        serde_json::from_str(&folder.strata(&["ps", "--json"], &server.host).text()).unwrap();
    assert_eq!(json["models"][0]["context_length"], 512);
    folder.strata(&["stop", "teller"], &server.host).text();
    for _ in 0..100 {
        if models(&folder.strata(&["ps"], &server.host).text()) == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(models(&folder.strata(&["ps"], &server.host).text()), 1);
    let unknown = folder.strata(&["stop", "nothing"], &server.host);
    assert!(
        unknown.code == Some(2) && unknown.err.contains("no model nothing"),
        "{}",
        unknown.err
    );
    drop(server);
    let gone = folder.strata(&["ps"], "127.0.0.1:9");
    assert!(
        gone.code == Some(1) && gone.err.contains("cannot connect to a server"),
        "{}",
        gone.err
    );
}

#[test]
fn the_template_of_the_file_counts_unless_someone_wrote_another_here() {
    let folder = TestFolder::new("which-template");
    folder.create("plain", &format!("FROM {}\n", tale()));
    folder.create("child", "FROM plain\nSYSTEM x\n");
    folder.create("own", "FROM plain\nTEMPLATE {{ .Prompt }}=\n");
    folder.create("grandchild", "FROM own\nSYSTEM y\n");
    // Ollama writes manifests that it fetched without a line feed at their end.
    folder.create("fetched", "FROM plain\nTEMPLATE {{ .Prompt }}=\n");
    let manifest = "manifests/registry.ollama.ai/library/fetched/latest";
    let manifest = folder.store().join(manifest);
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.trim_end()).unwrap();
    let server = Server::start(&folder.store(), &[]);
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

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn clients_upload_and_create_models() {
    let folder = TestFolder::new("uploads");
    let server = Server::start(&folder.store(), &[]);
    let file = std::fs::read(tale()).unwrap();
    let digest = sha256(&file);
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

/// A file or folder of the converter's tests.
fn converted(name: &str) -> String {
    format!("{}/../convert/tests/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn an_adapter_of_a_modelfile_counts_like_one_of_the_command_line() {
    let folder = TestFolder::new("adapters");
    let (base, peft) = (
        converted("folders/llama-llama3-rope"),
        converted("adapters/llama"),
    );
    folder.create("base", &format!("FROM {base}\n"));
    folder.create("folder", &format!("FROM base\nADAPTER {peft}\n"));
    let both = format!("FROM {base}\nADAPTER {peft}/adapter_model.safetensors\n");
    folder.create("both", &both);
    // What the Modelfile is said to be makes the same model again.
    let show = folder.strata(&["show", "folder", "--modelfile"], "").text();
    let line = show.lines().find_map(|line| line.strip_prefix("ADAPTER "));
    std::fs::copy(line.expect(&show), folder.path().join("own.gguf")).unwrap();
    folder.create("file", "FROM base\nADAPTER ./own.gguf\n");

    let run = |model: &str, more: &[&str]| {
        let words = ["run", model, "AB", "-n", "12", "--temp", "0", "--raw"];
        folder.strata(&[&words, more].concat(), "").text()
    };
    let (plain, adapted) = (run("base", &[]), run("base", &["--lora", &peft]));
    assert_ne!(plain, adapted);
    let own = folder.path().join("own.gguf");
    assert_eq!(run("base", &["--lora", own.to_str().unwrap()]), adapted);
    for model in ["folder", "both", "file"] {
        assert_eq!(run(model, &[]), adapted, "{model}");
    }

    let server = Server::start(&folder.store(), &[]);
    let said = |model: &str| {
        let body = json!({"model": model, "prompt": "AB", "raw": true, "stream": false,
            "options": {"temperature": 0, "num_predict": 12}});
        let answer = server.post("/api/generate", &body);
        answer["response"].as_str().unwrap().to_owned()
    };
    let served = said("folder");
    assert_eq!(served, adapted.strip_suffix('\n').unwrap_or(&adapted));
    assert_ne!(served, said("base"));
    assert_eq!(served, said("file"));
    let show = server.post("/api/show", &json!({"model": "folder"}));
    let modelfile = show["modelfile"].as_str().unwrap();
    assert!(modelfile.contains("\nADAPTER "), "{modelfile}");
    // Clients send the same folder file by file.
    let mut files = serde_json::Map::new();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        let bytes = std::fs::read(format!("{peft}/{file}")).unwrap();
        let digest = format!("sha256:{}", sha256(&bytes));
        let path = format!("/api/blobs/{digest}");
        assert_eq!(server.ask("POST", &path, &bytes).0, 201);
        files.insert(file.into(), digest.into());
    }
    let mut create = json!({"model": "sent", "from": "base", "adapters": files, "stream": false});
    assert_eq!(server.post("/api/create", &create)["status"], "success");
    assert_eq!(said("sent"), served);
    let adapters = create["adapters"].as_object_mut().unwrap();
    adapters.remove("adapter_config.json");
    let refused = server.refused("/api/create", &create);
    assert!(refused.contains("adapter_config.json"), "{refused}");
}

#[test]
fn an_adapter_that_does_not_fit_makes_no_model() {
    let folder = TestFolder::new("wrong-adapters");
    let base = converted("folders/llama-llama3-rope");
    let other = converted("adapters/gpt2");
    for (adapter, code, words) in [
        (other.as_str(), 3, "gpt2"),
        ("./nothing.gguf", 1, "nothing.gguf"),
        (&base, 1, "folder"),
    ] {
        let path = folder.path().join("Modelfile");
        std::fs::write(&path, format!("FROM {base}\nADAPTER {adapter}\n")).unwrap();
        let run = folder.strata(&["create", "x", "-f", path.to_str().unwrap()], "");
        let expected = run.code == Some(code) && run.err.contains(words);
        assert!(expected, "{adapter}: {:?} {}", run.code, run.err);
    }
    assert_eq!(folder.strata(&["list"], "").text().lines().count(), 2);
}

#[test]
fn a_template_of_the_store_is_rendered_as_its_chats_have_it() {
    let folder = TestFolder::new("rendered");
    let calls = "{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ range .ToolCalls }}{{ .Function.Name }}{{ .Function.Arguments }}{{ end }}{{ end }}{{ range .Tools }}{{ .Function.Name }}{{ end }}";
    folder.create(
        "own",
        &format!("FROM {}\nTEMPLATE \"\"\"{calls}\"\"\"\n", tale()),
    );
    folder.create("plain", &format!("FROM {}\n", tale()));
    let input = json!({
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "tool_calls": [
                {"id": "1", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
            {"role": "tool", "content": "4"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    });
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let file = write("input.json", &input.to_string());
    let render = |words: &[&str]| {
        let words = [&["template", "--input", &file], words].concat();
        folder.strata(&words, "").text()
    };
    let expected = "<user>Hi<assistant>f{\"a\":1}<tool>4f";
    assert_eq!(render(&["own"]), expected);
    let go = write("own.tmpl", calls);
    assert_eq!(render(&["--file", &go]), expected);
    let jinja = write("own.jinja", "{{ messages[0].role }}");
    assert_eq!(render(&["--file", &jinja]), "user");
    let simple = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let simple = write("simple.json", &simple.to_string());
    let rendered = |model| {
        let words = ["template", model, "--input", &simple];
        folder.strata(&words, "").text()
    };
    assert_eq!(rendered("plain"), rendered("tale"));
    let wrong = write("wrong.json", "{\"messages\": [1]}");
    let run = folder.strata(&["template", "own", "--input", &wrong], "");
    assert!(
        run.code == Some(2) && run.err.contains("each message"),
        "{}",
        run.err
    );
}

#[test]
fn what_a_model_thinks_is_told_apart() {
    let folder = TestFolder::new("thinking");
    let template = "{{ range .Messages }}{{ .Content }}{{ end }}{{ if .Think }}<think>{{ end }}";
    folder.create(
        "thinker",
        &format!("FROM {}\nTEMPLATE {template}\n", tale()),
    );
    let answers = |regex: &str, more: &[&str]| {
        let words = ["run", "thinker", "Hi", "--regex", regex];
        folder.strata(&[&words, more].concat(), "").text()
    };
    let both = "<think>\n so\n\nhm \n\n</think>\n\nyes";
    let shown = "Thinking...\nso\n\nhm \n...done thinking.\n\nyes\n";
    assert_eq!(answers(both, &[]), shown);
    assert_eq!(answers(both, &["--hidethinking"]), "yes\n");
    // A form begins at the answer: what the prompt opens is closed before it.
    assert_eq!(
        answers("hm</think>yes", &["--think", "--hidethinking"]),
        "hm</think>yes\n"
    );
    assert_eq!(answers("no <think>x</think>", &[]), "no <think>x</think>\n");
}

#[test]
fn clients_use_the_built_in_model_like_any_other() {
    let folder = TestFolder::new("built-in-served");
    let tiny = folder.path().join("tiny.gguf");
    folder.strata(&["synth", tiny.to_str().unwrap()], "").text();
    // It is not the one that is served.
    let server = Server::start(&folder.store(), &[tiny.to_str().unwrap()]);
    let get =
        |path: &str| -> Value { serde_json::from_slice(&server.ask("GET", path, b"").1).unwrap() };
    let names = |list: &Value, key: &str| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|model| model[key].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&get("/v1/models")["data"], "id"), ["tiny", "tale"]);
    assert_eq!(names(&get("/api/tags")["models"], "model").len(), 2);
    let show = server.post("/api/show", &json!({"model": "tale"}));
    assert_eq!(show["details"]["quantization_level"], "Q4_K_M");
    server.post("/api/pull", &json!({"model": "tale", "stream": false}));
    let copy = json!({"source": "tale", "destination": "mine"});
    let (status, _) = server.ask("POST", "/api/copy", copy.to_string().as_bytes());
    assert_eq!(status, 200);
    let create = json!({"model": "kind", "from": "tale", "system": "Be kind.", "stream": false});
    server.post("/api/create", &create);
    let says = |model: &str| {
        let ask = json!({
            "model": model, "prompt": "Hello", "system": "Be kind.", "stream": false,
            "options": {"temperature": 0, "num_predict": 8},
        });
        server.post("/api/generate", &ask)["response"].clone()
    };
    assert_eq!(says("mine"), says("tale"));
    assert_eq!(says("kind"), says("tale:latest"));
    let (status, body) = server.ask("DELETE", "/api/delete", b"{\"model\":\"tale\"}");
    assert_eq!(status, 400, "{}", String::from_utf8_lossy(&body));
    let taken = json!({"source": "mine", "destination": "tale"});
    assert!(server.refused("/api/copy", &taken).contains("built-in"));
}
