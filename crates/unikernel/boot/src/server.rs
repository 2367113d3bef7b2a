//! The machine as a server: the chat APIs on its first network card, and a shell on the serial line.

use crate::HEAP;
use crate::source::{self, SourceError, Telling};
use alloc::string::String;
use alloc::sync::Arc;
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::{Devices, Disk};
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::workers::Few;
use strata_unikernel::machine::{Machine, calendar, cpu, local_apic, power, time, watchdog};
use strata_unikernel::model::{self, Load, Means, Opened, Placement};
use strata_unikernel::network::{Network, Settings};
use strata_unikernel::say;
use strata_unikernel::serve::{Access, ServeSettings, Server};
use strata_unikernel::shell::settings::{self, patience};
use strata_unikernel::shell::{Around, Next, Shell};

/// Texts that run side by side, and how many of their tokens are computed together.
const REQUESTS: usize = 8;
const BATCH: usize = 128;
/// Characters that a key has at least: shorter ones are guessed.
const SHORTEST_KEY: usize = 8;
/// How long an idle machine sleeps before it looks at its devices again, in microseconds: as long as it likes where the
/// card wakes it, and not long where nobody knows.
const NAP: u32 = 1000;
const LONG_NAP: u32 = 50_000;
/// A machine that is woken so often for nothing no longer believes that it is for something.
const FALSE_WAKES: u32 = 1000;

/// Serves until the machine is turned off: with a model, or, where there is none or it is unloaded, as a shell.
pub(crate) fn serve(
    info: &BootInfo,
    options: CommandLine,
    machine: &Machine,
    devices: &mut Devices,
) -> ! {
    let Devices {
        disks,
        cards,
        functions,
    } = devices;
    let mut shell = Shell::new(info, options, (machine.processors(), &HEAP), functions);
    let mut next = Next::Load;
    loop {
        let network = match Settings::from_options(&shell.options) {
            Ok(settings) => cards.first_mut().map(|card| {
                let seed = cpu::time_stamp().rotate_left(17);
                Network::new(card.as_mut(), &settings, seed, time::now())
            }),
            Err(error) => {
                say!("{error}");
                None
            }
        };
        if network.is_none() {
            say!("there is no network to serve through");
        }
        let mut run = Run {
            shell: &mut shell,
            network,
            disks,
            told: None,
            woken: false,
            false_wakes: 0,
            card_wakes: false,
        };
        let went_on = match next {
            Next::Load => run.with_model(info),
            Next::Unload => Ok(run.alone()),
        };
        next = went_on.unwrap_or_else(|error| {
            watchdog::arm(0);
            say!("{error}");
            match run.shell.options.get("then") {
                Some("exit") => power::exit(0x10),
                Some("reboot") => power::restart(),
                _ => run.alone(),
            }
        });
        watchdog::arm(0);
    }
}

/// One stretch with the same model, or with none.
struct Run<'r, 'i, 'n> {
    shell: &'r mut Shell<'i>,
    network: Option<Network<'n>>,
    disks: &'r [Disk],
    /// The address that was told.
    told: Option<String>,
    /// Whether a device ended the last nap, how many naps in a row ended so with nothing to show for it, and whether
    /// one ever ended so with a frame.
    woken: bool,
    false_wakes: u32,
    card_wakes: bool,
}

/// Why there is nothing to serve.
enum Failure {
    Source(SourceError),
    Model(model::ModelError),
    Key,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
            Self::Key => write!(f, "the key has fewer than {SHORTEST_KEY} characters"),
        }
    }
}

impl Run<'_, '_, '_> {
    fn with_model(&mut self, info: &BootInfo) -> Result<Next, Failure> {
        let options = self.shell.options.clone();
        match settings::key(&options) {
            None => say!("no api-key= is given: whoever reaches the port may call"),
            Some(key) if key.len() < SHORTEST_KEY => return Err(Failure::Key),
            Some(_) => {}
        }
        watchdog::arm(patience(&options));
        let source = source::model(info, &options, self.disks).map_err(Failure::Source)?;
        let pool = Few {
            pool: &WORKERS,
            count: settings::number(&options, "threads").map_or(usize::MAX, |n| n as usize),
        };
        let told = Telling::new("packed");
        let means = Means {
            pool: Arc::new(pool),
            memory: &HugePages,
            progress: &|done, all| told.tell(done, all),
        };
        let load = Load {
            requests: REQUESTS,
            batch: BATCH,
            context: settings::number(&options, "ctx").map(|n| n as usize),
            free: source::free(),
        };
        let served = model::open(&source, load, means, |opened| self.serve(opened, &options));
        served.map_err(Failure::Model)
    }

    fn serve(&mut self, opened: Opened<'_>, options: &CommandLine) -> Next {
        if let Placement::Within(bytes) = opened.placement {
            say!(
                "only {} MiB of weights fit in memory: it goes slowly",
                bytes >> 20
            );
        }
        let serving = ServeSettings {
            name: options.get("name").unwrap_or("model").into(),
            access: Access {
                key: settings::key(options).map(Into::into),
                host: options.get("host").map(Into::into),
            },
            seed: cpu::time_stamp() ^ time::now().rotate_left(40),
            // SAFETY: this is the bare machine.
            epoch: unsafe { calendar::now() }
                .unwrap_or(0)
                .saturating_sub(time::now() / 1_000_000_000),
        };
        let mut server = Server::new(opened, Arc::new(time::TimeStamps), serving);
        loop {
            let came = self.poll(Some(&server));
            let busy = match &mut self.network {
                Some(network) => server.turn(network, time::now),
                None => false,
            };
            watchdog::progress();
            if let Some(next) = self.shell_turn(Some(&mut server)) {
                return next;
            }
            self.rest(busy || came);
        }
    }

    /// The shell, and a network that answers nothing but echoes.
    fn alone(&mut self) -> Next {
        if let Some(network) = &mut self.network {
            network.set_open(false);
        }
        loop {
            let came = self.poll(None);
            if let Some(next) = self.shell_turn(None) {
                return next;
            }
            self.rest(came);
        }
    }

    fn shell_turn(&mut self, server: Option<&mut Server>) -> Option<Next> {
        self.shell.poll(&mut Around {
            server,
            network: self.network.as_mut(),
            disks: self.disks,
        })
    }

    /// Moves frames. Says whether any came.
    fn poll(&mut self, server: Option<&Server>) -> bool {
        let Some(network) = &mut self.network else {
            return false;
        };
        let came = network.poll(time::now());
        if came {
            self.card_wakes |= self.woken;
            self.false_wakes = 0;
        }
        let address = network.address().map(|address| address.address());
        let address = address.map(|address| alloc::format!("{address}:{}", network.port()));
        if address != self.told {
            match (&address, server) {
                (Some(address), Some(server)) => say!(
                    "serving {} at http://{address} after {} ms",
                    server.facts().name,
                    time::now() / 1_000_000
                ),
                (Some(address), None) => say!("the machine is at {address}"),
                (None, _) => say!("the network took the address back"),
            }
            self.told = address;
        }
        came
    }

    fn rest(&mut self, busy: bool) {
        if busy {
            return;
        }
        let rest = self
            .network
            .as_mut()
            .map(|network| network.rest(time::now()));
        let rest = rest.flatten().unwrap_or(u64::MAX) / 1000;
        if rest == 0 {
            return;
        }
        let longest = if self.card_wakes { LONG_NAP } else { NAP };
        // SAFETY: this is the boot processor, whose timer runs.
        self.woken = unsafe { local_apic::nap(rest.min(u64::from(longest)) as u32) };
        self.false_wakes = if self.woken { self.false_wakes + 1 } else { 0 };
        if self.false_wakes > FALSE_WAKES {
            local_apic::ignore_devices();
            self.card_wakes = false;
        }
        if let Some(network) = self.network.as_mut().filter(|_| self.woken) {
            network.acknowledge();
        }
    }
}
