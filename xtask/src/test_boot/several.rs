//! Several models on a disk: a request chooses, and clients stay while the machine changes from one to another.

use super::client::{KEY, ask, connect, key, parsed, request_text, well};
use super::guest::{Boot, Guest, TIMEOUT, done, expect, scratch};
use super::models::sha256;
use super::server;
use crate::command::root;
use crate::unikernel::Built;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strata_image::{FatKind, FatOptions, File, fat_volume};

const CHAT: &str = "/v1/chat/completions";

/// A disk with tale under two names.
fn disk(tale: &[u8]) -> Result<PathBuf> {
    let file = |path: &str| File {
        path: path.into(),
        bytes: tale.into(),
    };
    let options = FatOptions {
        kind: FatKind::Fat32,
        label: "MODELS",
        first_sector: 0,
    };
    let files = vec![file("strata/owl.gguf"), file("strata/eagle.gguf")];
    let path = scratch("models.img");
    std::fs::write(&path, fat_volume(files, &options)?.to_vec())?;
    Ok(path)
}

pub(super) fn change(built: &Built, here: SocketAddr) -> Result<()> {
    let begin = Instant::now();
    let tale = root().join("models/tale/tale-q4_k_m.gguf");
    let path = disk(&std::fs::read(&tale)?)?;
    let (right, wrong) = (sha256(&tale)?, "0".repeat(64));
    let options =
        format!("key={KEY} models=owl=strata/owl.gguf={right},eagle=strata/eagle.gguf={wrong}");
    let drive = format!(
        "if=none,id=d,format=raw,snapshot=on,file={}",
        path.display()
    );
    let boot = Boot {
        machine: "microvm",
        memory: "256M",
        options: &options,
        ..Boot::default()
    };
    let boot = boot.with(&["-drive", &drive, "-device", "virtio-blk-device,drive=d"]);
    let mut guest = boot.start(Some(&built.elf), Some("virtio-net-device"))?;
    let changed = changes(&mut guest, here);
    guest.explain(changed)?;
    done("a machine changes its model and keeps its clients", begin);
    Ok(())
}

fn changes(guest: &mut Guest, here: SocketAddr) -> Result<()> {
    server::ready(&mut guest.running)?;
    let there = guest.address();
    // It stays open through all that follows.
    let mut patient = connect(there)?;
    for path in ["/v1/models", "/api/tags"] {
        let (_, list) = ask(there, "GET", path, "")?;
        for name in ["tale", "owl", "eagle"] {
            expect(&list, name)?;
        }
    }
    let [greedy, _] = server::requests("Tell me a story about a fox.");
    let as_owl = greedy.replace("\"tale\"", "\"owl\"");
    let expected = ask(here, "POST", CHAT, &greedy)?.1;
    // The old one answers what it has begun, while another is asked for.
    let running = std::thread::spawn({
        let greedy = greedy.clone();
        move || ask(there, "POST", CHAT, &greedy)
    });
    std::thread::sleep(Duration::from_millis(500));
    let owl = until_loaded(there, &as_owl, &mut patient)?;
    let Ok(old) = running.join() else {
        bail!("a client failed");
    };
    ensure!(
        text(&old?.1)? == text(&expected)?,
        "the old one was cut off"
    );
    ensure!(text(&owl)? == text(&expected)?, "the new one says {owl}");
    expect(&owl, "\"model\":\"owl\"")?;
    // One with another digest is refused, and the old one stays.
    let as_eagle = greedy.replace("\"tale\"", "\"eagle\"");
    let refused = until_loaded(there, &as_eagle, &mut patient);
    let refused = refused.map_err(|error| error.to_string());
    let why = refused.err().context("a wrong digest was believed")?;
    expect(&why, "SHA-256")?;
    ensure!(ask(there, "POST", CHAT, &as_owl)?.0 == 200, "owl is gone");
    let list = guest.ask("model list", "eagle")?;
    expect(&list, "* owl")?;
    guest.ask("model load tale", "serving tale at http://")?;
    ensure!(ask(there, "POST", CHAT, &greedy)?.0 == 200, "tale is gone");
    well(&mut patient).context("the connection from before all changes")?;
    server::well(guest)
}

/// Asks as the official clients do: again after as long as the server says. Gives the answer's body. Another client is
/// heard meanwhile, so that its connection is not idle.
fn until_loaded(there: SocketAddr, body: &str, patient: &mut TcpStream) -> Result<String> {
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        well(patient).context("the connection from before the change")?;
        let mut stream = connect(there)?;
        stream.write_all(request_text("POST", CHAT, &key(), body).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match parsed(&answer)? {
            (200, body) => return Ok(body),
            (503, _) => {
                let after = answer.split_once("retry-after: ");
                let seconds = after.and_then(|(_, rest)| rest.split("\r\n").next());
                let seconds = seconds.context("no time to come again")?.parse()?;
                std::thread::sleep(Duration::from_secs(seconds));
            }
            (status, body) => bail!("{status}: {body}"),
        }
    }
    bail!("the model never came")
}

/// What an answer says.
fn text(answer: &str) -> Result<&str> {
    let (_, rest) = answer.split_once("\"content\":").context("no text")?;
    let (text, _) = rest.split_once("\",").context("no end")?;
    Ok(text)
}
