//! `strata boot`, with a kernel that has no code and a QEMU that is a script and only tells its arguments.

use crate::images::folder;
use crate::program::{Run, command, finish, tale};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

const FAILED: i32 = 1;

/// A QEMU that writes its arguments down and ends with this status.
fn qemu(folder: &TempDir, status: u8) -> PathBuf {
    let bin = folder.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\"\nwhile [ $# -gt 0 ]; do\n\
         if [ \"$1\" = -kernel ]; then wc -c < \"$2\"; fi; shift; done\nexit {status}\n"
    );
    let program = bin.join("qemu-system-x86_64");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

fn boot(path: &str, arguments: &[&str]) -> Run {
    let mut command = command();
    command.arg("boot").args(arguments).env("PATH", path);
    finish(command)
}

#[test]
fn qemu_is_told_what_to_boot() {
    let (folder, kernel) = folder();
    let path = format!("{}:/usr/bin:/bin", qemu(&folder, 0).display());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = port.local_addr().unwrap().port().to_string();
    let run = boot(&path, &["--kernel", &kernel, "--port", &taken]);
    assert_eq!(run.code, Some(FAILED));
    assert!(
        run.err.contains("cannot use port") && run.err.contains("--port"),
        "{}",
        run.err
    );
    drop(port);
    let arguments = [
        "--kernel", &kernel, "--port", &taken, "--cpus", "3", "--accel", "tcg",
    ];
    let text = boot(&path, &[&arguments[..], &["--", "-s"]].concat()).text();
    assert!(text.contains("-M microvm -m 144M -smp 3"), "{text}");
    assert!(
        text.contains(&format!("hostfwd=tcp:127.0.0.1:{taken}-:11434")),
        "{text}"
    );
    assert!(
        text.contains("-append name=tale ") && text.trim_end().contains(" -s\n"),
        "{text}"
    );
    assert!(!text.contains("-initrd") && !text.contains("kvm"), "{text}");
    // The built-in model is behind the kernel.
    let bytes: u64 = text.lines().last().unwrap().trim().parse().unwrap();
    assert!(bytes > std::fs::metadata(tale()).unwrap().len(), "{text}");
    let kernels = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let left = kernels.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("strata-boot-")
    });
    let used = text
        .split_once("-kernel ")
        .unwrap()
        .1
        .split(' ')
        .next()
        .unwrap();
    assert!(
        left.into_iter()
            .all(|entry| !used.starts_with(entry.path().to_str().unwrap()))
    );

    let tale = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/tale-q4_k_m.gguf"
    );
    let arguments = [
        tale, "--kernel", &kernel, "--port", &taken, "--memory", "1GiB",
    ];
    let text = boot(
        &path,
        &[&arguments[..], &["--", "-device", "nvme"]].concat(),
    )
    .text();
    assert!(text.contains("-M q35 -m 1024M"), "{text}");
    assert!(
        text.contains(&format!("-initrd {tale} -append name=tale-q4_k_m")),
        "{text}"
    );
}

#[test]
fn a_qemu_that_fails_or_is_not_there_is_told() {
    let (folder, kernel) = folder();
    let path = format!("{}:/usr/bin:/bin", qemu(&folder, 3).display());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = port.local_addr().unwrap().port().to_string();
    drop(port);
    let run = boot(&path, &["--kernel", &kernel, "--port", &free]);
    assert!(run.err.contains("QEMU failed with"), "{}", run.err);
    let empty = folder.path().join("empty");
    let run = boot(
        empty.to_str().unwrap(),
        &["--kernel", &kernel, "--port", &free],
    );
    assert_eq!(run.code, Some(FAILED));
    assert!(
        run.err.contains("is not installed") && run.err.contains("qemu-system-x86"),
        "{}",
        run.err
    );
}
