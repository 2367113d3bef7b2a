//! Sessions at the shell, on the host: what is typed, and what is said.

use super::*;
use crate::boot::Source;
use crate::boot::memory_map::Range;
use crate::console::serial::tests::type_in;
use crate::serve::Access;
use crate::serve::tests::{World, with_server};
use std::string::ToString;
use std::sync::{Mutex, MutexGuard};

/// There is one console, and one at a time may type.
static CONSOLE: Mutex<()> = Mutex::new(());
static HEAP: Heap = Heap::new();

struct Session {
    shell: Shell<'static>,
    _console: MutexGuard<'static, ()>,
}

impl Session {
    fn new(options: &str) -> Self {
        let mut info = BootInfo::new(Source::Pvh);
        info.memory.add(Range::new(0x10_0000, 0x20_0000));
        let options = CommandLine::copy(options.as_bytes());
        let info = std::boxed::Box::leak(std::boxed::Box::new(info));
        Self {
            shell: Shell::new(info, options, (3, &HEAP), &[]),
            _console: CONSOLE.lock().unwrap_or_else(|broken| broken.into_inner()),
        }
    }

    /// What is said after a line, and what is asked of the machine.
    fn ask(
        &mut self,
        line: &str,
        context: &mut ShellContext<'_, '_>,
    ) -> (String, Option<ModelCommand>) {
        type_in(&std::format!("{line}\r"));
        let next = self.shell.poll(context);
        let said = log();
        let (_, after) = said.rsplit_once(&std::format!("> {line}\n")).expect(&said);
        (after.to_string(), next)
    }

    /// The same where there is nothing around the shell.
    fn alone(&mut self, line: &str) -> String {
        let mut context = ShellContext {
            server: None,
            network: None,
            disks: &[],
        };
        self.ask(line, &mut context).0
    }
}

fn context<'a, 'w>(world: &'a mut World<'w>) -> ShellContext<'a, 'w> {
    ShellContext {
        server: Some(&mut world.server),
        network: Some(&mut world.network),
        disks: &[],
    }
}

#[test]
fn the_shell_tells_of_the_machine() {
    let mut session = Session::new("port=8080 key=secret-enough");
    let help = session.alone("help");
    for (name, what) in COMMANDS.iter().filter(|(_, what)| !what.is_empty()) {
        assert!(help.contains(name) && help.contains(what), "{name}: {help}");
    }
    let info = session.alone("info");
    assert!(info.contains("by Pvh, 3 processors"), "{info}");
    assert!(
        info.contains("port=8080 key=…") && !info.contains("secret"),
        "{info}"
    );
    for (line, sign) in [
        ("free", "KiB in use, in 0 pieces"),
        ("uptime", " s\n"),
        ("cpuid", "signature"),
        ("memmap", "0x000000100000..0x000000300000 2048 KiB free"),
        ("lspci", "there is no PCI"),
        ("ip", "there is no network"),
        ("ai Hello", "there is no model"),
        ("model info", "there is no model"),
        ("model", "model list, model load [NAME|image|disk|PATH]"),
        ("watchdog soon", "watchdog [SECONDS]"),
        ("watchdog", "120 s"),
        ("dance", "there is no command \"dance\""),
        ("", ""),
    ] {
        let said = session.alone(line);
        assert!(
            said.contains(sign) && said.ends_with("> "),
            "{line}: {said}"
        );
    }
}

#[test]
fn settings_are_read_and_changed_and_keys_stay_hidden() {
    let mut session = Session::new("key=secret-enough");
    let all = session.alone("config get");
    assert!(
        all.contains("key       …") && !all.contains("secret"),
        "{all}"
    );
    for (line, sign) in [
        ("config get port", "not set"),
        ("config set port 8080", "from the next model load on"),
        ("config set colour red", "there is no setting colour"),
        ("config set port \"80", "that cannot be set"),
        (
            "config set port abc",
            "port=abc is not a port from 1 to 65535",
        ),
        ("config set ip nowhere", "it stays as it was"),
        ("config set threads 0", "threads=0 is not"),
        ("config set console lamp", "console=lamp is not"),
        ("watchdog 300", ""),
        ("watchdog", "300 s"),
        ("config get port", "8080"),
        ("config forget", "config set KEY VALUE"),
    ] {
        let said = session.alone(line);
        assert!(said.contains(sign), "{line}: {said}");
    }
    assert_eq!(session.shell.options.get("port"), Some("8080"));
}

#[test]
fn a_shell_that_is_off_takes_no_commands() {
    let mut session = Session::new("shell=off");
    let mut context = ShellContext {
        server: None,
        network: None,
        disks: &[],
    };
    let before = log();
    type_in("config set shell on\ruptime\r");
    assert_eq!(session.shell.poll(&mut context), None);
    assert_eq!(log(), before);
    assert_eq!(session.shell.options.get("shell"), Some("off"));
}

#[test]
fn what_was_said_is_told_again() {
    let mut session = Session::new("");
    session.alone("cpuid");
    let told = |said: String| said.matches("> cpuid\n").count();
    let before = told(log());
    session.alone("dmesg");
    assert_eq!(told(log()), 2 * before);
}

#[test]
fn a_line_is_completed_and_found_again() {
    let mut session = Session::new("");
    let mut context = ShellContext {
        server: None,
        network: None,
        disks: &[],
    };
    for keys in ["upt\t\r", "\x1b[A\r"] {
        type_in(keys);
        session.shell.poll(&mut context);
        let said = log();
        let last = said.rsplit("> ").nth(1).unwrap_or_default();
        assert!(last.contains("uptime"), "{said}");
        assert!(last.ends_with(" s\n"), "{said}");
    }
}

#[test]
fn a_model_is_loaded_asked_measured_and_given_back() {
    with_server(Access::default(), |world| {
        let mut session = Session::new("name=tale models=owl=strata/owl.gguf,bad");
        let (list, _) = session.ask("model list", &mut context(world));
        for line in [
            "* tale ",
            "  owl ",
            "strata/owl.gguf\n",
            "models= has \"bad\"",
        ] {
            assert!(list.contains(line), "{list}");
        }
        let (_, next) = session.ask("model load owl", &mut context(world));
        assert_eq!(next, Some(ModelCommand::Load("owl".into())));
        let (_, next) = session.ask("model load", &mut context(world));
        assert_eq!(next, Some(ModelCommand::Load("".into())));
        let (facts, _) = session.ask("model info", &mut context(world));
        assert!(facts.contains("tale: llama"), "{facts}");
        let (story, _) = session.ask("ai Once upon a time", &mut context(world));
        assert!(story.len() > 100, "{story}");
        let (speed, _) = session.ask("bench", &mut context(world));
        assert!(
            speed.contains("tokens read") && speed.contains(" written, "),
            "{speed}"
        );
        let (_, next) = session.ask("model unload", &mut context(world));
        assert_eq!(next, Some(ModelCommand::Unload));
        // What goes on is ended by any key.
        session.ask("top", &mut context(world));
        session.shell.poll(&mut context(world));
        assert!(log().contains(" finished, 0 failed"), "{}", log());
        type_in("q");
        session.shell.poll(&mut context(world));
        assert!(session.alone("uptime").ends_with("s\n> "));
    });
}

#[test]
fn the_network_is_shown_closed_opened_and_asked_for_echoes() {
    with_server(Access::default(), |world| {
        let mut session = Session::new("");
        let (address, _) = session.ask("ip", &mut context(world));
        assert!(address.contains("10.0.0.1/24, port 80 open"), "{address}");
        session.ask("serve stop", &mut context(world));
        assert!(!world.network.is_open());
        session.ask("serve start", &mut context(world));
        assert!(world.network.is_open());
        let (usage, _) = session.ask("ping nobody", &mut context(world));
        assert!(usage.contains("ping ADDRESS"), "{usage}");
        session.ask("ping 10.0.0.2", &mut context(world));
        for _ in 0..200 {
            world.step();
            session.shell.poll(&mut context(world));
        }
        // A host that stands still for a second misses an echo, but not all of them.
        let said = log();
        let heard = |number| said.contains(&std::format!("\necho {number} from 10.0.0.2"));
        let missed = |number| said.contains(&std::format!("no echo {number} from 10.0.0.2"));
        assert!((1..=ECHOES).all(|n| heard(n) || missed(n)), "{said}");
        assert!((1..=ECHOES).any(heard), "{said}");
        world.say("GET ");
        let (connections, _) = session.ask("ss", &mut context(world));
        assert!(connections.contains("10.0.0.2:"), "{connections}");
    });
}

#[test]
fn strict_machines_keep_data_only_where_they_are_told_to() {
    for (line, open, strict) in [
        ("", true, false),
        ("data=on", true, true),
        ("data=off", false, false),
    ] {
        let options = CommandLine::copy(line.as_bytes());
        let kept = [false, true].map(|is_strict| settings::keeps_data(&options, is_strict));
        assert_eq!(kept, [open, strict], "{line}");
    }
}
