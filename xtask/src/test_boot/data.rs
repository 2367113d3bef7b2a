//! Power cuts: QEMU is killed while the machine writes to its data partition, and what it knew is there when it boots again.

use super::client::{KEY, ask, key, open, request_text};
use super::guest::{Boot, Guest, TIMEOUT, done, expect, scratch};
use super::server;
use crate::unikernel::Built;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use strata_image::{Layout, disk};

const CHAT: &str = "/v1/chat/completions";
const CUTS: u64 = 10;
const DATA: u64 = 16 << 20;
/// Tokens in a page of the cache.
const PAGE: u64 = 32;
/// The machines, with the same disk: the first for ten cuts, then each of the others for one, and the first once more.
const MACHINES: [(&str, &str, &str); 3] = [
    ("microvm", "virtio-blk-device,drive=d", "virtio-net-device"),
    ("q35", "nvme,drive=d,serial=1", "virtio-net-pci"),
    ("q35", "ide-hd,drive=d,bus=ide.0", "virtio-net-pci"),
];

/// A conversation, and what is known of how it was answered.
#[derive(Clone, Default)]
struct Story {
    messages: Vec<Value>,
    /// Tokens of the last prompt, and with its answer.
    prompt: u64,
    total: u64,
    /// Tokens of the slot that was saved last, and whether another may have been saved since.
    saved: u64,
    doubtful: bool,
}

pub(super) fn cuts(built: &Built) -> Result<()> {
    let path = scratch("data.img");
    let blank = disk(Layout::new(1 << 20), 2048, DATA);
    std::fs::write(&path, blank.to_vec()).context("cannot write the disk")?;
    let boot = |(machine, device, card): (&'static str, &str, &str)| -> Result<Guest> {
        let drive = format!("if=none,id=d,format=raw,file={}", path.display());
        let boot = Boot {
            machine,
            options: &format!("key={KEY}"),
            ..Boot::default()
        };
        let boot = boot.with(&["-drive", &drive, "-device", device]);
        let mut guest = boot.start(Some(&built.elf), Some(card))?;
        let ready = server::ready(&mut guest.running);
        guest.explain(ready)?;
        expect(&guest.said(), "the data partition of disk 0 keeps")?;
        Ok(guest)
    };
    let begin = Instant::now();
    let mut story = Story::default();
    let mut guest = boot(MACHINES[0])?;
    expect(&guest.said(), "which begins anew")?;
    guest.explain(story.turn(&guest, 0))?;
    guest.explain(story.save(&guest))?;
    written(&guest)?;
    for cut in 0..CUTS + 3 {
        // Sooner or later after an answer: its pages are being written, or its slot is.
        let pause = Duration::from_millis(cut * 173 % 600);
        let mut lost = story.clone();
        guest.explain(lost.turn(&guest, story.whole_pages()))?;
        if cut % 2 == 0 {
            begin_save(guest.address(), pause);
            (story.doubtful, story.total) = (true, lost.total);
        } else {
            std::thread::sleep(pause);
        }
        // By SIGKILL.
        drop(guest);
        let next = MACHINES.get(cut.saturating_sub(CUTS - 1) as usize);
        guest = boot(*next.unwrap_or(&MACHINES[0]))?;
        ensure!(
            !guest.said().contains("begins anew"),
            "after cut {cut} the machine said:\n{}",
            guest.said()
        );
        // What had been written is known, and of what was being written perhaps more.
        guest.explain(story.turn(&guest, story.whole_pages()))?;
        ensure!(
            story.messages == lost.messages,
            "before cut {cut} the answers were {:?}, and after it {:?}",
            lost.messages,
            story.messages
        );
        guest.explain(story.restore(&guest))?;
        written(&guest)?;
        let said = guest.said();
        ensure!(
            !said.contains("data partition cannot be used"),
            "after cut {cut} the machine said:\n{said}"
        );
        if story.messages.len() > 6 {
            story.messages.clear();
            story.prompt = 0;
        }
    }
    server::well(&guest)?;
    done(&format!("{} power cuts during writes", CUTS + 3), begin);
    Ok(())
}

impl Story {
    /// Tokens of the conversation that are certainly on the disk.
    fn whole_pages(&self) -> u64 {
        // Where an answer begins, the next prompt may have other tokens.
        self.prompt.saturating_sub(2) / PAGE * PAGE
    }

    /// One more turn, of which at least `known` tokens were not computed again.
    fn turn(&mut self, guest: &Guest, known: u64) -> Result<()> {
        let number = self.messages.len();
        let text = format!(
            "Tell me story number {number} about a fox who lives in the forest by the sea."
        );
        self.messages.push(json!({"role": "user", "content": text}));
        let request = json!({
            "model": "tale", "temperature": 0, "max_tokens": 8, "messages": self.messages,
        });
        let (status, body) = ask(guest.address(), "POST", CHAT, &request.to_string())?;
        ensure!(status == 200, "{status}: {body}");
        let got: Value = serde_json::from_str(&body)?;
        let usage = &got["usage"];
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
        let cached = cached.unwrap_or(0);
        ensure!(
            cached >= known,
            "{cached} tokens were known, and {known} had been written: {got}"
        );
        self.prompt = usage["prompt_tokens"].as_u64().context("no count")?;
        self.total = usage["total_tokens"].as_u64().context("no count")?;
        self.messages.push(got["choices"][0]["message"].clone());
        Ok(())
    }

    /// Saves the slot of the conversation.
    fn save(&mut self, guest: &Guest) -> Result<()> {
        let saved = slot(guest, "save")?["n_saved"].as_u64();
        self.saved = saved.context("nothing was saved")?;
        Ok(())
    }

    /// What was saved is there: the old text, or the new one where that was being saved.
    fn restore(&mut self, guest: &Guest) -> Result<()> {
        let restored = slot(guest, "restore")?["n_restored"].as_u64();
        let restored = restored.context("nothing was restored")?;
        let fits = restored == self.saved || self.doubtful && restored.abs_diff(self.total) <= 1;
        ensure!(
            fits,
            "{restored} tokens were restored; {} had been saved, or {}",
            self.saved,
            self.total
        );
        (self.saved, self.doubtful) = (restored, false);
        Ok(())
    }
}

/// Asks to save the slot, and does not wait for long: the machine may be gone before it answers.
fn begin_save(address: SocketAddr, pause: Duration) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        // Once: what listens at this port later is another machine.
        let mut stream = open(address, TIMEOUT)?;
        let text = request_text("POST", "/slots/0?action=save", &key(), FILE);
        stream.write_all(text.as_bytes())?;
        stream.read_to_string(&mut String::new())?;
        // Nobody may wait for it any more.
        Ok(sender.send(())?)
    });
    let _ = receiver.recv_timeout(pause);
}

const FILE: &str = r#"{"filename":"story.bin"}"#;

fn slot(guest: &Guest, action: &str) -> Result<Value> {
    let path = format!("/slots/0?action={action}");
    let (status, body) = ask(guest.address(), "POST", &path, FILE)?;
    ensure!(status == 200, "{action}: {status} {body}");
    Ok(serde_json::from_str(&body)?)
}

/// Waits until the machine has written all that it has.
fn written(guest: &Guest) -> Result<()> {
    let stored = || -> Result<String> {
        let (_, metrics) = ask(guest.address(), "GET", "/metrics", "")?;
        let line = metrics.lines().find(|line| line.contains("stored_pages"));
        Ok(line.unwrap_or_default().to_owned())
    };
    let mut before = stored()?;
    loop {
        std::thread::sleep(Duration::from_millis(700));
        let now = stored()?;
        if now == before {
            return Ok(());
        }
        before = now;
    }
}
