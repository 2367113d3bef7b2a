//! The machine as a server: the chat APIs on its first network card, and a shell on the serial line.

use crate::shell::Shell;
use crate::speaker;
use alloc::sync::Arc;
use strata_unikernel::boot::BootInfo;
use strata_unikernel::drivers::{Devices, NetDevice};
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::processors::WORKERS;
use strata_unikernel::machine::{Machine, calendar, cpu, local_apic, time, watchdog};
use strata_unikernel::model::{self, Load, Means, Opened};
use strata_unikernel::network::{Network, Settings};
use strata_unikernel::say;
use strata_unikernel::serve::{Access, ServeSettings, Server};

/// Texts that run side by side, and how many of their tokens are computed together.
const LOAD: Load = Load {
    requests: 8,
    batch: 128,
};
/// Characters that a key has at least: shorter ones are guessed.
const SHORTEST_KEY: usize = 8;
/// How long an idle machine sleeps before it looks at its devices again, in microseconds.
const NAP: u32 = 1000;

/// Serves until the machine is turned off, or until there is nothing to serve with.
pub(crate) fn serve(info: &BootInfo, machine: &Machine, devices: &mut Devices) {
    let mut shell = Shell::new(info, machine, devices);
    let settings = match Settings::from_options(&info.command_line) {
        Ok(settings) => settings,
        Err(error) => {
            say!("{error}");
            shell.alone()
        }
    };
    let Some((name, bytes)) = speaker::model(info) else {
        say!("there is no model in this image");
        shell.alone()
    };
    let Some(card) = devices.cards.first_mut() else {
        say!("there is no network card to serve through");
        shell.alone()
    };
    let means = Means {
        pool: &WORKERS,
        memory: &HugePages,
        progress: &watchdog::progress,
    };
    watchdog::arm(speaker::seconds(info).saturating_mul(1_000_000_000));
    let option = |key| info.command_line.get(key).map(Into::into);
    let serving = ServeSettings {
        name: name.into(),
        access: Access {
            key: option("key"),
            host: option("host"),
        },
        seed: cpu::time_stamp() ^ time::now().rotate_left(40),
        // SAFETY: this is the bare machine.
        epoch: unsafe { calendar::now() }
            .unwrap_or(0)
            .saturating_sub(time::now() / 1_000_000_000),
    };
    match &serving.access.key {
        None => say!("no key= is given: whoever reaches the port may call"),
        Some(key) if key.len() < SHORTEST_KEY => {
            say!("key= has fewer than {SHORTEST_KEY} characters");
            shell.alone()
        }
        Some(_) => {}
    }
    let served = model::open(bytes, LOAD, means, |opened| {
        run(opened, card.as_mut(), &settings, serving, &mut shell);
    });
    if let Err(error) = served {
        watchdog::arm(0);
        say!("{error}");
    }
    shell.alone()
}

fn run(
    opened: Opened<'_>,
    card: &mut dyn NetDevice,
    settings: &Settings,
    serving: ServeSettings,
    shell: &mut Shell<'_>,
) {
    let tokenizer = Arc::clone(&opened.tokenizer);
    let seed = serving.seed.rotate_left(17);
    let mut server = Server::new(opened, &tokenizer, &time::TimeStamps, serving);
    let mut network = Network::new(card, settings, seed, time::now());
    let mut address = None;
    loop {
        let came = network.poll(time::now());
        if network.address() != address {
            address = network.address();
            match address {
                Some(address) => say!(
                    "serving {} at http://{}:{} after {} ms",
                    server.facts().name,
                    address.address(),
                    network.port(),
                    time::now() / 1_000_000
                ),
                None => say!("the network took the address back"),
            }
        }
        let busy = server.turn(&mut network, time::now);
        watchdog::progress();
        shell.poll(&mut server, &network);
        if !busy && !came {
            let rest = network.rest(time::now()).unwrap_or(u64::MAX) / 1000;
            if rest > 0 {
                // SAFETY: this is the boot processor, whose timer runs.
                unsafe { local_apic::nap(NAP.min(rest.min(u64::from(NAP)) as u32)) };
            }
        }
    }
}
