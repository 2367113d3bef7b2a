//! The machine as a server: the chat APIs on its first network card, and a shell on the serial line.

use crate::HEAP;
use crate::source::SourceError;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_unikernel::attest;
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::{Devices, Disk};
use strata_unikernel::machine::entropy::Entropy;
use strata_unikernel::machine::{
    Machine, calendar, cpu, interrupt_controller, power, time, watchdog,
};
use strata_unikernel::model;
use strata_unikernel::network::{Network, Settings};
use strata_unikernel::say;
use strata_unikernel::serve::{Access, ServeSettings, Server, Tls};
use strata_unikernel::shell::settings::{self, step_timeout};
use strata_unikernel::shell::{ModelCommand, Shell, ShellContext};
use strata_unikernel::storage::data::{Area, DataStore, RecordLog};

/// How long an idle machine sleeps before it looks at its devices again, in microseconds: as long as it likes where the
/// card wakes it, and not long where nobody knows.
const NAP: u32 = 1000;
const LONG_NAP: u32 = 50_000;
/// How long a machine that starts waits for its address, in nanoseconds.
const FIRST_LOOK: u64 = 20_000_000;
/// A machine that is woken so often for nothing no longer believes that it is for something.
const FALSE_WAKES: u32 = 1000;

/// Serves until the machine is turned off: with a model, or, where there is none or it is unloaded, as a shell.
pub(crate) fn serve(
    info: &BootInfo,
    options: CommandLine,
    machine: &Machine,
    devices: &mut Devices,
) -> ! {
    let mut entropy = entropy(info, &devices.entropy);
    let Devices {
        disks,
        cards,
        functions,
        ..
    } = devices;
    let mut shell = Shell::new(info, options, (machine.processors(), &HEAP), functions);
    let (mut server, mut loaded, mut data) = (None, Loaded::default(), None);
    let mut next = ModelCommand::Load(String::new());
    loop {
        let network = match Settings::from_options(&shell.options) {
            Ok(settings) => cards
                .first_mut()
                .map(|card| Network::new(card.as_mut(), &settings, entropy.draw(), time::now())),
            Err(error) => {
                say!("{error}");
                None
            }
        };
        if network.is_none() {
            say!("there is no network to serve through");
        }
        let mut serving = Serving {
            info,
            entropy: &mut entropy,
            outside: outside(&shell.options),
            shell: &mut shell,
            network,
            disks,
            loaded: &mut loaded,
            data: &mut data,
            announced: None,
            woken: false,
            false_wakes: 0,
            card_wakes: false,
        };
        next = serving.run(&mut server, next);
    }
}

/// Settings of what clients see of the machine. They hold from the next load on, and send clients away.
const OUTSIDE: [&str; 10] = [
    "ip",
    "gw",
    "port",
    "host",
    "api-key",
    "key",
    "api-key-sha256",
    "tls",
    "tls-cert",
    "tls-key",
];

fn outside(options: &CommandLine) -> [Option<String>; OUTSIDE.len()] {
    OUTSIDE.map(|key| options.get(key).map(String::from))
}

/// What this machine has of random numbers, and says so.
fn entropy(info: &BootInfo, devices: &[u8]) -> Entropy {
    let mut entropy = Entropy::new(cpu::time_stamp());
    let mut own = Vec::new();
    cpu::random_numbers(&mut |number| own.extend(number.to_le_bytes()));
    entropy.add("the processor", &own);
    entropy.add(
        "firmware",
        info.entropy.as_ref().map_or(&[][..], |bytes| bytes),
    );
    entropy.add("virtio", devices);
    match entropy.sources() {
        [] => say!(
            "nothing here gives random numbers: names, seeds and sequence numbers can be guessed"
        ),
        sources => say!("random numbers from {}", sources.join(", ")),
    }
    entropy
}

/// The model that answers.
#[derive(Default)]
pub(crate) struct Loaded {
    /// How it was asked for.
    pub(crate) target: String,
    /// Bytes of memory that it took.
    pub(crate) held: usize,
}

/// The machine while it has the same network.
pub(crate) struct Serving<'r, 'i, 'n> {
    pub(crate) info: &'r BootInfo,
    entropy: &'r mut Entropy,
    pub(crate) shell: &'r mut Shell<'i>,
    pub(crate) network: Option<Network<'n>>,
    pub(crate) disks: &'r [Disk],
    pub(crate) loaded: &'r mut Loaded,
    /// Where pages and texts are kept, once it was found.
    data: &'r mut Option<DataStore>,
    /// The settings that the network was made with.
    outside: [Option<String>; OUTSIDE.len()],
    /// The address that was announced.
    pub(crate) announced: Option<String>,
    /// Whether a device ended the last nap, how many naps in a row ended so with nothing to show for it, and whether
    /// one ever ended so with a frame.
    woken: bool,
    false_wakes: u32,
    card_wakes: bool,
}

/// Why there is nothing to serve.
pub(crate) enum Failure {
    Source(SourceError),
    Model(model::ModelError),
    Setting(&'static str),
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
            Self::Setting(problem) => f.write_str(problem),
        }
    }
}

impl Serving<'_, '_, '_> {
    /// Does what it is told, until the network must be made anew for what it is told then.
    fn run(&mut self, server: &mut Option<Server>, mut next: ModelCommand) -> ModelCommand {
        if let Some(server) = server.as_mut()
            && let Err(problem) = self.start_over(server)
        {
            say!("{problem}");
        }
        loop {
            if next != ModelCommand::Unload && self.outside != outside(&self.shell.options) {
                return next;
            }
            match (next, server.as_mut()) {
                (ModelCommand::Load(target), Some(old)) => {
                    if let Err(failure) = self.change(old, &target) {
                        *server = None;
                        self.fail(&failure);
                    }
                }
                (ModelCommand::Load(target), None) => match self.first(&target) {
                    Ok(new) => *server = Some(new),
                    Err(failure) => self.fail(&failure),
                },
                (ModelCommand::Unload, Some(old)) => {
                    old.retire("");
                    self.drain(old);
                    *server = None;
                }
                (ModelCommand::Unload, None) => {}
            }
            next = match server {
                Some(server) => self.serve(server),
                None => self.without_model(),
            };
        }
    }

    /// Talks to clients as the settings say now, and to none of those that were there before.
    fn start_over(&mut self, server: &mut Server) -> Result<(), &'static str> {
        let (access, tls) = self.doors()?;
        server.start_over(access, tls);
        Ok(())
    }

    /// Who may call, and how clients are talked to.
    fn doors(&mut self) -> Result<(Access, Option<Tls>), &'static str> {
        let options = self.shell.options.clone();
        let key = settings::key(&options)?;
        let tls = self.tls(&options)?;
        if key.is_none() {
            say!("no api-key= is given: whoever reaches the port may call");
        }
        let host = options.get("host").map(Into::into);
        Ok((Access { key, host }, tls))
    }

    /// There is no model.
    fn fail(&self, failure: &Failure) {
        watchdog::arm(0);
        say!("{failure}");
        match self.shell.options.get("then") {
            Some("exit") => power::exit(0x10),
            Some("reboot") => power::restart(),
            _ if self.info.trust.is_strict() => crate::refuse(failure, &self.shell.options),
            _ => {}
        }
    }

    /// Loads a model where there is none, and makes its server.
    fn first(&mut self, target: &str) -> Result<Server, Failure> {
        let (access, tls) = self.doors().map_err(Failure::Setting)?;
        watchdog::arm(step_timeout(&self.shell.options));
        let others = self.others();
        let serving = ServeSettings {
            access,
            seed: self.entropy.draw()[0],
            guessable: self.entropy.sources().is_empty(),
            // SAFETY: this is the bare machine.
            epoch: unsafe { calendar::now() }
                .unwrap_or(0)
                .saturating_sub(time::now() / 1_000_000_000),
        };
        let name = self.name_of(target);
        let server = Server::starting(&name, Arc::new(time::TimeStamps), serving);
        let mut server = server.with_tls(tls);
        server.list(others);
        // A moment for the network, so that clients find the machine while the model is loaded.
        let until = time::now() + FIRST_LOOK;
        while self.network.is_some() && self.announced.is_none() && time::now() < until {
            self.tend(&mut server);
        }
        self.load(target, Some(&mut server))?.put_in(&mut server);
        Ok(server)
    }

    /// The first data partition, if there is one and it is to be used.
    pub(crate) fn data(&mut self) -> Option<DataStore> {
        if !settings::keeps_data(&self.shell.options, self.info.trust.is_strict()) {
            return None;
        }
        if self.data.is_none() {
            let (disk, area) = Area::find(self.disks, &mut |text| say!("{text}"))?;
            match RecordLog::open(area, self.entropy.draw()[0]) {
                Ok((log, new)) => {
                    let (bytes, held) = log.bytes();
                    let began = if new { ", which begins anew" } else { "" };
                    say!(
                        "the data partition of disk {disk} keeps {} of {} KiB{began}",
                        held >> 10,
                        bytes >> 10
                    );
                    *self.data = Some(DataStore::new(log));
                }
                Err(error) => say!("{error}"),
            }
        }
        self.data.clone()
    }

    /// How clients are talked to, if not in plain.
    fn tls(&mut self, options: &CommandLine) -> Result<Option<Tls>, &'static str> {
        let Some(identity) = settings::identity(options, self.entropy.bytes())? else {
            return Ok(None);
        };
        if self.entropy.sources().is_empty() {
            return Err("there is no TLS without random numbers, which nothing here gives");
        }
        let digits = identity
            .fingerprint()
            .map(|byte| alloc::format!("{byte:02x}"));
        say!("the certificate's SHA-256 is {}", digits.concat());
        if options.get("tls-cert").is_none() {
            let digest = identity.fingerprint();
            attest::measure(attest::SETTINGS, digest, "strata certificate of this run");
        }
        Ok(Some(Tls::new(identity, self.entropy.bytes())))
    }

    /// Serves until the shell or a client wants another model.
    fn serve(&mut self, server: &mut Server) -> ModelCommand {
        loop {
            let busy = self.tend(server);
            if let Some(next) = self.poll_shell(Some(server)) {
                return next;
            }
            if let Some(name) = server.take_wanted() {
                return ModelCommand::Load(name);
            }
            self.rest(busy);
        }
    }

    /// Looks after clients, and computes a step. Says whether anything was done.
    pub(crate) fn tend(&mut self, server: &mut Server) -> bool {
        let came = self.poll(Some(server));
        let busy = match &mut self.network {
            Some(network) => server.step(network, time::now),
            None => false,
        };
        watchdog::progress();
        busy || came
    }

    /// Computes what was begun to its end.
    pub(crate) fn drain(&mut self, server: &mut Server) {
        while !server.is_drained() {
            let busy = self.tend(server);
            self.rest(busy);
        }
    }

    /// The shell, and a network that answers nothing but echoes.
    fn without_model(&mut self) -> ModelCommand {
        watchdog::arm(0);
        if let Some(network) = &mut self.network {
            network.set_open(false);
        }
        self.announced = None;
        loop {
            let came = self.poll(None);
            if let Some(next) = self.poll_shell(None) {
                if let Some(network) = &mut self.network {
                    network.set_open(true);
                }
                self.announced = None;
                return next;
            }
            self.rest(came);
        }
    }

    fn poll_shell(&mut self, server: Option<&mut Server>) -> Option<ModelCommand> {
        self.shell.poll(&mut ShellContext {
            server,
            network: self.network.as_mut(),
            disks: self.disks,
        })
    }

    /// Moves frames. Says whether any came.
    pub(crate) fn poll(&mut self, server: Option<&Server>) -> bool {
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
        if address != self.announced {
            let facts = server.and_then(Server::facts);
            match (&address, server.zip(facts)) {
                (Some(address), Some((server, facts))) => say!(
                    "serving {} at {}://{address} after {} ms",
                    facts.name,
                    server.scheme(),
                    time::now() / 1_000_000
                ),
                (Some(address), None) => say!("the machine is at {address}"),
                (None, _) => say!("the network took the address back"),
            }
            self.announced = address;
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
        self.woken = unsafe { interrupt_controller::nap(rest.min(u64::from(longest)) as u32) };
        self.false_wakes = if self.woken { self.false_wakes + 1 } else { 0 };
        if self.false_wakes > FALSE_WAKES {
            interrupt_controller::ignore_devices();
            self.card_wakes = false;
        }
        if let Some(network) = self.network.as_mut().filter(|_| self.woken) {
            network.acknowledge();
        }
    }
}
