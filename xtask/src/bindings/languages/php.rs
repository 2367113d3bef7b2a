//! PHP, in its command line and in a pool of processes.

use super::super::expected::{Expected, said};
use super::super::package::{copy, fresh, prefix};
use super::super::readme;
use super::{cannot_install, missing};
use crate::command::{answers, debian_install, root};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) fn php(expected: &Expected) -> Result<Option<Vec<String>>> {
    let has_ffi = || {
        let mut php = Command::new("php");
        answers(php.args(["-r", "exit(extension_loaded('ffi') ? 0 : 1);"]))
    };
    if !has_ffi()
        && let Err(error) = debian_install(&["php-cli"])
    {
        return missing("PHP", error);
    }
    ensure!(has_ffi(), "PHP has no FFI");
    let (package, source) = (fresh("php/strata")?, root().join("bindings/php"));
    copy(&source, &package)?;
    for (from, to) in [
        ("include/strata.h", "include"),
        ("lib/libstrata_c.so", "lib"),
    ] {
        fs::create_dir_all(package.join(to))?;
        fs::copy(prefix().join(from), package.join(from))?;
    }
    let mut test = Command::new("php");
    test.arg(source.join("tests/check.php")).arg(&package);
    let mut features = expected.features(&mut test)?;
    let project = fresh("php/project")?;
    fs::write(project.join("start.php"), readme::start("php", "php")?)?;
    readme::told(&said(
        Command::new("php").arg("start.php").current_dir(&project),
    )?)?;
    composed()?;
    preloaded(&package, &project)?;
    features.push("preload".into());
    Ok(Some(features))
}

/// A project that Composer installs the package in, where Composer is there or can be had soon.
fn composed() -> Result<()> {
    let composer = || answers(Command::new("composer").arg("--version"));
    if !composer() && cannot_install("Composer", &["composer"]) {
        return Ok(());
    }
    let project = fresh("php/composed")?;
    fs::write(
        project.join("composer.json"),
        "{\"repositories\": [{\"packagist.org\": false}, {\"type\": \"path\", \"url\": \"../strata\", \
         \"options\": {\"symlink\": false}}], \"require\": {\"strata/strata\": \"*@dev\"}}\n",
    )?;
    let mut install = Command::new("composer");
    install.args(["install", "--quiet", "--no-interaction"]);
    install.env("COMPOSER_ALLOW_SUPERUSER", "1");
    said(install.current_dir(&project))?;
    let example = readme::start("php", "php")?;
    let example = example.replace("'/../strata/autoload.php'", "'/vendor/autoload.php'");
    ensure!(
        example.contains("/vendor/"),
        "the README's example has another autoloader"
    );
    fs::write(project.join("start.php"), example)?;
    readme::told(&said(
        Command::new("php").arg("start.php").current_dir(&project),
    )?)
}

/// Servers in which only preloaded files may use FFI: PHP's own for developers, and FPM where it is there or can be had soon.
fn preloaded(package: &Path, project: &Path) -> Result<()> {
    let header = said(Command::new("php").arg(package.join("header.php")))?;
    let kept = project.join("strata-preload.h");
    fs::write(&kept, header)?;
    let page = "<?php\necho Strata\\Model::load('tale')->chat('Tell me a story.', temperature: 0, max_tokens: 32)->text();\n\
                try { FFI::cdef('int x;'); echo 'free'; } catch (FFI\\Exception) { echo ' [restricted]'; }\n";
    fs::write(project.join("page.php"), page)?;
    let settings = [
        format!("ffi.preload={}", kept.display()),
        format!("opcache.preload={}", package.join("preload.php").display()),
        "opcache.preload_user=root".into(),
        "opcache.enable=1".into(),
        "opcache.enable_cli=1".into(),
        "ffi.enable=preload".into(),
    ];
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut server = Command::new("php");
    server
        .args(settings.iter().flat_map(|setting| ["-d", setting]))
        .args(["-S", &address.to_string(), "page.php"])
        .current_dir(project);
    told_restricted(&mut server, address, |socket| {
        write!(socket, "GET / HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    })?;
    let Some(fpm) = fpm()? else {
        return Ok(());
    };
    let pool = format!(
        "[global]\nerror_log = {}\n[strata]\nuser = root\nlisten = {address}\npm = static\npm.max_children = 1\n",
        project.join("fpm.log").display()
    );
    fs::write(project.join("fpm.conf"), pool)?;
    let mut server = Command::new(fpm);
    server
        .args(["--nodaemonize", "--allow-to-run-as-root", "--fpm-config"])
        .arg(project.join("fpm.conf"))
        .args(settings.iter().flat_map(|setting| ["-d", setting]));
    told_restricted(&mut server, address, |socket| {
        ask_fpm(socket, &project.join("page.php"))
    })
}

/// Starts a server, asks it for the page, and ends it.
fn told_restricted(
    server: &mut Command,
    address: SocketAddr,
    ask: impl FnOnce(&mut TcpStream) -> Result<String>,
) -> Result<()> {
    let mut server = server.stderr(Stdio::null()).spawn()?;
    let start = Instant::now();
    let socket = loop {
        match TcpStream::connect(address) {
            Ok(socket) => break Ok(socket),
            Err(error) if start.elapsed() > Duration::from_secs(10) => break Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let answer = socket
        .context("PHP's server did not start")
        .and_then(|mut socket| ask(&mut socket));
    server.kill()?;
    server.wait()?;
    let answer = answer?;
    ensure!(answer.contains("[restricted]"), "{answer}");
    readme::told(&answer)
}

/// FPM's program.
fn fpm() -> Result<Option<PathBuf>> {
    let find = || -> Result<Option<PathBuf>> {
        for entry in fs::read_dir("/usr/sbin")? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("php-fpm") {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    };
    if let Some(found) = find()? {
        return Ok(Some(found));
    }
    if cannot_install("FPM", &["php-fpm"]) {
        return Ok(None);
    }
    find()
}

/// Asks FPM for a page, in the words of FastCGI: records with a version, a type, the number of a request, and a length.
fn ask_fpm(socket: &mut TcpStream, page: &Path) -> Result<String> {
    const BEGIN: u8 = 1;
    const END: u8 = 3;
    const PARAMS: u8 = 4;
    const STDIN: u8 = 5;
    const STDOUT: u8 = 6;
    let mut asked = Vec::new();
    let mut record = |kind: u8, content: &[u8]| {
        let length = (content.len() as u16).to_be_bytes();
        asked.extend([1, kind, 0, 1, length[0], length[1], 0, 0]);
        asked.extend(content);
    };
    // A responder, whose connection is closed after the answer.
    record(BEGIN, &[0, 1, 0, 0, 0, 0, 0, 0]);
    let page = page.to_string_lossy();
    let mut params = Vec::new();
    for (name, value) in [("REQUEST_METHOD", "GET"), ("SCRIPT_FILENAME", &*page)] {
        ensure!(value.len() < 128, "{value} is too long");
        params.extend([name.len() as u8, value.len() as u8]);
        params.extend(name.bytes().chain(value.bytes()));
    }
    record(PARAMS, &params);
    record(PARAMS, &[]);
    record(STDIN, &[]);
    socket.write_all(&asked)?;
    let mut answer = Vec::new();
    loop {
        let mut header = [0; 8];
        socket.read_exact(&mut header)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        socket.read_exact(&mut content)?;
        match header[1] {
            STDOUT => answer.extend(&content[..length]),
            END => return Ok(String::from_utf8_lossy(&answer).into_owned()),
            _ => {}
        }
    }
}
