//! Debian packages (deb(5)): an `ar` archive of two tar archives, neither compressed, for weights do not shrink.

use crate::elf;
use crate::error::PackError;
use crate::manifest::Manifest;
use crate::tar::{self, ROOT, Tar};
use std::ops::Range;
use strata_image::Layout;
use strata_weights::crc32;

const MAGIC: &[u8] = b"!<arch>\n";
/// What `ar` can say of a length.
const MOST: u64 = 9_999_999_999;
/// Whoever packs is not asked who he is.
const MAINTAINER: &str = "Strata <strata@localhost>";
const UNIT: &str = include_str!("../../../deploy/strata.service");

/// The package's name: of what Debian allows, and never so short that it is refused.
pub(crate) fn package(manifest: &Manifest) -> String {
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '.' | '+') => c,
        _ => '-',
    };
    let name: String = manifest.name.chars().map(plain).take(60).collect();
    format!("strata-{}", name.trim_matches(['-', '.', '+']))
}

/// The package with the executable in it.
pub(crate) fn wrap<'a>(
    manifest: &Manifest,
    program: &[u8],
    executable: Layout<'a>,
) -> Result<Layout<'a>, PackError> {
    let package = package(manifest);
    let control = control(
        manifest,
        &package,
        elf::is_static(program),
        executable.len(),
    )?;
    let mut data = Tar::default();
    for folder in [
        "./",
        "./lib/",
        "./lib/systemd/",
        "./lib/systemd/system/",
        "./usr/",
        "./usr/bin/",
    ] {
        data.folder(folder, ROOT)?;
    }
    let unit = format!("./lib/systemd/system/{package}.service");
    data.file(&unit, 0o644, unit_file(&package).into_bytes())?;
    data.embed(&format!("./usr/bin/{package}"), 0o755, executable)?;
    for folder in [
        "./usr/share/",
        "./usr/share/doc/",
        &format!("./usr/share/doc/{package}/"),
    ] {
        data.folder(folder, ROOT)?;
    }
    let copyright = format!("./usr/share/doc/{package}/copyright");
    data.file(&copyright, 0o644, copyright_file(manifest).into_bytes())?;
    let changelog = format!("./usr/share/doc/{package}/changelog.gz");
    data.file(&changelog, 0o644, gzip(&changelog_file(manifest, &package)))?;
    for folder in ["./usr/share/man/", "./usr/share/man/man1/"] {
        data.folder(folder, ROOT)?;
    }
    let page = format!("./usr/share/man/man1/{package}.1.gz");
    data.file(&page, 0o644, gzip(&manual_page(&package)))?;
    let data = data.finish();
    let mut deb = Layout::default();
    deb.put(0, MAGIC);
    let mut version = Layout::default();
    version.put(0, &b"2.0\n"[..]);
    for (name, member) in [
        ("debian-binary", version),
        ("control.tar", control),
        ("data.tar", data),
    ] {
        if member.len() > MOST {
            return Err(PackError::TooLarge {
                path: name.into(),
                bytes: member.len(),
                most: MOST,
            });
        }
        let head = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            0,
            0,
            0,
            "100644",
            member.len()
        );
        deb.put(deb.len(), head.into_bytes());
        deb.embed(deb.len(), member);
        if deb.len() % 2 == 1 {
            deb.put(deb.len(), &b"\n"[..]);
        }
    }
    Ok(deb)
}

fn control(
    manifest: &Manifest,
    package: &str,
    is_static: bool,
    bytes: u64,
) -> Result<Layout<'static>, PackError> {
    let architecture = match manifest.machine.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return Err(PackError::Program),
    };
    let libraries = if is_static {
        ""
    } else {
        "Depends: libc6 (>= 2.34), libgcc-s1\n"
    };
    let text = format!(
        "Package: {package}\nVersion: {}\nArchitecture: {architecture}\n\
         Maintainer: {MAINTAINER}\nInstalled-Size: {}\n{libraries}Section: science\n\
         Priority: optional\nDescription: language model with its server\n \
         A model and the program that runs it, as one executable, {package},\n \
         and a service of systemd of the same name, which is not enabled.\n",
        manifest.program.version,
        bytes.div_ceil(1024),
    );
    let mut tar = Tar::default();
    tar.folder("./", ROOT)?;
    tar.file("./control", 0o644, text.into_bytes())?;
    Ok(tar.finish())
}

/// The unit of `deploy`, for this executable, its folders and its loopback address.
fn unit_file(package: &str) -> String {
    let lines = UNIT.lines().skip_while(|line| !line.starts_with("[Unit]"));
    let lines = lines.filter(|line| {
        let of_keys = line.contains("%d/keys") || line.starts_with("LoadCredential");
        !of_keys && !line.starts_with('#')
    });
    let text: Vec<&str> = lines.collect();
    let text = text.join("\n") + "\n";
    text.replace(
        "/usr/local/bin/strata serve tale",
        &format!("/usr/bin/{package} serve"),
    )
    .replace("/var/cache/strata/", &format!("/var/cache/{package}/"))
    .replace("/var/lib/strata/", &format!("/var/lib/{package}/"))
    .replace("Directory=strata", &format!("Directory={package}"))
}

/// What Debian's tools want to find: one entry, of the time that all files have.
fn changelog_file(manifest: &Manifest, package: &str) -> String {
    format!(
        "{package} ({}) unstable; urgency=medium\n\n  * Written by `strata pack`.\n\n \
         -- {MAINTAINER}  Sat, 01 Jan 2000 00:00:00 +0000\n",
        manifest.program.version
    )
}

/// What `man` says of the command.
fn manual_page(package: &str) -> String {
    let dashed = package.replace('-', "\\-");
    let title = package.to_uppercase();
    format!(
        ".TH {title} 1\n.SH NAME\n{dashed} \\- language model with its server\n\
         .SH SYNOPSIS\n.B {dashed}\n[\\fIPROMPT\\fR...]\n.br\n.B {dashed} serve\n\
         .SH DESCRIPTION\nAnswers a prompt, chats, or serves the model that is packed in it.\n\
         .B {dashed} \\-\\-help\nlists its commands, which take the flags of the commands of strata.\n"
    )
}

/// A short text as gzip (RFC 1952) has it, in one stored block.
fn gzip(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    // Names are bounded, so that the text is far below the 65535 bytes of a block.
    let length = bytes.len() as u16;
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3, 1];
    let sizes = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
    let sum = crc32(bytes).to_le_bytes();
    [
        &head[..],
        &sizes,
        bytes,
        &sum,
        &u32::from(length).to_le_bytes(),
    ]
    .concat()
}

fn copyright_file(manifest: &Manifest) -> String {
    let mut text = String::from(
        "The program: Strata. Copyright 2026 the authors of Strata. Licence: MIT, or Apache-2.0 as in\n\
         /usr/share/common-licenses/Apache-2.0.\n",
    );
    for model in &manifest.models {
        text += &format!("\n{}:\n", model.file);
        for license in &model.licenses {
            text += license;
            text += "\n";
        }
        if model.licenses.is_empty() {
            text += "Its file names no licence.\n";
        }
    }
    text
}

/// Where the executable is in a package, if it is one.
pub(crate) fn executable(bytes: &[u8]) -> Option<Result<Range<usize>, PackError>> {
    bytes.starts_with(MAGIC).then(|| find(bytes))
}

fn find(bytes: &[u8]) -> Result<Range<usize>, PackError> {
    let mut at = MAGIC.len();
    loop {
        let damaged = || PackError::Damaged {
            what: "an ar header",
            at: at as u64,
        };
        let head = bytes.get(at..at + 60).ok_or_else(damaged)?;
        let head = std::str::from_utf8(head).map_err(|_| damaged())?;
        let field = |range: Range<usize>| head.get(range).map(str::trim).ok_or_else(damaged);
        let name = field(0..16)?;
        let size: usize = field(48..58)?.parse().map_err(|_| damaged())?;
        let start = at + 60;
        let end = start.checked_add(size).filter(|end| *end <= bytes.len());
        let end = end.ok_or_else(damaged)?;
        if name == "data.tar" {
            let files = tar::files(&bytes[start..end])?;
            let found = files
                .into_iter()
                .find(|(name, _)| name.starts_with("usr/bin/"));
            let (_, range) = found.ok_or_else(|| PackError::Missing("usr/bin".into()))?;
            return Ok(start + range.start..start + range.end);
        }
        at = end + end % 2;
    }
}
