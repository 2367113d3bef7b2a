//! `cargo xtask test-pack`: every artifact of `strata pack` is made and run, and says what `strata run` says.

use crate::command::{answers, debian_install, root, run as execute, target};
use crate::dist::{MUSL, Profile, program};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const USAGE: &str = "cargo xtask test-pack [--program STATIC-PROGRAM]";
const PROMPT: &str = "Once upon a time";
const GREEDY: [&str; 5] = ["--temp", "0", "-n", "24", PROMPT];
const KEY: &str = "a-key-for-the-test";
/// Complaints of lintian about what is meant: an executable that cannot be stripped, because its models are behind it, in
/// archives that are not compressed, by nobody in particular.
const MEANT: &str = "statically-linked-binary,shared-library-lacks-prerequisites,\
                     unstripped-binary-or-object,bogus-mail-host,\
                     bogus-mail-host-in-debian-changelog,uses-no-compression-for-control-tarball,\
                     uses-no-compression-for-data-tarball";

/// What runs artifacts, and the packages that have it.
const TOOLS: [(&str, &str); 8] = [
    ("python3", "python3"),
    ("skopeo", "skopeo"),
    ("unzip", "unzip"),
    ("umoci", "umoci"),
    ("runc", "runc"),
    ("unsquashfs", "squashfs-tools"),
    ("snap", "snapd"),
    ("lintian", "lintian"),
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let program = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => program(MUSL, Profile::Test, None)?,
        ["--program", path] => std::path::absolute(path)?,
        _ => bail!(USAGE),
    };
    install()?;
    let folder = target().join("test-pack");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let words = [&["run", "tale"], &GREEDY[..]].concat();
    let trial = Trial {
        expected: said(Command::new(&program).args(words))?,
        program,
        folder,
    };
    ensure!(trial.expected.len() > 40, "{:?} is short", trial.expected);
    trial.executable()?;
    trial.package()?;
    trial.container()?;
    trial.snap()?;
    trial.components()
}

fn install() -> Result<()> {
    let is_here =
        |tool: &str| answers(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
    let missing = TOOLS.iter().filter(|(tool, _)| !is_here(tool));
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    debian_install(&missing)
}

/// What a command prints.
fn said(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {error}");
    Ok(String::from_utf8(output.stdout)?)
}

/// A program that packs, and what its artifacts must say.
struct Trial {
    program: PathBuf,
    folder: PathBuf,
    expected: String,
}

impl Trial {
    /// Packs the built-in model, twice, and checks that the artifact is the same, verifies, and is refused once changed.
    fn pack(&self, name: &str) -> Result<PathBuf> {
        let write = |name: &str| -> Result<PathBuf> {
            let path = self.folder.join(name);
            let mut pack = Command::new(&self.program);
            said(pack.args(["pack", "tale", "-o"]).arg(&path))?;
            Ok(path)
        };
        let verify = |path: &Path| {
            said(
                Command::new(&self.program)
                    .args(["pack", "--verify"])
                    .arg(path),
            )
        };
        let path = write(name)?;
        let mut bytes = std::fs::read(&path)?;
        ensure!(
            bytes == std::fs::read(write(&format!("again-{name}"))?)?,
            "{name} differs the second time"
        );
        verify(&path)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let damaged = self.folder.join(format!("damaged-{name}"));
        std::fs::write(&damaged, bytes)?;
        ensure!(verify(&damaged).is_err(), "a changed {name} is verified");
        Ok(path)
    }

    /// Compares what an artifact says.
    fn compare(&self, name: &str, begin: Instant, found: &str) -> Result<()> {
        ensure!(
            found == self.expected,
            "{name} says {found:?}, and the program {:?}",
            self.expected
        );
        eprintln!("  pack: {name} ({:.1} s)", begin.elapsed().as_secs_f64());
        Ok(())
    }

    fn executable(&self) -> Result<()> {
        let begin = Instant::now();
        let path = self.pack("tale.run")?;
        let found = said(Command::new(&path).args(GREEDY))?;
        self.compare("tale.run", begin, &found)?;
        // A changed model is refused before it runs.
        let mut bytes = std::fs::read(&path)?;
        let middle = bytes.len() - (8 << 20);
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes)?;
        ensure!(
            said(Command::new(&path).args(GREEDY)).is_err(),
            "an executable with a changed model runs"
        );
        Ok(())
    }

    /// Installed by dpkg into a folder that has nothing else, and run in it.
    fn package(&self) -> Result<()> {
        let begin = Instant::now();
        let path = self.pack("tale.deb")?;
        execute(
            Command::new("lintian")
                .args([
                    "--no-cfg",
                    "--fail-on",
                    "error,warning",
                    "--suppress-tags",
                    MEANT,
                ])
                .arg(&path),
        )?;
        let root = self.folder.join("root");
        std::fs::create_dir_all(root.join("var/lib/dpkg/info"))?;
        std::fs::create_dir_all(root.join("var/lib/dpkg/updates"))?;
        std::fs::write(root.join("var/lib/dpkg/status"), "")?;
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        said(dpkg.arg("--install").arg(&path))?;
        // The program asks `/proc` for its own file and for the memory that there is.
        for folder in ["proc", "tmp"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        let script =
            "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /usr/bin/strata-tale \"$@\"";
        let mut chroot = Command::new("unshare");
        chroot.args(["--mount", "sh", "-c", script]).arg(&root);
        let found = said(chroot.args(GREEDY))?;
        self.compare("tale.deb", begin, &found)
    }

    /// Unpacked by umoci and run by runc, as its user and with nothing to write to.
    fn container(&self) -> Result<()> {
        let begin = Instant::now();
        let path = self.pack("tale.oci")?;
        let layout = self.folder.join("layout");
        std::fs::create_dir_all(&layout)?;
        said(
            Command::new("tar")
                .arg("-xf")
                .arg(&path)
                .arg("-C")
                .arg(&layout),
        )?;
        let bundle = self.folder.join("bundle");
        let image = format!("{}:latest", layout.display());
        said(
            Command::new("umoci")
                .args(["unpack", "--image", &image])
                .arg(&bundle),
        )?;
        let config = bundle.join("config.json");
        let mut value: Value = serde_json::from_slice(&std::fs::read(&config)?)?;
        let process = &mut value["process"];
        ensure!(
            process["user"]["uid"] == 10001,
            "it runs as {}",
            process["user"]
        );
        ensure!(process["args"][1] == "serve", "it does not serve");
        let words = [&["/strata.run", "run"], &GREEDY[..]].concat();
        process["args"] = json!(words);
        process["terminal"] = json!(false);
        value["root"]["readonly"] = json!(true);
        std::fs::write(&config, value.to_string())?;
        let found = said(&mut Container::command(&bundle))?;
        self.compare("tale.oci", begin, &found)?;
        self.served(&bundle, value)?;
        self.push(&layout)
    }

    /// As it starts by itself: not without a key, where other machines could call; with one it is healthy, and answers.
    fn served(&self, bundle: &Path, mut value: Value) -> Result<()> {
        let begin = Instant::now();
        value["process"]["args"] = json!(["/strata.run", "serve", "--threads", "1"]);
        let config = bundle.join("config.json");
        std::fs::write(&config, value.to_string())?;
        let open = said(&mut Container::command(bundle)).map_err(|error| error.to_string());
        ensure!(
            open.as_ref().is_err_and(|said| said.contains("API key")),
            "a container without a key: {open:?}"
        );
        // The network of this machine, at a port of its own.
        let network = |namespace: &Value| namespace["type"] != "network";
        let namespaces = value["linux"]["namespaces"].as_array_mut();
        namespaces.context("no namespaces")?.retain(network);
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let variables = [
            format!("OLLAMA_HOST=0.0.0.0:{port}"),
            format!("STRATA_API_KEY={KEY}"),
        ];
        let environment = value["process"]["env"].as_array_mut();
        environment
            .context("no environment")?
            .extend(variables.map(Value::from));
        std::fs::write(&config, value.to_string())?;
        let container = Container::start(bundle)?;
        let ask = |word: &str| {
            let mut command = Command::new(bundle.join("rootfs/strata.run"));
            command.arg(word).env("STRATA_API_KEY", KEY);
            said(command.env("OLLAMA_HOST", format!("127.0.0.1:{port}")))
        };
        while ask("health").is_err() {
            ensure!(
                begin.elapsed().as_secs() < 120,
                "the container is not healthy"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        let status = ask("status")?;
        drop(container);
        ensure!(status.contains("answered: after"), "its status is {status}");
        eprintln!(
            "  pack: the container serves ({:.1} s)",
            begin.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Sends the image to a registry on loopback, from where skopeo fetches the same image.
    fn push(&self, layout: &Path) -> Result<()> {
        let begin = Instant::now();
        let registry = Registry::start()?;
        let name = format!("{}/team/tale:1", registry.host);
        let path = self.folder.join("pushed.oci");
        let mut pack = Command::new(&self.program);
        pack.args(["pack", "tale", "-o"]).arg(&path);
        said(pack.args(["--insecure", "--push", &name]))?;
        let copy = self.folder.join("fetched");
        let (from, to) = (
            format!("docker://{name}"),
            format!("oci:{}:latest", copy.display()),
        );
        let words = [
            "--insecure-policy",
            "copy",
            "--preserve-digests",
            "--src-tls-verify=false",
            &from,
            &to,
        ];
        said(Command::new("skopeo").args(words))?;
        let manifest = |layout: &Path| -> Result<Value> {
            let index: Value = serde_json::from_slice(&std::fs::read(layout.join("index.json"))?)?;
            Ok(index["manifests"][0]["digest"].clone())
        };
        let (sent, fetched) = (manifest(layout)?, manifest(&copy)?);
        ensure!(sent == fetched, "{sent} was sent, and {fetched} fetched");
        eprintln!(
            "  pack: a registry ({:.1} s)",
            begin.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Checked by snapd, mounted, and its program run as its service and commands are.
    fn snap(&self) -> Result<()> {
        let begin = Instant::now();
        let path = self.pack("tale.snap")?;
        let skeleton = self.folder.join("skeleton");
        said(
            Command::new("unsquashfs")
                .arg("-d")
                .arg(&skeleton)
                .arg(&path),
        )?;
        let mut check = Command::new("snap");
        check.args(["pack", "--check-skeleton"]).arg(&skeleton);
        said(&mut check)?;
        let root = self.folder.join("snap");
        let _mounted = Mounted::new(&path, &root)?;
        let common = self.folder.join("common");
        std::fs::create_dir_all(&common)?;
        let program = root.join("bin/strata.run");
        let snapped = |words: &[&str]| {
            let mut command = Command::new(&program);
            command.args(words).env("SNAP_COMMON", &common);
            said(&mut command)
        };
        said(
            Command::new("sh")
                .arg(root.join("meta/hooks/install"))
                .env("SNAP", &root)
                .env("SNAP_COMMON", &common),
        )?;
        let engine = std::fs::read_to_string(common.join("engine"))?;
        ensure!(engine.trim() == "tale", "the engine is {engine:?}");
        ensure!(
            snapped(&["engines"])?.contains("tale"),
            "no engine is listed"
        );
        ensure!(
            snapped(&["status"]).is_err(),
            "a server that is not there answers"
        );
        ensure!(
            snapped(&["use-engine", "none"]).is_err(),
            "an engine that is not there is used"
        );
        let found = snapped(&GREEDY)?;
        self.compare("tale.snap", begin, &found)
    }

    /// The snap without its model, and the model as a component, both mounted.
    fn components(&self) -> Result<()> {
        let begin = Instant::now();
        let path = self.folder.join("parts.snap");
        let mut pack = Command::new(&self.program);
        pack.args(["pack", "tale", "--components", "-o"]).arg(&path);
        said(&mut pack)?;
        let skeleton = self.folder.join("parts-skeleton");
        said(
            Command::new("unsquashfs")
                .arg("-d")
                .arg(&skeleton)
                .arg(&path),
        )?;
        let (root, components) = (self.folder.join("parts"), self.folder.join("components"));
        let (snap, component) = (root.join("bin/strata.run"), components.join("model-tale"));
        let _snap = Mounted::new(&path, &root)?;
        let run = || {
            let mut command = Command::new(&snap);
            said(command.args(GREEDY).env("SNAP_COMPONENTS", &components))
        };
        ensure!(run().is_err(), "a snap without its component answers");
        let _component = Mounted::new(&self.folder.join("parts+model-tale.comp"), &component)?;
        self.compare("a snap with a component", begin, &run()?)
    }
}

/// A file system that is mounted, as snapd mounts it, until this value goes.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(image: &Path, at: &'a Path) -> Result<Self> {
        std::fs::create_dir_all(at)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "squashfs", "-o", "loop,ro"]);
        said(mount.arg(image).arg(at))?;
        Ok(Self(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // A folder that stays mounted is found out when it is to be removed.
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A container that runs, which goes with this value.
struct Container(Child, String);

impl Container {
    /// Runs what a bundle says, to its end.
    fn command(bundle: &Path) -> Command {
        Self::named(bundle, &format!("strata-test-pack-{}", std::process::id()))
    }

    fn named(bundle: &Path, name: &str) -> Command {
        let mut command = Command::new("runc");
        command.arg("run").arg("--bundle").arg(bundle).arg(name);
        command
    }

    fn start(bundle: &Path) -> Result<Self> {
        let name = format!("strata-test-pack-{}-serve", std::process::id());
        let child = Self::named(bundle, &name)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start runc")?;
        Ok(Self(child, name))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = Command::new("runc")
            .args(["kill", &self.1, "KILL"])
            .status();
        let _ = self.0.wait();
    }
}

/// A registry on loopback, which goes with this value.
struct Registry {
    child: Child,
    host: String,
}

impl Registry {
    fn start() -> Result<Self> {
        let mut child = Command::new("python3")
            .arg(root().join("tools/model_registry.py"))
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start python3")?;
        let mut host = String::new();
        let output = child.stdout.take().context("the registry has no output")?;
        BufReader::new(output).read_line(&mut host)?;
        let host = host.trim().to_owned();
        Ok(Self { child, host })
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
