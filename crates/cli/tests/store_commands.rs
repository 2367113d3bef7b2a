//! The commands of the store, through the program.

mod program;

use program::{Run, command, finish};
use std::path::Path;

fn strata(store: &Path, words: &[&str]) -> Run {
    let mut command = command();
    command.env("OLLAMA_MODELS", store).args(words);
    finish(command)
}

fn tale() -> String {
    concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/tale-q4_k_m.gguf"
    )
    .into()
}

#[test]
fn a_model_is_made_listed_shown_copied_run_and_removed() {
    let folder = std::env::temp_dir().join(format!("strata-store-commands-{}", std::process::id()));
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
    assert_eq!(
        (lines.len(), lines[1][0], lines[1][3]),
        (2, "teller:v1", "MB")
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
    assert_eq!(json["models"].as_array().unwrap().len(), 2);

    // The same file by its path and by its name in the store: the same tokens.
    let by_name = strata(&store, &["inspect", "me/other", "--json"]).text();
    let by_path = strata(&store, &["inspect", &tale(), "--json"]).text();
    assert_eq!(by_name, by_path);

    // What other programs keep is shown with where it is, and never touched.
    let kept = folder.join("hub/models--u--r/snapshots/abc/r-Q4_0.gguf");
    std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
    std::fs::write(&kept, b"bytes").unwrap();
    let mut all = command();
    all.env("OLLAMA_MODELS", &store)
        .env("HF_HUB_CACHE", folder.join("hub"))
        .env("HOME", &folder);
    all.args(["list", "--all"]);
    let all = finish(all).text();
    assert!(
        all.contains(kept.to_str().unwrap()) && all.contains("me/other:latest"),
        "{all}"
    );

    strata(&store, &["store", "check"]).text();
    strata(&store, &["rm", "teller:v1", "me/other"]).text();
    assert_eq!(strata(&store, &["list"]).text().lines().count(), 1);
    assert_eq!(std::fs::read_dir(store.join("blobs")).unwrap().count(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let store = std::env::temp_dir().join("strata-no-such-store");
    for (words, code, expected) in [
        (
            &["show", "nothing"][..],
            2,
            "there is no model nothing:latest here",
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
