//! A guest in QEMU, and what is measured of it.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";
pub(super) const PROCESSORS: usize = 2;
pub(super) const MEMORY: &str = "512M";
pub(super) const GUEST_PORT: u16 = 11434;
/// Emulation is slow.
const TIMEOUT: Duration = Duration::from_secs(600);
const HEALTH_CHECKS: usize = 30;
/// What the kernel counts processor time in.
const TICKS: f64 = 100.0;

/// What boots.
pub(super) struct Guest {
    pub(super) name: &'static str,
    pub(super) kernel: PathBuf,
    pub(super) initrd: Option<PathBuf>,
    pub(super) options: String,
}

/// What was measured of one boot.
#[derive(Copy, Clone, Default)]
pub(super) struct Figures {
    image_mb: f64,
    first_byte: f64,
    ready: f64,
    first_token: f64,
    memory_mb: f64,
    tokens_per_cpu_second: f64,
    health_ms: f64,
    completion: f64,
    gap_ms: f64,
    jitter_ms: f64,
}

/// A line of the table.
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) value: f64,
    pub(super) digits: usize,
    pub(super) more_is_better: bool,
}

impl Figures {
    fn fields(&mut self) -> [&mut f64; 10] {
        [
            &mut self.image_mb,
            &mut self.first_byte,
            &mut self.ready,
            &mut self.first_token,
            &mut self.memory_mb,
            &mut self.tokens_per_cpu_second,
            &mut self.health_ms,
            &mut self.completion,
            &mut self.gap_ms,
            &mut self.jitter_ms,
        ]
    }

    /// Each figure's median.
    pub(super) fn medians(all: &[Self]) -> Self {
        let mut medians = Self::default();
        for (index, field) in medians.fields().into_iter().enumerate() {
            let values = all.iter().map(|figures| {
                let mut figures = *figures;
                *figures.fields()[index]
            });
            *field = median(values.collect());
        }
        medians
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |what, value, digits| Row {
            what,
            value,
            digits,
            more_is_better: false,
        };
        vec![
            row("image with the model, MB", self.image_mb, 1),
            row("start to first serial byte, s", self.first_byte, 2),
            row("start to first answer by HTTP, s", self.ready, 2),
            row("start to first token, s", self.first_token, 2),
            row("host memory in use, MB", self.memory_mb, 0),
            Row {
                more_is_better: true,
                ..row("tokens a CPU-second", self.tokens_per_cpu_second, 2)
            },
            row("/health, median ms", self.health_ms, 1),
            row("a streamed completion, s", self.completion, 2),
            row("between tokens, median ms", self.gap_ms, 1),
            row(
                "jitter (95th percentile less median), ms",
                self.jitter_ms,
                1,
            ),
        ]
    }
}

fn median(values: Vec<f64>) -> f64 {
    quantile(values, 0.5)
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values
        .get((last as f64 * part).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// QEMU, which goes with this value.
struct QemuProcess {
    child: Child,
    address: SocketAddr,
    begin: Instant,
    first_byte: mpsc::Receiver<Instant>,
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Guest {
    /// Boots it once, and measures.
    pub(super) fn measure(&self, tokens: usize) -> Result<Figures> {
        let files = std::iter::once(&self.kernel).chain(&self.initrd);
        let sizes = files.map(|path| Ok(std::fs::metadata(path)?.len()));
        let bytes: u64 = sizes.sum::<Result<u64>>()?;
        let mut running = self.start()?;
        running.wait_until_ready()?;
        let ready = running.begin.elapsed();
        let first = running.stream(4)?;
        let first_token = first.first().context("no token came")?;
        let first_token = first_token.duration_since(running.begin);
        let mut health = Vec::new();
        for _ in 0..HEALTH_CHECKS {
            let begin = Instant::now();
            ensure!(running.healthy(TIMEOUT), "{} stopped answering", self.name);
            health.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        let (begin, cpu) = (Instant::now(), running.cpu_seconds()?);
        let times = running.stream(tokens)?;
        let (completion, cpu) = (begin.elapsed(), running.cpu_seconds()? - cpu);
        let gaps = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e3);
        let gaps: Vec<f64> = gaps.collect();
        ensure!(gaps.len() > 1, "only {} tokens came", times.len());
        let gap = median(gaps.clone());
        let first_byte = running.first_byte.try_recv().context("nothing was said")?;
        Ok(Figures {
            image_mb: bytes as f64 / 1e6,
            first_byte: first_byte.duration_since(running.begin).as_secs_f64(),
            ready: ready.as_secs_f64(),
            first_token: first_token.as_secs_f64(),
            memory_mb: running.memory()?,
            tokens_per_cpu_second: times.len() as f64 / cpu,
            health_ms: median(health),
            completion: completion.as_secs_f64(),
            gap_ms: gap,
            jitter_ms: quantile(gaps, 0.95) - gap,
        })
    }

    fn start(&self) -> Result<QemuProcess> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let network = format!("user,id=n,hostfwd=tcp:{address}-:{GUEST_PORT}");
        let mut command = Command::new(QEMU);
        command.args(["-M", "q35", "-m", MEMORY, "-accel", "tcg", "-cpu", "max"]);
        command.args(["-smp", &PROCESSORS.to_string(), "-nodefaults"]);
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.args(["-netdev", &network, "-device", "virtio-net-pci,netdev=n"]);
        command.arg("-kernel").arg(&self.kernel);
        command.args(["-append", &self.options]);
        if let Some(initrd) = &self.initrd {
            command.arg("-initrd").arg(initrd);
        }
        let begin = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {QEMU} (Debian's qemu-system-x86)"))?;
        let mut output = child.stdout.take().context("QEMU has no output")?;
        let (sender, first_byte) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(1..) = output.read(&mut bytes) {
                let _ = sender.send(Instant::now());
            }
        });
        Ok(QemuProcess {
            child,
            address,
            begin,
            first_byte,
        })
    }
}

impl QemuProcess {
    fn wait_until_ready(&mut self) -> Result<()> {
        while self.begin.elapsed() < TIMEOUT {
            if self.healthy(Duration::from_millis(300)) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("QEMU ended with {status}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the guest does not answer")
    }

    fn connect(&self, timeout: Duration) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn healthy(&self, timeout: Duration) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = self.connect(timeout)?;
            stream.write_all(
                b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    /// When each token of a streamed answer came.
    fn stream(&self, tokens: usize) -> Result<Vec<Instant>> {
        let body = format!(
            r#"{{"model":"tale","temperature":0,"max_tokens":{tokens},"stream":true,"prompt":"Once upon a time"}}"#
        );
        let mut stream = self.connect(TIMEOUT)?;
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut times = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let text = line.split_once("\"text\":\"").map(|(_, text)| text);
            if line.starts_with("data: {") && text.is_some_and(|text| !text.starts_with('"')) {
                times.push(Instant::now());
            }
            if line == "data: [DONE]" {
                break;
            }
        }
        Ok(times)
    }

    /// Processor time of QEMU so far.
    fn cpu_seconds(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let rest = text.rsplit_once(')').context("odd process status")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = [11, 12].map(|at| fields.get(at).and_then(|field| field.parse::<f64>().ok()));
        let [Some(user), Some(system)] = ticks else {
            bail!("odd process status");
        };
        Ok((user + system) / TICKS)
    }

    /// Memory of QEMU that is in use, in MB.
    fn memory(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        let kib: f64 = number.context("odd process status")?.parse()?;
        Ok(kib * 1024.0 / 1e6)
    }
}
