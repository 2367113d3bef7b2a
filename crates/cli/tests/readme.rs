//! Every command line of the README and of `docs/` works as it is written, or says why it is not tried here.

use crate::program::server::TestFolder;
use crate::program::strata;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Stands before a block that is not run, with the reason.
const MARK: &str = "<!-- not run by tests: ";

/// A block of command lines, and where it is.
struct Block {
    place: String,
    lines: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and what it leads to.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("a folder");
    let docs = docs.map(|entry| entry.expect("it can be read").path());
    let mut pages: Vec<PathBuf> = docs
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// The blocks of a page that are to be run.
fn blocks(path: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(path).expect("a page");
    let (mut blocks, mut marked) = (Vec::new(), false);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(reason) = line.strip_prefix(MARK) {
            let reason = reason.strip_suffix(" -->").expect("a comment of one line");
            assert!(reason.len() > 10, "{}: {reason:?}", path.display());
            marked = true;
        } else if let Some(language) = line.strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, line)| line);
            let inside: Vec<String> = inside
                .take_while(|line| !line.starts_with("```"))
                .map(str::to_owned)
                .collect();
            if language == "sh" && !marked {
                blocks.push(Block {
                    place: format!("{}:{}", path.display(), number + 1),
                    lines: inside,
                });
            }
            marked = false;
        }
    }
    blocks
}

/// What the pages take to be there.
fn furnish(place: &TestFolder) {
    let at = |name: &str| place.path().join(name);
    let synth = at("model.gguf");
    let synth = synth.to_str().expect("paths of tests are text");
    place.strata(&["synth", synth, "--mix", "f16"], "").text();
    std::fs::write(at("Modelfile"), "FROM tale\nPARAMETER num_predict 4\n").unwrap();
    std::fs::write(at("story.txt"), include_str!("story.txt")).unwrap();
    let chat = r#"{"messages": [{"role": "user", "content": "Hello"}]}"#;
    std::fs::write(at("chat.json"), chat).unwrap();
    let model = include_bytes!("../../model/tests/golden_speech/whisper.gguf");
    std::fs::write(at("whisper.gguf"), model).unwrap();
    let talk = include_bytes!("../../fuzz/seeds/wav/wav-16-bits.wav");
    std::fs::write(at("talk.wav"), talk).unwrap();
    std::fs::write(at("keys.txt"), "ada ada-secret-key 60 tale\n").unwrap();
}

/// A port that nobody has.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Runs the lines of a block in a shell, one after the other; servers stay until its end.
fn run(block: &Block, place: &TestFolder) {
    // Somebody may have the usual ports.
    let ports = ["11434", "8080", "8001", "8002"].map(|usual| (usual, free_port()));
    let strata = Path::new(env!("CARGO_BIN_EXE_strata"));
    let folder = strata.parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)),
    );
    let path = path.expect("plain paths");
    let shell = |line: &str| {
        let mut shell = Command::new("bash");
        shell
            .args(["-o", "pipefail", "-c", line])
            .current_dir(place.path())
            .env("PATH", &path)
            .env("OLLAMA_MODELS", place.store())
            .env("OLLAMA_HOST", format!("127.0.0.1:{}", ports[0].1))
            .stdin(Stdio::null());
        shell
    };
    let mut servers = Servers(Vec::new());
    for line in &block.lines {
        let mut line = line.clone();
        for (usual, port) in ports {
            line = line.replace(usual, &port.to_string());
        }
        // curl reports a refusal of the server too.
        let line = line.replace("curl ", "curl --fail --silent --show-error ");
        if line.starts_with("strata serve") || line.starts_with("strata relay") {
            // The shell becomes the server, so that this ends with it.
            let mut server = shell(&format!("exec {line}"));
            let mut server = server.stderr(Stdio::piped()).spawn().expect("a shell");
            let mut lines = BufReader::new(server.stderr.take().expect("a pipe")).lines();
            let ready = lines
                .by_ref()
                .map_while(Result::ok)
                .any(|line| line.contains("listening on"));
            servers.0.push(server);
            assert!(ready, "{}: {line}", block.place);
            std::thread::spawn(move || lines.for_each(drop));
            continue;
        }
        let done = shell(&line).output().expect("a shell");
        assert!(
            done.status.success(),
            "{}: {line}\n{}{}",
            block.place,
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// Servers that end with the block.
struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn command_lines_work_as_written() {
    let mut count = 0;
    for page in pages() {
        let name = page.file_stem().expect("a name").to_string_lossy();
        let place = TestFolder::new(&format!("readme-{name}"));
        furnish(&place);
        for block in blocks(&page) {
            run(&block, &place);
            count += block.lines.len();
        }
    }
    assert!(count > 30, "only {count} lines were run");
}

/// Whether a page has the heading that a link names, in the spelling of links.
fn has_heading(page: &Path, name: &str) -> bool {
    let spelled = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|&c| c.is_alphanumeric() || "- _".contains(c));
        kept.collect::<String>().replace(' ', "-")
    };
    let text = || std::fs::read_to_string(page).unwrap();
    name.is_empty()
        || text()
            .lines()
            .any(|line| line.starts_with('#') && spelled(line) == name)
}

#[test]
fn commands_and_links_of_the_pages_exist() {
    let help = strata(&["help"]).text();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for word in text.split("strata ").skip(1) {
            let name: String = word.chars().take_while(char::is_ascii_lowercase).collect();
            let follows = word[name.len()..].chars().next();
            // Sentences about Strata are not commands: those are in code.
            let listed = help.contains(&format!("\n  {name} ")) || name == "help";
            assert!(
                listed || !matches!(follows, Some('`' | ' ')) || name.is_empty(),
                "{}: strata {name}",
                page.display()
            );
        }
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            if !target.starts_with("http") {
                let (file, heading) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => page.clone(),
                    file => page.with_file_name(file),
                };
                assert!(path.exists(), "{}: {target}", page.display());
                assert!(has_heading(&path, heading), "{}: {target}", page.display());
            }
        }
    }
}
