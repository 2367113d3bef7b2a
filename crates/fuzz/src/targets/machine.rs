//! What a bare machine is told: the settings of its command line and of `strata.toml`, and what a hypervisor leaves in
//! memory.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_image::settings;
use strata_unikernel::boot::{CommandLine, Physical, pvh};
use strata_unikernel::network::Settings;

pub(super) const SETTINGS: Target = Target {
    words: &[
        "ip=",
        "dhcp",
        "10.0.2.15/24,10.0.2.2",
        "gw=",
        "port=",
        "key=",
        "model=",
        "\"",
        "'",
        "=",
        " ",
        "\n",
        "#",
        "[network]",
        "strata.toml",
        "ctx = ",
        "\\",
        "true",
    ],
    ..Target::new(
        "settings",
        "a command line and a strata.toml to the bare machine's readers of settings",
        settings,
    )
};

pub(super) const BOOT: Target = Target {
    made_seeds: || vec![start_info()],
    words: &["prompt=", "\"a b\"", "key=value"],
    ..Target::new(
        "boot",
        "the memory that a hypervisor left to the reader of PVH's start info",
        boot,
    )
};

fn settings(bytes: &[u8]) -> Outcome {
    // The first half is the line, the other the file.
    let (line, file) = bytes.split_at(bytes.len() / 2);
    let mut options = CommandLine::copy(line);
    options.set_file(file);
    let whole = CommandLine::copy(bytes);
    let mut found = 0;
    for (key, _) in settings::SETTINGS {
        found += usize::from(options.get(key).is_some()) + whole.all(key).count();
    }
    if options.set("name", "a fox") {
        assert_eq!(options.get("name"), Some("a fox"));
    }
    let faults = settings::pairs(&String::from_utf8_lossy(bytes))
        .filter(Result::is_err)
        .count();
    let both = [&options, &whole].map(|line| match Settings::from_options(line) {
        Ok(settings) => Ok(settings.address.is_some()),
        Err(error) => Err((error.key, error.wanted)),
    });
    Outcome::taken((magnitude(found), magnitude(faults), both))
}

/// Memory from address 0 on.
struct Memory<'a>(&'a [u8]);

impl Physical for Memory<'_> {
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(address).ok()?;
        self.0.get(start..start.checked_add(len)?)
    }
}

fn boot(bytes: &[u8]) -> Outcome {
    match pvh::read(&Memory(bytes), 0) {
        Ok(info) => Outcome::taken((
            info.rsdp.is_some(),
            info.module.is_some(),
            magnitude(info.command_line.as_str().len()),
        )),
        Err(error) => Outcome::refused(&error),
    }
}

/// Start info at 0, its map at 64, a module's entry at 160, a command line at 192.
fn start_info() -> Vec<u8> {
    let mut memory = Vec::new();
    for word in [0x336e_c578u32, 1, 0, 1] {
        memory.extend(word.to_le_bytes());
    }
    for address in [160u64, 192, 0xf_0000, 64] {
        memory.extend(address.to_le_bytes());
    }
    memory.extend([4, 0, 0, 0, 0, 0, 0, 0]);
    memory.resize(64, 0);
    for (start, len, kind) in [
        (0u64, 0x9_f000u64, 1u32),
        (0x10_0000, 0x3ff0_0000, 1),
        (0x20_0000, 0x1000, 2),
        (u64::MAX - 0xfff, 0x1000, 1),
    ] {
        memory.extend(start.to_le_bytes());
        memory.extend(len.to_le_bytes());
        memory.extend(kind.to_le_bytes());
        memory.extend([0; 4]);
    }
    memory.resize(160, 0);
    memory.extend(0x40_0000u64.to_le_bytes());
    memory.extend(0x1234u64.to_le_bytes());
    memory.resize(192, 0);
    memory.extend(b"model=image prompt=\"a b\" ip=dhcp\0");
    memory
}
