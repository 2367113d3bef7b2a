//! The settings as a person sees and changes them.

use crate::attest;
use crate::boot::trust::FOR_BOOT;
use crate::boot::{CommandLine, listed};
use crate::machine::crash::{self, Policy};
use crate::machine::watchdog;
use crate::network;
use crate::say;
use crate::serve::ClientKey;
use crate::storage::digest_from;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use strata_image::measure;
use strata_image::settings::{SETTINGS, is_known, pairs};
use strata_image::signed::{OF_IMAGE, from_hex};
use strata_tls::Identity;

const SECRET: [&str; 3] = ["api-key", "key", "tls-key"];

/// Takes over what `strata.toml` says: tells what is wrong with it, and does what must be done at once.
pub fn apply(options: &CommandLine) {
    for pair in pairs(options.file()) {
        match pair {
            Ok((key, _)) if !is_known(key) && !OF_IMAGE.contains(&key) => {
                say!("strata.toml sets {key}, which means nothing here");
            }
            Ok(_) => {}
            Err(error) => say!("strata.toml: {error}"),
        }
    }
    for key in options
        .keys()
        .filter(|key| !is_known(key) && !FOR_BOOT.contains(key))
    {
        say!("the command line sets {key}, which means nothing here");
    }
    if let Some(name) = options.get("panic") {
        match Policy::named(name) {
            Some(policy) => crash::set_policy(policy),
            None => say!("panic={name} is not reboot, halt or exit"),
        }
    }
}

/// How long a step may take in nanoseconds: `watchdog=SECONDS`, or two minutes, which is enough for emulation.
pub fn step_timeout(options: &CommandLine) -> u64 {
    number(options, "watchdog")
        .unwrap_or(120)
        .saturating_mul(1_000_000_000)
}

/// A setting that is a number; what is none is told.
pub fn number(options: &CommandLine, key: &str) -> Option<u64> {
    let text = options.get(key)?;
    let number = text.parse().ok();
    if number.is_none() {
        say!("{key}={text} is not a number");
    }
    number
}

/// Whether pages and texts are kept on a data partition; where settings are signed or sealed, only if they say so.
pub fn keeps_data(options: &CommandLine, strict: bool) -> bool {
    options.get("data").map_or(!strict, |value| value == "on")
}

/// Characters that a key has at least: shorter ones are guessed.
const SHORTEST_KEY: usize = 8;

/// The key that clients must bring, or why there can be none.
pub fn key(options: &CommandLine) -> Result<Option<ClientKey>, &'static str> {
    if let Some(digits) = options.get("api-key-sha256") {
        let digest = digest_from(digits.as_bytes()).map(ClientKey::Digest);
        return digest
            .map(Some)
            .ok_or("api-key-sha256= is not 64 hexadecimal digits");
    }
    match options.get("api-key").or_else(|| options.get("key")) {
        Some(key) if key.len() < SHORTEST_KEY => Err("the key has fewer than 8 characters"),
        key => Ok(key.map(Into::into)),
    }
}

/// Who the machine is to clients that call by TLS, if they do: the certificate that the settings name, or, without one,
/// one of its own for this run. `seed` makes that one's key.
pub fn identity(options: &CommandLine, seed: [u8; 32]) -> Result<Option<Identity>, &'static str> {
    match (options.get("tls-cert"), options.get("tls-key")) {
        (Some(certificates), Some(key)) => {
            let decode = |text: &str| STANDARD.decode(text).ok();
            let certificates: Option<Vec<_>> = certificates.split(',').map(decode).collect();
            let certificates = certificates.ok_or("tls-cert= is not base64")?;
            let key = from_hex(key).ok_or("tls-key= is not 64 hexadecimal digits")?;
            let identity = Identity::new(certificates, key);
            let identity = identity.map_err(|_| "tls-cert= is not a certificate of tls-key=")?;
            Ok(Some(identity))
        }
        (None, None) if options.get("tls") == Some("on") => {
            let address = options.get("ip").and_then(|text| text.split('/').next());
            let names: Vec<&str> = [options.get("host"), address.filter(|ip| *ip != "dhcp")]
                .into_iter()
                .flatten()
                .chain(["localhost", "127.0.0.1"])
                .collect();
            Ok(Some(Identity::self_signed(seed, &names)))
        }
        (None, None) => Ok(None),
        _ => Err("of tls-cert= and tls-key= one is missing"),
    }
}

/// `config get [KEY]`, `config set KEY VALUE`.
pub(super) fn command(options: &mut CommandLine, rest: &str) {
    let mut words = rest.splitn(3, ' ');
    let (what, key, value) = (words.next(), words.next(), words.next());
    match (what, key, value) {
        (Some("get"), key, None) => {
            for (name, meaning) in SETTINGS {
                if key.is_none_or(|key| key == name) {
                    let value = options.get(name).unwrap_or("not set");
                    let hide = SECRET.contains(&name) && options.get(name).is_some();
                    say!("{name:<10}{:<24}{meaning}", if hide { "…" } else { value });
                }
            }
        }
        (Some("set"), Some(key), Some(value)) => set(options, key, value.trim()),
        _ => say!("config get [KEY], config set KEY VALUE"),
    }
}

/// Sets what can be set, and does what must be done at once.
pub(super) fn set(options: &mut CommandLine, key: &str, value: &str) {
    if !is_known(key) {
        return say!("there is no setting {key}");
    }
    let mut changed = options.clone();
    if !changed.set(key, value) {
        return say!("that cannot be set: it is too long, or has quotes in it");
    }
    if let Err(problem) = check(&changed, key, value) {
        return say!("{problem}; it stays as it was");
    }
    *options = changed;
    let measured = measure::settings(false, |name| options.get(name));
    attest::measure_text(
        attest::SETTINGS,
        &measured,
        "strata settings, changed in the shell",
    );
    match key {
        "watchdog" => watchdog::arm(step_timeout(options)),
        "panic" => apply(options),
        _ => say!("from the next model load on"),
    }
}

/// Whether the machine can go on with a value.
fn check(options: &CommandLine, key: &str, value: &str) -> Result<(), String> {
    let fits = match key {
        "ip" | "gw" | "port" => {
            let checked = network::Settings::from_options(options);
            return checked.map(drop).map_err(|error| format!("{error}"));
        }
        "ctx" | "threads" => value.parse::<usize>().is_ok_and(|number| number > 0),
        "watchdog" | "n" | "seed" => value.parse::<u64>().is_ok(),
        "temp" => value.parse::<f32>().is_ok_and(|heat| heat >= 0.0),
        "panic" => Policy::named(value).is_some(),
        "console" => matches!(value, "serial" | "screen"),
        "tls" | "shell" | "data" => matches!(value, "on" | "off"),
        "sha256" | "api-key-sha256" => digest_from(value.as_bytes()).is_some(),
        "models" => listed::models(value).all(|model| model.is_ok()),
        _ => true,
    };
    let meaning = SETTINGS.iter().find(|(name, _)| *name == key);
    let (_, meaning) = meaning.copied().unwrap_or_default();
    let problem = || format!("{key}={value} is not {meaning}");
    if fits { Ok(()) } else { Err(problem()) }
}

/// A command line as anyone may see it.
pub(super) fn without_keys(line: &str) -> String {
    let shown = line.split(' ').map(|word| match word.split_once('=') {
        Some((key, _)) if SECRET.contains(&key) => "key=…",
        _ => word,
    });
    shown.collect::<Vec<_>>().join(" ")
}
