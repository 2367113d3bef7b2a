//! Images that are sealed, signed and called by TLS, as `strata image` writes them.

use super::client::KEY;
use super::guest::{Boot, done, expect, scratch};
use crate::command::{root, run as execute, strata_for_checks};
use crate::conformance;
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the model begins in an image, and where its settings do.
const MODEL: &[u8] = b"GGUF";
const SETTINGS: &[u8] = b"sealed=on name=tale";

/// Writes a sealed and signed image with a certificate.
fn write() -> Result<PathBuf> {
    let (key, image) = (scratch("maker.pem"), scratch("sealed.elf"));
    for path in [key.clone(), key.with_extension("pem.pub")] {
        if path.exists() {
            std::fs::remove_file(path)?;
        }
    }
    let strata = strata_for_checks()?;
    execute(Command::new(&strata).args(["pack", "--new-key"]).arg(&key))?;
    execute(
        Command::new(&strata)
            .args(["image", "tale", "--sealed", "--tls", "--api-key", KEY])
            .arg("--sign")
            .arg(&key)
            .arg("--kernel")
            .arg(scratch("kernel.elf"))
            .arg("--output")
            .arg(&image),
    )?;
    Ok(image)
}

/// The image answers OpenAI's client by TLS with its certificate and takes no commands; a bit of its settings or its model
/// that is changed is noticed. Gives where its program was.
pub(super) fn sealed(here: SocketAddr) -> Result<u64> {
    let image = write()?;
    let place = serves(here, &image)?;
    let begin = Instant::now();
    let whole = std::fs::read(&image)?;
    let find = |sign: &[u8]| {
        let at = whole.windows(sign.len()).rposition(|part| part == sign);
        at.context("the image has no such part")
    };
    let model = std::fs::read(root().join("models/tale/tale-q4_k_m.gguf"))?;
    let start = whole.len() - model.len();
    ensure!(whole[start..].starts_with(MODEL), "the model is at the end");
    // The processor has no random numbers here, and a device has them too late for the program's addresses.
    let foreseen = "the program's addresses can be foreseen: neither";
    for (what, at, messages) in [
        (
            "settings",
            find(SETTINGS)? + 15,
            &["their signature is wrong"][..],
        ),
        (
            "model",
            start + model.len() / 2,
            &["the model's SHA-256 is", foreseen],
        ),
    ] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        let path = scratch("changed.elf");
        std::fs::write(&path, &changed)?;
        let boot = Boot {
            name: &format!("a bit of the {what} is changed"),
            machine: "microvm",
            model: "max,-rdrand,-rdseed",
            options: "then=exit",
            ..Boot::default()
        };
        let boot = boot.with(&["-device", "virtio-rng-device"]);
        let said = boot.run(Some(&path))?;
        messages
            .iter()
            .try_for_each(|message| expect(&said, message))?;
        ensure!(!said.contains("serving"), "it serves:\n{said}");
    }
    done("changed images are refused", begin);
    Ok(place)
}

fn serves(here: SocketAddr, image: &Path) -> Result<u64> {
    let begin = Instant::now();
    let boot = Boot {
        machine: "microvm",
        // Nothing of this counts.
        options: "port=80 key=another-key shell=on tls=off",
        ..Boot::default()
    };
    let boot = boot.with(&["-device", "virtio-rng-device"]);
    let mut guest = boot.start(Some(image), Some("virtio-net-device"))?;
    let heard = guest.hear(0, "serving tale at https://");
    let said = guest.explain(heard)?;
    expect(&said, "random numbers from the processor, virtio")?;
    expect(&said, "the certificate's SHA-256 is")?;
    let there = guest.address();
    if let Some(python) = conformance::clients()? {
        let urls = [format!("http://{here}/v1"), format!("https://{there}/v1")];
        let certificate = format!("{}.crt", image.display());
        let words = [KEY, &urls[0], &urls[1], &certificate];
        let told = python.script("boot_client.py", "openai", &words);
        guest.explain(told)?;
    }
    let plain = super::client::greet(there, Duration::from_secs(5));
    ensure!(plain.is_err(), "it answers without TLS");
    for line in ["shutdown", "config get", "help"] {
        guest.write(line)?;
    }
    std::thread::sleep(Duration::from_secs(1));
    let said = guest.said();
    ensure!(!said.contains("\n> "), "there is a shell:\n{said}");
    ensure!(!said.contains("config set"), "it obeys:\n{said}");
    ensure!(
        guest.running.child.try_wait()?.is_none(),
        "it was turned off"
    );
    done("a sealed image by TLS", begin);
    guest.program_counter()
}
