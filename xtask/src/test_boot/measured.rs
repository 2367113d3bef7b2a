//! Measured boot with swtpm's TPM: registers, list and quote, checked by tpm2-tools.

use super::client::request;
use super::guest::{Boot, Guest, done, expect, install, scratch};
use super::images::uefi;
use super::server::ready;
use crate::command::{answers, strata_for_checks};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A TPM that lives as long as this value.
struct Emulator {
    child: Child,
    socket: PathBuf,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // It ends with QEMU.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Emulator {
    fn start() -> Result<Self> {
        let state = scratch("tpm");
        if state.exists() {
            std::fs::remove_dir_all(&state)?;
        }
        std::fs::create_dir_all(&state)?;
        // A socket's path must be short.
        let socket = std::env::temp_dir().join(format!("strata-tpm-{}", std::process::id()));
        let child = Command::new("swtpm")
            .args(["socket", "--tpm2", "--tpmstate"])
            .arg(format!("dir={}", state.display()))
            .arg("--ctrl")
            .arg(format!("type=unixio,path={}", socket.display()))
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start swtpm")?;
        let begin = Instant::now();
        while !socket.exists() {
            ensure!(
                begin.elapsed() < Duration::from_secs(30),
                "swtpm makes no socket"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { child, socket })
    }

    /// A machine's devices.
    fn devices(&self, interface: &str) -> Vec<String> {
        let socket = format!("socket,id=tpm,path={}", self.socket.display());
        let device = format!("{interface},tpmdev=t");
        let words = ["-chardev", &socket, "-tpmdev", "emulator,id=t,chardev=tpm"];
        words
            .into_iter()
            .chain(["-device", &device])
            .map(String::from)
            .collect()
    }
}

/// Both interfaces, a hypervisor's boot and firmware's: what is measured is what `strata image` said, a quote is right, and
/// a changed bit shows.
pub(super) fn attested(kernel: &Path) -> Result<()> {
    let there = |program: &'static str| move || answers(Command::new(program).arg("--version"));
    let what = "measured boot";
    if !install(what, "swtpm", there("swtpm"))?
        || !install(what, "tpm2-tools", there("tpm2_checkquote"))?
    {
        return Ok(());
    }
    let image = scratch("measured.elf");
    let expected = write(kernel, &image)?;
    let registers = quoted(&image, "tpm-crb", "by PVH, with a buffer")?;
    for (register, digest) in &expected {
        ensure!(
            registers[*register] == extended(digest)?,
            "register {register}"
        );
    }
    for (what, register, at) in places(&image)? {
        let mut changed = std::fs::read(&image)?;
        changed[at] ^= 1;
        let path = scratch("measured-changed.elf");
        std::fs::write(&path, changed)?;
        shows(&path, what, register, &expected)?;
    }
    if super::guest::firmware()?.is_some() {
        let disk = scratch("measured.img");
        let expected_there = write(kernel, &disk)?;
        let registers = quoted(&disk, "tpm-tis", "by firmware, with a FIFO")?;
        ensure!(
            expected_there == expected,
            "the forms are measured differently"
        );
        for (register, digest) in &expected {
            ensure!(
                registers[*register] == extended(digest)?,
                "register {register}, by firmware"
            );
        }
        ensure!(
            registers[4] != "0".repeat(64),
            "firmware measures what it starts"
        );
    }
    Ok(())
}

/// Writes an image, and gives what it says that the machine will measure.
fn write(kernel: &Path, path: &Path) -> Result<Vec<(usize, String)>> {
    let output = Command::new(strata_for_checks()?)
        .args([
            "image",
            "tale",
            "--sealed",
            "--insecure-no-auth",
            "--kernel",
        ])
        .arg(kernel)
        .arg("--output")
        .arg(path)
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let lines = said
        .lines()
        .filter_map(|line| line.strip_prefix("register "));
    let measured = lines.map(|line| {
        let mut words = line.split(' ');
        let register = words
            .next()
            .context("a register")?
            .trim_end_matches(':')
            .parse()?;
        Ok((register, words.next().context("a digest")?.to_owned()))
    });
    let measured: Vec<_> = measured.collect::<Result<_>>()?;
    ensure!(measured.len() == 3, "the image is told so: {said}");
    Ok(measured)
}

fn bytes(digits: &str) -> Result<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16);
    Ok((0..digits.len())
        .step_by(2)
        .map(pair)
        .collect::<Result<_, _>>()?)
}

/// What a register holds that had one digest added to it.
fn extended(digest: &str) -> Result<String> {
    let digest = bytes(digest)?;
    let path = scratch("extended.bin");
    std::fs::write(&path, [vec![0; 32], digest].concat())?;
    let output = Command::new("sha256sum").arg(&path).output()?;
    Ok(String::from_utf8(output.stdout)?[..64].to_owned())
}

/// Where the program and the settings of an image can be changed without an end to both, and which register tells.
fn places(image: &Path) -> Result<[(&'static str, usize, usize); 2]> {
    let whole = std::fs::read(image)?;
    let find = |part: &[u8]| {
        let at = whole.windows(part.len()).position(|window| window == part);
        at.context("the image has no such part")
    };
    let program = find(b"this machine does not start")?;
    let settings = find(b"sealed=on name=tale")? + "sealed=on name=".len();
    Ok([("program", 8, program), ("settings", 9, settings)])
}

/// A changed image is measured as another in one register.
fn shows(image: &Path, what: &str, register: usize, expected: &[(usize, String)]) -> Result<()> {
    let tpm = Emulator::start()?;
    let boot = Boot {
        name: &format!("a changed bit of the {what} shows"),
        options: "then=exit",
        devices: tpm.devices("tpm-tis"),
        ..Boot::default()
    };
    let begin = Instant::now();
    let mut guest = boot.start(Some(image), Some("virtio-net-pci"))?;
    let said = guest.hear(0, "serving ")?;
    for (number, digest) in expected {
        let same = said.contains(&format!("into register {number}: ")) && said.contains(digest);
        ensure!(same == (*number != register), "register {number}:\n{said}");
    }
    done(&format!("a changed bit of the {what} shows"), begin);
    Ok(())
}

/// Boots with a TPM, has it vouch for the machine, and gives the registers.
fn quoted(image: &Path, interface: &str, name: &str) -> Result<Vec<String>> {
    let begin = Instant::now();
    let tpm = Emulator::start()?;
    let is_elf = image.extension().is_some_and(|ending| ending == "elf");
    let devices = tpm.devices(interface);
    let drive = format!(
        "if=none,id=d,format=raw,snapshot=on,file={}",
        image.display()
    );
    let mut guest = if is_elf {
        let boot = Boot {
            devices,
            ..Boot::default()
        };
        boot.start(Some(image), Some("virtio-net-pci"))?
    } else {
        let code = super::guest::firmware()?.context("firmware")?;
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let boot = uefi(name, code).with(&devices);
        let boot = boot.with(&["-drive", &drive, "-device", "nvme,drive=d,serial=1"]);
        boot.start(None, Some("virtio-net-pci"))?
    };
    let started = ready(&mut guest.running);
    guest.explain(started)?;
    let registers = vouch(&guest);
    let registers = guest.explain(registers)?;
    expect(&guest.said(), "measured into register 8: strata program")?;
    done(&format!("measured boot {name}"), begin);
    Ok(registers)
}

/// Where the first value begins in what [`register_file`] makes.
const REGISTERS_START: usize = 4 + 16 * 8 + 4 + 4 + 2;

/// Registers from the first on as `tpm2_quote` writes them: which they are (a list of up to 16 banks), then lists of up to
/// eight values, each with room for 64 bytes.
fn register_file(values: &[String]) -> Result<Vec<u8>> {
    let mut out = 1u32.to_le_bytes().to_vec();
    out.extend([0x0b, 0, 3, 0xff, 7, 0, 0, 0]);
    out.resize(4 + 16 * 8, 0);
    out.extend((values.len().div_ceil(8) as u32).to_le_bytes());
    for list in values.chunks(8) {
        let end = out.len() + 4 + 8 * 66;
        out.extend((list.len() as u32).to_le_bytes());
        for value in list {
            out.extend([32, 0]);
            out.extend(bytes(value)?);
            out.extend([0; 32]);
        }
        out.resize(end, 0);
    }
    Ok(out)
}

/// What the machine sends for a nonce, checked by tools that are not ours.
fn vouch(guest: &Guest) -> Result<Vec<String>> {
    let nonce = "00112233445566778899aabbccddeeff";
    let path = format!("/attest?nonce={nonce}");
    let (status, body) = request(guest.address(), "GET", &path, "", "")?;
    ensure!(status == 200, "{status} {body}");
    let told: Value = serde_json::from_str(&body)?;
    let text = |name: &str| {
        told[name]
            .as_str()
            .with_context(|| format!("no {name}: {body}"))
    };
    let files = ["key.pem", "quote", "signature", "registers", "log"].map(scratch);
    let [key, quote, signature, registers, log] = &files;
    std::fs::write(key, text("public_key")?)?;
    for (path, name) in [(quote, "quote"), (signature, "signature"), (log, "log")] {
        let encoded = scratch("encoded");
        std::fs::write(&encoded, text(name)?)?;
        let decoded = Command::new("base64").arg("-d").arg(&encoded).output()?;
        std::fs::write(path, decoded.stdout)?;
    }
    let values = told["registers"].as_array().context("no registers")?;
    let values: Vec<String> = values
        .iter()
        .filter_map(|v| v.as_str().map(String::from))
        .collect();
    ensure!(values.len() == 11, "{body}");
    std::fs::write(registers, register_file(&values)?)?;
    let check = |nonce: &str| -> Result<bool> {
        let mut command = Command::new("tpm2_checkquote");
        command.arg("-u").arg(key).arg("-m").arg(quote);
        command.arg("-s").arg(signature).arg("-f").arg(registers);
        command.args(["-g", "sha256", "-q", nonce]);
        Ok(command.output()?.status.success())
    };
    ensure!(check(nonce)?, "tpm2_checkquote refuses the quote: {body}");
    ensure!(
        !check("00112233445566778899aabbccddeefe")?,
        "it takes any nonce"
    );
    let mut others = std::fs::read(registers)?;
    others[REGISTERS_START] ^= 1;
    std::fs::write(registers, others)?;
    ensure!(!check(nonce)?, "it takes any registers");
    let output = Command::new("tpm2_eventlog").arg(log).output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "tpm2_eventlog cannot read the list:\n{listed}"
    );
    // At its end are the registers as the list would have made them.
    let sums = listed
        .rsplit_once("sha256:")
        .context("no sums of the list")?
        .1;
    let lines = sums
        .lines()
        .map_while(|line| match line.trim().split_once(':') {
            Some((number, "")) if number.starts_with("sha") => None,
            Some((number, sum)) => Some((number.trim().parse::<usize>().ok()?, sum.trim())),
            None => Some((usize::MAX, "")),
        });
    let mut replayed = Vec::new();
    for (number, sum) in lines.filter(|(number, _)| *number < values.len()) {
        let sum = sum.trim_start_matches("0x").to_ascii_lowercase();
        ensure!(
            sum == values[number],
            "register {number} is {}, and the list gives {sum}",
            values[number]
        );
        replayed.push(number);
    }
    // Firmware that has a list has one of all that it measures.
    ensure!(
        replayed == [8, 9, 10] || replayed == Vec::from_iter(0..11),
        "the list gives registers {replayed:?}:\n{listed}"
    );
    let again = request(guest.address(), "GET", &path, "", "")?;
    ensure!(matches!(again.0, 200 | 503), "{again:?}");
    Ok(values)
}
