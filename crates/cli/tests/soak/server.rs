//! The program as a server, seen from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that is ended with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    process: Child,
}

/// What a server holds.
#[derive(Debug)]
pub(crate) struct State {
    /// Bytes of memory.
    pub(crate) memory: u64,
    pub(crate) files: usize,
    pub(crate) used_pages: usize,
    pub(crate) cached_pages: usize,
    /// Those that run or wait.
    pub(crate) requests: usize,
}

impl Server {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_strata"))
            .args([
                "serve",
                "tale",
                "--host",
                "127.0.0.1:0",
                "--log-format",
                "json",
            ])
            // A pool that is full before memory is first looked at.
            .args(["--keep-alive=-1", "--ctx=1024"])
            .env_remove("STRATA_API_KEY")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            let (_, rest) = line.split_once("listening on http://")?;
            rest.split('"').next()?.parse().ok()
        });
        let address = address.expect("the server says where it listens");
        // Somebody has to read what it says.
        std::thread::spawn(move || lines.for_each(drop));
        Self { address, process }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn metrics(&self) -> String {
        let text = self.get("/metrics");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        text
    }

    /// What the server holds once all requests have ended, or what it still holds after a while.
    pub(crate) fn state_at_rest(&self) -> State {
        let end = Instant::now() + Duration::from_secs(15);
        loop {
            let state = self.state();
            if (state.requests == 0 && state.used_pages == 0) || Instant::now() > end {
                // Connections end a moment after their requests.
                std::thread::sleep(Duration::from_millis(500));
                return self.state();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Bytes of memory that the server has.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        memory.unwrap_or(0) << 10
    }

    fn state(&self) -> State {
        let metrics = self.metrics();
        let sum = |start: &str, label: &str| -> usize {
            let lines = metrics
                .lines()
                .filter(|line| line.starts_with(start) && line.contains(label));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            values.sum::<f64>() as usize
        };
        let process = format!("/proc/{}", self.process.id());
        State {
            memory: self.memory(),
            files: std::fs::read_dir(format!("{process}/fd")).map_or(0, Iterator::count),
            used_pages: sum("strata:kv_pages{", "state=\"used\""),
            cached_pages: sum("strata:kv_pages{", "state=\"cached\""),
            requests: sum("vllm:num_requests_running{", "") + sum("vllm:num_requests_waiting{", ""),
        }
    }

    /// Asks the server to end, and sees that it does so in good order.
    pub(crate) fn stop(mut self) {
        let id = nix::unistd::Pid::from_raw(self.process.id().cast_signed());
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
