//! `strata image`, with a kernel that has no code.

use crate::fake;
use crate::program::{fails, strata};
use std::path::Path;
use tempfile::TempDir;

const FAILED: i32 = 1;
const USAGE: i32 = 2;
const BAD_MODEL: i32 = 3;

/// A folder with a kernel in it.
pub(crate) fn folder() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join("kernel.elf");
    std::fs::write(&kernel, fake::kernel()).unwrap();
    (folder, kernel.to_str().unwrap().into())
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().into()
}

fn contains(file: &[u8], part: &[u8]) -> bool {
    file.windows(part.len()).any(|window| window == part)
}

#[test]
fn images_hold_the_model_and_the_settings() {
    let (folder, kernel) = folder();
    let settings = path(&folder, "strata.toml");
    std::fs::write(&settings, "# here\nport = 80\nip = \"10.0.0.5/24\"\n").unwrap();
    let tale = include_bytes!("../../../models/tale/tale-q4_k_m.gguf");
    let mut measured = Vec::new();
    for ending in ["elf", "efi", "img", "iso"] {
        let out = path(&folder, &format!("a.{ending}"));
        let arguments = [
            "image",
            "-o",
            &out,
            "--api-key",
            "secret-key",
            "--kernel",
            &kernel,
        ];
        let arguments = [&arguments[..], &["--config", &settings]].concat();
        let text = strata(&arguments).text();
        assert!(text.contains("18.9 MB"), "{text}");
        let image = std::fs::read(&out).unwrap();
        let settings = match ending {
            "elf" | "efi" => "name=tale port=80 ip=10.0.0.5/24 api-key-sha256=85dbe1",
            _ => "name = \"tale\"\nport = \"80\"\nip = \"10.0.0.5/24\"\napi-key-sha256 = \"85dbe1",
        };
        assert!(contains(&image, settings.as_bytes()), "{ending}");
        assert!(!contains(&image, b"secret-key"), "{ending}");
        let at = (0..image.len())
            .step_by(512)
            .find(|at| image[*at..].starts_with(b"GGUF"));
        let at = at.expect("the model begins at a sector");
        assert!(image[at..].starts_with(tale), "{ending}");
        assert!(!Path::new(&format!("{out}.part")).exists());
        let registers = text.lines().filter(|line| line.starts_with("register "));
        measured.push(registers.map(String::from).collect::<Vec<_>>());
    }
    // Whatever boots it, a TPM is told the same.
    assert_eq!(measured[0].len(), 3);
    assert!(measured.iter().all(|registers| *registers == measured[0]));
    let settings =
        "api-key-sha256=85dbe15d75ef9308c7ae0f33c7a324cc6f4bf519a2ed2f3027bd33c140a4f9aa\n";
    let sum = strata_pack::sha256(
        format!(
            "{settings}ip=10.0.0.5/24\nport=80\nname=tale\nsha256={}\n",
            strata_pack::sha256(tale)
        )
        .as_bytes(),
    );
    assert!(measured[0][1].contains(&sum), "{measured:?}");
}

#[test]
fn images_can_be_signed_and_have_certificates() {
    let (folder, kernel) = folder();
    let key = path(&folder, "maker");
    strata(&["pack", "--new-key", &key]).text();
    let out = path(&folder, "a.elf");
    let flags = ["--sealed", "--tls", "--sign", &key];
    let image = ["image", "-o", &out, "--kernel", &kernel];
    let text = strata(&[&image[..], &flags].concat()).text();
    assert!(text.contains("a.elf.crt: the certificate"), "{text}");
    let bytes = std::fs::read(&out).unwrap();
    for part in [
        "trust=",
        " sealed=on name=tale ",
        " tls-cert=",
        " tls-key=",
        " signature=",
    ] {
        assert!(contains(&bytes, part.as_bytes()), "{part}");
    }
    let certificate = std::fs::read_to_string(path(&folder, "a.elf.crt")).unwrap();
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"));
    // The same certificate with another's key.
    let certificate = path(&folder, "a.elf.crt");
    let given = ["--tls-cert", &certificate, "--tls-key", &key];
    let words = &["not one of the Ed25519 key", "openssl req"];
    fails(USAGE, words, &[&image[..], &given].concat());
    let absent = ["--sign", "no/key"];
    fails(FAILED, &["no/key"], &[&image[..], &absent].concat());
    let alone = ["--tls-cert", &certificate];
    fails(USAGE, &["--tls-key"], &[&image[..], &alone].concat());
}

/// An RSA key and its certificate, made by OpenSSL.
#[cfg(unix)]
fn secure_boot_key(folder: &TempDir) -> [String; 2] {
    let [key, certificate] = ["sb.key", "sb.crt"].map(|name| path(folder, name));
    let words = "req -x509 -newkey rsa:2048 -nodes -subj /CN=maker -keyout";
    let made = std::process::Command::new("openssl")
        .args(words.split(' '))
        .args([&key, "-out", &certificate])
        .output();
    assert!(made.expect("openssl").status.success());
    [key, certificate]
}

#[cfg(unix)]
#[test]
fn programs_can_be_signed_for_secure_boot() {
    let (folder, kernel) = folder();
    let maker = path(&folder, "maker");
    strata(&["pack", "--new-key", &maker]).text();
    let [key, certificate] = secure_boot_key(&folder);
    let image = |name: &str, rest: &[&str]| -> Vec<String> {
        let out = path(&folder, name);
        let all = [
            "image",
            "-o",
            &out,
            "--kernel",
            &kernel,
            "--api-key",
            "secret-key",
        ];
        all.iter()
            .chain(rest)
            .map(|word| String::from(*word))
            .collect()
    };
    let words = |list: &[String]| -> Vec<&'static str> {
        list.iter()
            .map(|w| &*Box::leak(w.clone().into_boxed_str()))
            .collect()
    };
    let both = ["--sign", &maker, "--sign", &key, "--cert", &certificate];
    for name in ["a.efi", "a.img", "a.iso"] {
        strata(&words(&image(name, &both))).text();
        let bytes = std::fs::read(path(&folder, name)).unwrap();
        assert!(contains(&bytes, b"trust="), "{name}");
        // What the signature is of, in UTF-16 with the high bytes first.
        let sign: Vec<u8> = "<<<Obsolete>>>"
            .bytes()
            .flat_map(|byte| [0, byte])
            .collect();
        assert!(contains(&bytes, &sign), "{name}");
    }
    let refused = |text: &[&str], name: &str, rest: &[&str]| {
        fails(USAGE, text, &words(&image(name, rest)));
    };
    refused(&["no .elf images"], "a.elf", &both);
    refused(&["--cert"], "a.efi", &["--sign", &key]);
    refused(
        &["needs its RSA key"],
        "a.efi",
        &["--sign", &maker, "--cert", &certificate],
    );
    refused(
        &["two keys"],
        "a.efi",
        &["--sign", &key, "--sign", &key, "--cert", &certificate],
    );
    let other = tempfile::tempdir().unwrap();
    let [_, another] = secure_boot_key(&other);
    let wrong = ["--sign", &key, "--cert", &another];
    refused(
        &["not the certificate of the key", "openssl req"],
        "a.efi",
        &wrong,
    );
    refused(
        &["no certificate in PEM"],
        "a.efi",
        &["--sign", &key, "--cert", &key],
    );
}

#[test]
fn images_that_make_no_sense() {
    let (folder, kernel) = folder();
    let out = |name: &str| path(&folder, name);
    let image = |code, words: &[&str], rest: &[&str]| {
        fails(
            code,
            words,
            &[&["image", "--kernel", &kernel], rest].concat(),
        );
    };
    image(
        USAGE,
        &["a.zip", ".elf, .efi, .img or .iso"],
        &["-o", &out("a.zip")],
    );
    for name in ["a.img", "a.iso", "a.efi"] {
        image(
            USAGE,
            &["without an API key", "--api-key"],
            &["-o", &out(name)],
        );
    }
    let open = ["-o", &out("a.img"), "--insecure-no-auth"];
    assert_eq!(
        strata(&[&["image", "--kernel", &kernel][..], &open].concat()).code,
        Some(0)
    );
    for (name, size, words) in [
        ("a.iso", "8MiB", "only .img images"),
        ("a.img", "1M", "4.2 MB to"),
        ("a.img", "much", "unknown unit"),
    ] {
        let data = ["-o", &out(name), "--insecure-no-auth", "--data", size];
        image(USAGE, &[words], &data);
    }
    let data = [&open[..], &["--data", "8MiB"]].concat();
    strata(&[&["image", "--kernel", &kernel][..], &data].concat()).text();
    let disk = std::fs::read(out("a.img")).unwrap();
    assert!(contains(&disk, b"data = \"on\"\n"));
    assert!(contains(&disk, &strata_image::DATA_PARTITION));
    image(
        USAGE,
        &["at least 8 characters"],
        &["-o", &out("a.elf"), "--api-key", "short"],
    );
    image(
        USAGE,
        &["quotes"],
        &["-o", &out("a.elf"), "--api-key", "quote\"quote"],
    );
    image(FAILED, &["no/where.elf"], &["-o", &out("no/where.elf")]);
    image(
        FAILED,
        &["nothing.gguf"],
        &[&out("nothing.gguf"), "-o", &out("a.elf")],
    );
    std::fs::write(out("bad.gguf"), b"GGUF").unwrap();
    image(
        BAD_MODEL,
        &["bad.gguf"],
        &[&out("bad.gguf"), "-o", &out("a.elf")],
    );
    for (text, problem) in [
        ("port = 80\ncolour = \"red\"\n", "unknown setting colour"),
        ("port = 80\nname = red\n", "line 2 is not"),
    ] {
        std::fs::write(out("bad.toml"), text).unwrap();
        let bad = ["-o", &out("a.elf"), "--config", &out("bad.toml")];
        image(USAGE, &["bad.toml: ", problem], &bad);
    }
    let not_a_kernel = ["image", "-o", &out("b.elf"), "--kernel", &out("bad.gguf")];
    fails(
        FAILED,
        &["no 64-bit ELF", "cargo xtask unikernel"],
        &not_a_kernel,
    );
    assert!(!Path::new(&out("a.elf")).exists());
}
