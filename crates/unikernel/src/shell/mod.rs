//! The shell on the serial line. Nothing in it waits: what takes time goes on from one look to the next.

mod inspect;
pub mod settings;
#[cfg(test)]
mod tests;

use crate::boot::{BootInfo, CommandLine};
use crate::console::{self, Editor, Key};
use crate::drivers::Disk;
use crate::drivers::pci::Function;
use crate::machine::heap::Heap;
use crate::machine::{power, time, watchdog};
use crate::network::Network;
use crate::say;
use crate::serve::Server;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

const COMMANDS: [(&str, &str); 31] = [
    ("help", "this list"),
    ("info", "the machine"),
    ("free", "memory"),
    ("uptime", "how long the machine runs"),
    ("cpuid", "the processors"),
    ("memmap", "physical memory"),
    ("lspci", "devices on PCI"),
    ("lsblk", "disks and their partitions"),
    ("model info", "the model"),
    ("model list", "the models that there are"),
    (
        "model load",
        "model load [NAME|image|disk|PATH]: changes to it, and stays with the old one if it cannot",
    ),
    ("model unload", "gives the model's memory back"),
    ("ai", "ai PROMPT: continues a text"),
    ("bench", "how fast the model is"),
    ("serve start", "lets clients come"),
    ("serve stop", "sends clients away"),
    ("ip", "the network"),
    ("ss", "connections"),
    ("ping", "ping ADDRESS: asks a machine for echoes"),
    ("top", "the engine's counters each second, until a key"),
    ("measured", "what went into the TPM"),
    ("dmesg", "what was said so far"),
    ("config get", "config get [KEY]: settings"),
    (
        "config set",
        "config set KEY VALUE: until the machine restarts",
    ),
    ("watchdog", "watchdog [SECONDS]: how long a step may take"),
    ("clear", "clears the screen"),
    ("reboot", "starts the machine again"),
    ("shutdown", "turns the machine off"),
    ("model", ""),
    ("serve", ""),
    ("config", ""),
];

const SECOND: u64 = 1_000_000_000;
/// Echoes that `ping` asks for.
const ECHOES: u16 = 4;

/// What the shell is asked to do that it cannot do by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelCommand {
    /// Takes the model of that name, or of what the setting `model` may be; of nothing, the one that the settings name.
    Load(String),
    /// Goes on without a model.
    Unload,
}

/// What there is to command.
pub struct ShellContext<'a, 'n> {
    /// The server, where there is a model.
    pub server: Option<&'a mut Server>,
    /// The network, where there is a card.
    pub network: Option<&'a mut Network<'n>>,
    /// The disks.
    pub disks: &'a [Disk],
}

/// What goes on.
enum Activity {
    Nothing,
    Top {
        next: u64,
    },
    Ping {
        to: Ipv4Addr,
        number: u16,
        asked: u64,
    },
}

/// A shell.
pub struct Shell<'i> {
    info: &'i BootInfo,
    /// The settings as they are now.
    pub options: CommandLine,
    processors: usize,
    heap: &'i Heap,
    functions: &'i [Function],
    editor: Editor,
    activity: Activity,
    greeted: bool,
}

impl<'i> Shell<'i> {
    /// A shell of a machine with so many processors.
    pub fn new(
        info: &'i BootInfo,
        options: CommandLine,
        (processors, heap): (usize, &'i Heap),
        functions: &'i [Function],
    ) -> Self {
        Self {
            info,
            options,
            processors,
            heap,
            functions,
            editor: Editor::default(),
            activity: Activity::Nothing,
            greeted: false,
        }
    }

    /// Does what was typed, and goes on with what was begun.
    pub fn poll(&mut self, context: &mut ShellContext<'_, '_>) -> Option<ModelCommand> {
        if self.is_locked() {
            // What is typed is read, so that it does not wait for a shell that comes back.
            (0..64)
                .take_while(|_| console::read_byte().is_some())
                .count();
            return None;
        }
        if !self.greeted {
            self.greeted = true;
            prompt();
        }
        self.continue_activity(context);
        let words = COMMANDS.map(|(name, _)| name);
        // So many, so that a line that never falls silent does not stop the server.
        for _ in 0..64 {
            let byte = console::read_byte()?;
            if !matches!(self.activity, Activity::Nothing) {
                self.stop();
                continue;
            }
            match self.editor.key(byte, &words) {
                Key::Nothing => {}
                Key::Show(text) => console::write(format_args!("{text}")),
                Key::Line(line) => {
                    say!();
                    let next = self.execute(line.trim(), context);
                    if matches!(self.activity, Activity::Nothing) {
                        prompt();
                    }
                    if next.is_some() {
                        return next;
                    }
                }
            }
        }
        None
    }

    /// Whether nothing that is typed counts.
    fn is_locked(&self) -> bool {
        self.info.trust.sealed || self.options.get("shell") == Some("off")
    }

    fn stop(&mut self) {
        self.activity = Activity::Nothing;
        prompt();
    }

    fn continue_activity(&mut self, context: &mut ShellContext<'_, '_>) {
        let now = time::now();
        match (
            &mut self.activity,
            &mut context.server,
            &mut context.network,
        ) {
            (Activity::Top { next }, Some(server), _) if now >= *next => {
                *next = now + SECOND;
                server.counters().into_iter().for_each(inspect::counters);
            }
            (Activity::Ping { to, number, asked }, _, Some(network)) => {
                if let Some((from, heard)) = network.take_echo() {
                    say!(
                        "echo {heard} from {from} after {} us",
                        (now - *asked) / 1000
                    );
                } else if now - *asked < SECOND {
                    return;
                } else {
                    say!("no echo {number} from {to}");
                }
                *number += 1;
                *asked = now;
                if *number > ECHOES || !network.ask_echo(*to, *number) {
                    self.stop();
                }
            }
            _ => {}
        }
    }

    fn execute(&mut self, line: &str, context: &mut ShellContext<'_, '_>) -> Option<ModelCommand> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match command {
            "" => {}
            "help" => COMMANDS
                .iter()
                .filter(|(_, what)| !what.is_empty())
                .for_each(|(name, what)| say!("{name:<14}{what}")),
            "info" => {
                inspect::machine(self.info, self.processors);
                let shown = settings::without_keys(self.options.as_str());
                say!("command line: {shown}");
            }
            "free" => inspect::memory(self.heap),
            "uptime" => say!("{} s", time::now() / SECOND),
            "cpuid" => inspect::processor(),
            "memmap" => inspect::memory_map(self.info),
            "lspci" => inspect::functions(self.functions),
            "lsblk" => inspect::disks(context.disks),
            "dmesg" => console::write(format_args!("{}\n", log())),
            "measured" => inspect::measured(),
            "clear" => console::clear(),
            "reboot" => power::restart(),
            "shutdown" => power::shut_down(),
            "config" => settings::command(&mut self.options, rest),
            "watchdog" => match rest.parse::<u64>() {
                Ok(_) => settings::set(&mut self.options, "watchdog", rest),
                Err(_) if rest.is_empty() => {
                    say!("{} s", settings::step_timeout(&self.options) / SECOND);
                }
                Err(_) => say!("watchdog [SECONDS]"),
            },
            "model" => return self.model(rest, context),
            "ip" | "ss" | "ping" | "serve" => match &mut context.network {
                Some(network) => self.network_command(command, rest, network),
                None => say!("there is no network"),
            },
            "top" | "ai" | "bench" => match &mut context.server {
                Some(server) => {
                    let network = context.network.as_deref_mut();
                    self.server_command(command, rest, server, network);
                }
                None => say!("there is no model; model load takes one"),
            },
            other => say!("there is no command {other:?}; help lists those there are"),
        }
        None
    }

    fn model(&self, rest: &str, context: &ShellContext<'_, '_>) -> Option<ModelCommand> {
        let (what, path) = rest.split_once(' ').unwrap_or((rest, ""));
        let facts = context.server.as_ref().and_then(|server| server.facts());
        match (what, facts) {
            ("load", _) => return Some(ModelCommand::Load(path.trim().into())),
            ("unload", Some(_)) => return Some(ModelCommand::Unload),
            ("list", facts) => inspect::models(&self.options, facts),
            ("info", Some(facts)) => inspect::model(facts),
            ("unload" | "info", None) => say!("there is no model; model load takes one"),
            _ => say!("model list, model load [NAME|image|disk|PATH], model info, model unload"),
        }
        None
    }

    fn network_command(&mut self, command: &str, rest: &str, network: &mut Network<'_>) {
        match (command, rest) {
            ("serve", "start") => network.set_open(true),
            ("serve", "stop") => network.set_open(false),
            ("serve", _) => say!("serve start, serve stop"),
            ("ip", _) => inspect::network(network),
            ("ss", _) => inspect::connections(network),
            _ => match rest.parse::<Ipv4Addr>() {
                Ok(to) if network.ask_echo(to, 1) => {
                    let (number, asked) = (1, time::now());
                    self.activity = Activity::Ping { to, number, asked };
                }
                Ok(_) => say!("the question cannot be put now"),
                Err(_) => say!("ping ADDRESS, such as ping 10.0.2.2"),
            },
        }
    }

    fn server_command(
        &mut self,
        command: &str,
        rest: &str,
        server: &mut Server,
        network: Option<&mut Network<'_>>,
    ) {
        match command {
            "top" => self.activity = Activity::Top { next: 0 },
            "bench" => inspect::speed(server, network),
            _ if rest.is_empty() => say!("ai PROMPT"),
            _ => {
                let told = server.continue_text(network, rest, 128, &mut |text| {
                    watchdog::progress();
                    console::write(format_args!("{text}"));
                });
                say!();
                if let Err(fault) = told {
                    say!("{}", fault.message);
                }
            }
        }
    }
}

fn prompt() {
    console::write(format_args!("> "));
}

/// What was said.
fn log() -> String {
    console::with_log(|log| {
        let pieces: Vec<u8> = log.pieces().concat();
        format!("{}", String::from_utf8_lossy(&pieces))
    })
}
