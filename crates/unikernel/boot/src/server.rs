//! The machine as a server: the chat APIs on its first network card, and a shell on the serial line.

use crate::HEAP;
use crate::source::{self, ProgressLog, SourceError};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use strata_unikernel::attest;
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::{Devices, Disk};
use strata_unikernel::machine::entropy::Entropy;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::workers::LimitedPool;
use strata_unikernel::machine::{
    Machine, calendar, cpu, interrupt_controller, power, time, watchdog,
};
use strata_unikernel::model::{self, LoadSettings, LocalModel, Placement, Platform};
use strata_unikernel::network::{Network, Settings};
use strata_unikernel::say;
use strata_unikernel::serve::{Access, ClientKey, ServeSettings, Server, Tls};
use strata_unikernel::shell::settings::{self, step_timeout};
use strata_unikernel::shell::{ModelCommand, Shell, ShellContext};

/// Sequences that run side by side, and how many of their tokens are computed together.
const REQUESTS: usize = 8;
const BATCH: usize = 128;
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
    let mut entropy = entropy(info, &devices.entropy);
    let Devices {
        disks,
        cards,
        functions,
        ..
    } = devices;
    let mut shell = Shell::new(info, options, (machine.processors(), &HEAP), functions);
    let mut next = ModelCommand::Load;
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
            entropy: &mut entropy,
            shell: &mut shell,
            network,
            disks,
            announced: None,
            woken: false,
            false_wakes: 0,
            card_wakes: false,
        };
        let went_on = match next {
            ModelCommand::Load => serving.with_model(info),
            ModelCommand::Unload => Ok(serving.without_model()),
        };
        next = went_on.unwrap_or_else(|error| {
            watchdog::arm(0);
            say!("{error}");
            match serving.shell.options.get("then") {
                Some("exit") => power::exit(0x10),
                Some("reboot") => power::restart(),
                _ if info.trust.is_strict() => crate::refuse(&error, &serving.shell.options),
                _ => serving.without_model(),
            }
        });
        watchdog::arm(0);
    }
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

/// The machine while it has the same model, or none.
struct Serving<'r, 'i, 'n> {
    entropy: &'r mut Entropy,
    shell: &'r mut Shell<'i>,
    network: Option<Network<'n>>,
    disks: &'r [Disk],
    /// The address that was announced.
    announced: Option<String>,
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
    fn with_model(&mut self, info: &BootInfo) -> Result<ModelCommand, Failure> {
        let options = self.shell.options.clone();
        let key = settings::key(&options).map_err(Failure::Setting)?;
        let tls = self.tls(&options).map_err(Failure::Setting)?;
        if key.is_none() {
            say!("no api-key= is given: whoever reaches the port may call");
        }
        watchdog::arm(step_timeout(&options));
        let source = source::model(info, &options, self.disks).map_err(Failure::Source)?;
        let pool = LimitedPool {
            pool: &WORKERS,
            count: settings::number(&options, "threads").map_or(usize::MAX, |n| n as usize),
        };
        let log = ProgressLog::new("packed");
        let platform = Platform {
            pool: Arc::new(pool),
            memory: &HugePages,
            progress: &mut |done, all| {
                log.report(done, all);
                ControlFlow::Continue(())
            },
        };
        let load = LoadSettings {
            requests: REQUESTS,
            batch: BATCH,
            context: settings::number(&options, "ctx").map(|n| n as usize),
            free: source::free(),
        };
        let name = options.get("name").unwrap_or("model");
        let opened = model::open(&source, name, load, platform);
        let (model, placement) = opened.map_err(Failure::Model)?;
        Ok(self.serve(model, placement, (key, tls), &options))
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

    fn serve(
        &mut self,
        model: LocalModel,
        placement: Placement,
        (key, tls): (Option<ClientKey>, Option<Tls>),
        options: &CommandLine,
    ) -> ModelCommand {
        if let Placement::Within(bytes) = placement {
            say!(
                "only {} MiB of weights fit in memory: it goes slowly",
                bytes >> 20
            );
        }
        let serving = ServeSettings {
            access: Access {
                key,
                host: options.get("host").map(Into::into),
            },
            seed: self.entropy.draw()[0],
            guessable: self.entropy.sources().is_empty(),
            // SAFETY: this is the bare machine.
            epoch: unsafe { calendar::now() }
                .unwrap_or(0)
                .saturating_sub(time::now() / 1_000_000_000),
        };
        let server = Server::new(model, Arc::new(time::TimeStamps), serving);
        let mut server = server.with_tls(tls);
        loop {
            let came = self.poll(Some(&server));
            let busy = match &mut self.network {
                Some(network) => server.step(network, time::now),
                None => false,
            };
            watchdog::progress();
            if let Some(next) = self.poll_shell(Some(&mut server)) {
                return next;
            }
            self.rest(busy || came);
        }
    }

    /// The shell, and a network that answers nothing but echoes.
    fn without_model(&mut self) -> ModelCommand {
        if let Some(network) = &mut self.network {
            network.set_open(false);
        }
        loop {
            let came = self.poll(None);
            if let Some(next) = self.poll_shell(None) {
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
        if address != self.announced {
            match (&address, server) {
                (Some(address), Some(server)) => say!(
                    "serving {} at {}://{address} after {} ms",
                    server.facts().name,
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
