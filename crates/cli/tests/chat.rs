//! The chat at a terminal: history, commands, interruption.

use crate::program::{command, scratch};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// More than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program at a terminal of its own.
struct Terminal {
    program: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    /// What has been shown since the last look.
    seen: String,
}

impl Terminal {
    fn open(name: &str, arguments: &[&str]) -> Self {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).expect("a terminal");
        let slave = || pty.slave.try_clone().expect("a handle");
        let program = command()
            .args(arguments)
            .env("TERM", "xterm")
            .env("XDG_DATA_HOME", scratch(name))
            .env("OLLAMA_MODELS", scratch(name).join("models"))
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .expect("the program starts");
        let keys = File::from(pty.master);
        let mut out = keys.try_clone().expect("a handle");
        let (send, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n) = out.read(&mut buffer) {
                if n == 0 || send.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            program,
            keys,
            screen,
            seen: String::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it listens");
    }

    /// What is shown up to the first `words`.
    #[track_caller]
    fn until(&mut self, words: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen.find(words) {
                let rest = self.seen.split_off(at + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(
                start.elapsed() < PATIENCE,
                "no {words:?} in {:?}",
                self.seen
            );
            if let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(100)) {
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    #[track_caller]
    fn leaves_well(mut self) {
        let status = self.program.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{}", self.seen);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.program.kill();
    }
}

const GREEDY: &[&str] = &["run", "--verbose", "--temp", "0"];

#[test]
fn a_conversation_goes_on_where_it_was() {
    let mut chat = Terminal::open("chat", &[GREEDY, &["-n", "20"]].concat());
    chat.until("/help");
    chat.until(">>> ");
    chat.press("Hello\r");
    chat.until("(0 cached)");
    chat.until(">>> ");
    chat.press("What color is the sky?\r");
    let shown = chat.until("end: ");
    assert!(!shown.contains("(0 cached)"), "{shown}");
    chat.until(">>> ");
    chat.press("/clear\r");
    chat.until("Cleared");
    chat.until(">>> ");
    chat.press("/nonsense\r");
    chat.until("unknown command");
    chat.until(">>> ");
    chat.press("/bye\r");
    chat.leaves_well();
}

#[test]
fn an_interrupted_answer_leaves_the_session() {
    let mut chat = Terminal::open("interrupt", GREEDY);
    chat.until(">>> ");
    chat.press("Tell me a long story about a fox.\r");
    chat.until("Once upon");
    let pid = Pid::from_raw(chat.program.id() as i32);
    kill(pid, Signal::SIGINT).expect("it runs");
    chat.until("end: interrupted");
    chat.until(">>> ");
    chat.press("Hello\r");
    chat.until("end: end of turn");
    chat.until(">>> ");
    // At the prompt Ctrl-C drops the line and Ctrl-D leaves.
    chat.press("half a li\x03");
    chat.until(">>> ");
    chat.press("\x04");
    chat.leaves_well();
}

#[test]
fn a_long_conversation_forgets_its_beginning() {
    let mut chat = Terminal::open("long", &[GREEDY, &["--ctx", "96", "-n", "40"]].concat());
    chat.until(">>> ");
    let mut shown = String::new();
    for _ in 0..4 {
        chat.press("Tell me a story about a fox.\r");
        shown += &chat.until("end: ");
        shown += &chat.until(">>> ");
    }
    assert!(shown.contains("no longer fit"), "{shown}");
    assert!(!shown.contains("error"), "{shown}");
    chat.press("\x04");
    chat.leaves_well();
}

#[test]
fn a_session_is_set_saved_and_loaded() {
    let mut chat = Terminal::open("session", GREEDY);
    let say = |chat: &mut Terminal, line: &str, words: &str| {
        chat.until(">>> ");
        chat.press(&format!("{line}\r"));
        chat.until(words)
    };
    say(
        &mut chat,
        "/set parameter num_predict 5",
        "Set num_predict to 5.",
    );
    say(
        &mut chat,
        "/set parameter nonsense 5",
        "there is no parameter \"nonsense\"",
    );
    say(
        &mut chat,
        "/set parameter temperature hot",
        "temperature should be a number",
    );
    say(&mut chat, "/set", "/set parameter NAME VALUE");
    say(&mut chat, "/set system Be kind.", "Set the system prompt.");
    say(&mut chat, "Hello", "answer 5 tokens");
    say(&mut chat, "/save ../bad", "cannot have");
    say(&mut chat, "/save me/kind", "session as me/kind:latest");
    say(&mut chat, "/clear", "Cleared");
    say(&mut chat, "/load nothing-of-this-name", "error: ");
    // The saved conversation is told again and goes on.
    say(&mut chat, "/load me/kind", ">>> Hello\r\n");
    say(&mut chat, "/system", "Be kind.");
    say(&mut chat, "/show parameters", "num_predict");
    say(&mut chat, "/show info", "quantization");
    say(&mut chat, "/show modelfile", "MESSAGE user Hello");
    say(&mut chat, "/show license", "mit");
    say(&mut chat, "/set format json", "Answers must be JSON.");
    let shown = say(&mut chat, "Describe a fox.", "answer 5 tokens");
    assert!(shown.contains("{\""), "{shown}");
    say(&mut chat, "/set noformat", "any text");
    // A message over several lines, in the middle of which Ctrl-C drops it.
    chat.until(">>> ");
    chat.press("\"\"\"two\r");
    chat.until("... ");
    chat.press("lines\x03");
    chat.until(">>> ");
    chat.press("\"\"\"two\r");
    chat.until("... ");
    chat.press("lines\"\"\"\r");
    chat.until("answer 5 tokens");
    say(&mut chat, "/set quiet", "hidden");
    say(
        &mut chat,
        "/set parameter num_predict -1",
        "Set num_predict to -1.",
    );
    // An answer that is broken off leaves the session as it was.
    say(&mut chat, "Tell me a long story about a fox.", "fox");
    chat.until(" ");
    let pid = Pid::from_raw(chat.program.id() as i32);
    kill(pid, Signal::SIGINT).expect("it runs");
    say(&mut chat, "/system", "Be kind.");
    say(&mut chat, "/bye", "");
    chat.leaves_well();
}

#[test]
fn lines_typed_ahead_are_answered_one_after_the_other() {
    let mut chat = Terminal::open("ahead", &[GREEDY, &["-n", "3"]].concat());
    // A paste without brackets, before the prompt is even there.
    chat.press("Hello\rWho are you?\r/show template\r");
    chat.until("answer 3 tokens");
    chat.until(">>> ");
    chat.until("answer 3 tokens");
    chat.until("im_start");
    chat.until(">>> ");
    chat.press("Tell me a story.\rTell me another one.\r/bye\r");
    chat.until("answer 3 tokens");
    chat.until("answer 3 tokens");
    chat.leaves_well();
}

#[test]
fn keys_are_not_echoed_into_an_answer() {
    let mut chat = Terminal::open("echo", &["run", "--temp", "0", "--verbose"]);
    chat.until(">>> ");
    chat.press("Tell me a long story about a fox.\r");
    chat.until("fox.");
    chat.until(" ");
    chat.press("typed ahead\x03");
    let shown = chat.until("end: ");
    assert!(!shown.contains("^C") && !shown.contains("typed"), "{shown}");
    // Ctrl-C drops what was typed before it, as terminals do.
    chat.until(">>> ");
    chat.press("/bye\r");
    chat.leaves_well();
}

#[test]
fn the_chat_says_what_it_is_helps_and_completes() {
    let mut chat = Terminal::open("banner", &["run"]);
    let banner = chat.until(">>> ");
    for words in ["tale", "29.37M", "Q4_K_M", "context 2048 tokens", "/help"] {
        assert!(banner.contains(words), "{words}: {banner}");
    }
    chat.press("/he\t\r");
    chat.until("Commands:\r\n  /set ");
    chat.until(">>> ");
    chat.press("/set\r");
    chat.until("\r\n  /set parameter");
    chat.until(">>> ");
    chat.press("/load ta\t\r");
    chat.until("/load tale");
    chat.until("context 2048 tokens");
    chat.until(">>> ");
    chat.press("/bye\r");
    chat.leaves_well();
}
