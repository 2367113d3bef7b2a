//! A minimal Linux guest: Debian's kernel for clouds, and an archive with the program, its libraries, the drivers that
//! it needs, and a script that ends in the program.

use super::cpio::Archive;
use super::guest::{GUEST_PORT, Guest};
use crate::command::{run as execute, target};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";
/// For the script: mount, insmod, ip.
const TOOLS_PACKAGE: &str = "busybox-static";
/// In the order in which they need each other.
const MODULES: [&str; 8] = [
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];

/// The guest with this program.
pub(super) fn guest(strata: &Path) -> Result<Guest> {
    let folder = target().join("baremetal");
    let system = folder.join("system");
    if !system.join("boot").is_dir() {
        fetch(&folder, &system)?;
    }
    let kernel = only(&system.join("boot"), "vmlinuz-")?;
    let initrd = folder.join("initramfs.cpio");
    fs::write(&initrd, archive(&system, strata)?)?;
    Ok(Guest {
        name: "Linux",
        kernel,
        initrd: Some(initrd),
        options: "console=ttyS0 quiet panic=-1".into(),
    })
}

/// Downloads and unpacks the packages, without installing them.
fn fetch(folder: &Path, system: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let output = Command::new("apt-cache")
        .args(["depends", KERNEL_PACKAGE])
        .output()
        .context("the Linux guest is made of Debian's packages, which need apt-get")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "));
    let kernel = lines
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("apt-cache knows no {KERNEL_PACKAGE}: run `apt-get update`"))?;
    let status = Command::new("apt-get")
        .args(["download", kernel, TOOLS_PACKAGE])
        .current_dir(folder)
        .status()?;
    ensure!(
        status.success(),
        "{kernel} and {TOOLS_PACKAGE} cannot be downloaded"
    );
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            execute(Command::new("dpkg-deb").arg("-x").arg(&path).arg(system))?;
        }
    }
    Ok(())
}

/// The one entry of a folder whose name begins so.
fn only(folder: &Path, prefix: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            return Ok(entry.path());
        }
    }
    anyhow::bail!("there is no {prefix}… in {}", folder.display())
}

fn archive(system: &Path, strata: &Path) -> Result<Vec<u8>> {
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "sys", "modules", "root", "tmp"] {
        archive.folder(folder);
    }
    archive.console();
    archive.file("init", script().as_bytes());
    archive.file("bin/busybox", &read(&system.join("bin/busybox"))?);
    archive.file("bin/strata", &read(strata)?);
    let mut folders = Vec::new();
    for library in libraries(strata)? {
        let name = library.trim_start_matches('/');
        for (at, _) in name.match_indices('/') {
            if !folders.contains(&name[..at].to_owned()) {
                folders.push(name[..at].to_owned());
                archive.folder(&name[..at]);
            }
        }
        archive.file(name, &read(Path::new(&library))?);
    }
    let modules = only(&system.join("lib/modules"), "")?.join("kernel");
    for module in MODULES {
        let content = read(&modules.join(module).with_extension("ko"))?;
        archive.file(&format!("modules/{}.ko", name(module)), &content);
    }
    Ok(archive.finish())
}

fn name(module: &str) -> &str {
    module.rsplit('/').next().unwrap_or(module)
}

/// What the dynamic linker loads, and the linker itself.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output()?;
    let text = String::from_utf8(output.stdout)?;
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(String::from).collect())
}

fn script() -> String {
    let names: Vec<&str> = MODULES.iter().map(|module| name(module)).collect();
    format!(
        "#!/bin/busybox sh\n\
         b=/bin/busybox\n\
         $b mount -t proc proc /proc\n\
         $b mount -t sysfs sys /sys\n\
         $b mount -t devtmpfs dev /dev\n\
         for m in {}; do $b insmod /modules/$m.ko; done\n\
         $b ip link set lo up\n\
         $b ip addr add 10.0.2.15/24 dev eth0\n\
         $b ip link set eth0 up\n\
         export HOME=/root\n\
         exec /bin/strata serve tale --host 0.0.0.0:{GUEST_PORT} --insecure-no-auth\n",
        names.join(" ")
    )
}
