//! The shell on the serial line.

use crate::HEAP;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_unikernel::boot::BootInfo;
use strata_unikernel::console::{self, Editor, Key};
use strata_unikernel::drivers::Devices;
use strata_unikernel::machine::{Machine, local_apic, power, time, watchdog};
use strata_unikernel::network::Network;
use strata_unikernel::say;
use strata_unikernel::serve::Server;

const COMMANDS: [(&str, &str); 12] = [
    ("help", "this list"),
    ("info", "the machine and the model"),
    ("free", "memory"),
    ("uptime", "how long the machine runs"),
    ("lspci", "devices that have a driver"),
    ("lsblk", "disks"),
    ("ip", "the network"),
    ("top", "the engine's counters"),
    ("ai", "ai PROMPT: continues a text"),
    ("dmesg", "what was said so far"),
    ("reboot", "starts the machine again"),
    ("shutdown", "turns the machine off"),
];

/// A shell.
pub(crate) struct Shell<'i> {
    info: &'i BootInfo,
    processors: usize,
    disks: Vec<String>,
    cards: Vec<String>,
    editor: Editor,
    greeted: bool,
}

impl<'i> Shell<'i> {
    pub(crate) fn new(info: &'i BootInfo, machine: &Machine, devices: &Devices) -> Self {
        let disks = devices.disks.iter().map(|disk| {
            let bytes = disk.blocks().saturating_mul(disk.block_bytes() as u64);
            format!("{}, {} MiB", disk.name(), bytes >> 20)
        });
        let cards = devices.cards.iter();
        let cards = cards.map(|card| format!("{}, {:02x?}", card.name(), card.address()));
        Self {
            info,
            processors: machine.processors(),
            disks: disks.collect(),
            cards: cards.collect(),
            editor: Editor::default(),
            greeted: false,
        }
    }

    /// Does what was typed.
    pub(crate) fn poll(&mut self, server: &mut Server<'_>, network: &Network<'_>) {
        self.read(Some((server, network)));
    }

    /// Goes on without a server: what went wrong was said before.
    pub(crate) fn alone(&mut self) -> ! {
        watchdog::arm(0);
        match self.info.command_line.get("then") {
            Some("exit") => power::exit(0x10),
            Some("reboot") => power::restart(),
            _ => {}
        }
        loop {
            self.read(None);
            // SAFETY: this is the boot processor, whose timer runs.
            unsafe { local_apic::nap(10_000) };
        }
    }

    fn read(&mut self, mut serving: Option<(&mut Server<'_>, &Network<'_>)>) {
        if !self.greeted {
            self.greeted = true;
            console::write(format_args!("> "));
        }
        let words = COMMANDS.map(|(name, _)| name);
        // So many, so that a line that never falls silent does not stop the server.
        for _ in 0..64 {
            let Some(byte) = console::read_byte() else {
                return;
            };
            match self.editor.key(byte, &words) {
                Key::Nothing => {}
                Key::Show(text) => console::write(format_args!("{text}")),
                Key::Line(line) => {
                    say!();
                    let serving = serving
                        .as_mut()
                        .map(|(server, network)| (&mut **server, *network));
                    self.execute(line.trim(), serving);
                    console::write(format_args!("> "));
                }
            }
        }
    }

    fn execute(&self, line: &str, serving: Option<(&mut Server<'_>, &Network<'_>)>) {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "" => {}
            "help" => COMMANDS
                .iter()
                .for_each(|(name, what)| say!("{name:<10}{what}")),
            "info" => {
                say!(
                    "Strata {}, by {:?}, {} processors, {} MHz",
                    env!("CARGO_PKG_VERSION"),
                    self.info.source,
                    self.processors,
                    time::frequency() / 1_000_000
                );
                say!(
                    "command line: {}",
                    without_key(self.info.command_line.as_str())
                );
                if let Some((server, _)) = serving {
                    let facts = server.facts();
                    say!(
                        "model {}: {}, {} weights, {} MiB, context {}",
                        facts.name,
                        facts.family,
                        facts.parameters,
                        facts.bytes >> 20,
                        facts.context
                    );
                }
            }
            "free" => {
                let usage = HEAP.usage();
                say!(
                    "{} KiB of {} KiB in use, in {} pieces",
                    usage.used >> 10,
                    usage.total >> 10,
                    usage.pieces
                );
            }
            "uptime" => say!("{} s", time::now() / 1_000_000_000),
            "lspci" => self
                .cards
                .iter()
                .chain(&self.disks)
                .for_each(|name| say!("{name}")),
            "lsblk" => self.disks.iter().for_each(|disk| say!("{disk}")),
            "dmesg" => console::write(format_args!("{}\n", log())),
            "reboot" => power::restart(),
            "shutdown" => power::shut_down(),
            "ip" | "top" | "ai" => match serving {
                Some((server, network)) => serving_command(command, rest, server, network),
                None => say!("nothing is served"),
            },
            other => say!("there is no command {other:?}; help lists those there are"),
        }
    }
}

fn serving_command(command: &str, rest: &str, server: &mut Server<'_>, network: &Network<'_>) {
    match command {
        "ip" => {
            let (name, card) = network.card();
            let (came, went) = network.frames();
            match network.address() {
                Some(address) => say!("{name} {card:02x?}: {address}, port {}", network.port()),
                None => say!("{name} {card:02x?}: no address yet"),
            }
            say!(
                "{came} frames came, {went} went; {} clients",
                server.clients()
            );
        }
        "top" => {
            let counters = server.counters();
            say!(
                "{} running, {} waiting, {} finished, {} failed; {} tokens read, {} written; \
                 {} of {} pages free",
                counters.running,
                counters.waiting,
                counters.finished,
                counters.failed,
                counters.prompt_tokens,
                counters.generated_tokens,
                counters.free_pages,
                counters.pages
            );
        }
        _ if rest.trim().is_empty() => say!("ai PROMPT"),
        _ => {
            let told = server.continue_text(rest, &mut |text| {
                watchdog::progress();
                console::write(format_args!("{text}"));
            });
            say!();
            if let Err(error) = told {
                say!("{error}");
            }
        }
    }
}

/// What was said.
fn log() -> String {
    console::with_log(|log| String::from_utf8_lossy(&log.pieces().concat()).into_owned())
}

/// The command line as anyone may see it.
fn without_key(line: &str) -> String {
    let words = line.split(' ');
    let shown = words.map(|word| {
        if word.starts_with("key=") {
            "key=…"
        } else {
            word
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}
