//! Lines about what happens, for people or for machines. Never what clients say, nor their keys.
//!
//! A thread of its own writes them. One that cannot keep up, because nobody reads, loses lines instead of holding up
//! requests.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strata_chat::json::Json;
use strata_wire::calendar;

/// Lines that wait to be written.
const WAITING: usize = 1024;
/// How long the last lines get to be written when the server stops.
const LAST: Duration = Duration::from_millis(500);

/// How lines are written.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: the time, then words and `key=value`.
    #[default]
    Text,
    /// For machines: a JSON object a line.
    Json,
}

/// How much matters. Lines of less weight than asked for are left out.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Faults of ours.
    Error,
    /// Requests that were refused.
    Warn,
    /// Requests, and what happens to models.
    #[default]
    Info,
    /// Also what watches the server: health, readiness, metrics.
    Debug,
}

impl LogLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// Where lines go.
#[derive(Debug)]
pub struct Log {
    format: LogFormat,
    level: LogLevel,
    lines: Option<SyncSender<String>>,
    written: Option<Mutex<Receiver<()>>>,
    lost: AtomicU64,
}

impl Default for Log {
    /// No lines at all.
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: LogLevel::Error,
            lines: None,
            written: None,
            lost: AtomicU64::new(0),
        }
    }
}

impl Log {
    /// A log that is written to `sink`.
    pub fn new(
        format: LogFormat,
        level: LogLevel,
        mut sink: impl Write + Send + 'static,
    ) -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (done, written) = channel();
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || {
                for line in waiting {
                    let _ = sink.write_all(line.as_bytes());
                }
                let _ = sink.flush();
                drop(done);
            })?;
        Ok(Self {
            format,
            level,
            lines: Some(lines),
            written: Some(Mutex::new(written)),
            lost: AtomicU64::new(0),
        })
    }

    /// Writes a line: a word or two, and what belongs to it. Pairs without a value are left out.
    pub fn say(&self, level: LogLevel, message: &str, pairs: &[(&str, Json)]) {
        let Some(lines) = self.lines.as_ref().filter(|_| level <= self.level) else {
            return;
        };
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let told = pairs.iter().filter(|(_, value)| !value.is_null());
        let told = told.map(|(key, value)| (*key, value));
        let more = Json::from(lost);
        let told = told.chain((lost > 0).then_some(("lost_lines", &more)));
        let line = match self.format {
            LogFormat::Text => text(level, message, told),
            LogFormat::Json => json(level, message, told),
        };
        if lines.try_send(line).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(written) = self.written.take().and_then(|w| w.into_inner().ok()) {
            // The thread sends nothing: this ends when it does, or when nobody reads what it writes.
            let _ = written.recv_timeout(LAST);
        }
    }
}

fn text<'a>(
    level: LogLevel,
    message: &str,
    pairs: impl Iterator<Item = (&'a str, &'a Json)>,
) -> String {
    let mut line = format!("{} {:5} {message}", now(), level.name());
    for (key, value) in pairs {
        let value = match value {
            Json::String(text) if plain(text) => text.clone(),
            value => value.text(),
        };
        line.push_str(&format!(" {key}={value}"));
    }
    line.push('\n');
    line
}

/// Whether a text can stand without quotes.
fn plain(text: &str) -> bool {
    let ordinary = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '=' | '\\');
    !text.is_empty() && text.chars().all(ordinary)
}

fn json<'a>(
    level: LogLevel,
    message: &str,
    pairs: impl Iterator<Item = (&'a str, &'a Json)>,
) -> String {
    let mut line = Json::object([
        ("time", now().into()),
        ("level", level.name().into()),
        ("message", message.into()),
    ]);
    for (key, value) in pairs {
        line.push(key, value.clone());
    }
    format!("{line}\n")
}

/// The time, to the millisecond, as ISO 8601 has it.
fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let mut date = calendar::rfc3339_nanos(now.as_secs(), now.subsec_nanos());
    date.truncate(date.len() - "000000Z".len());
    date + "Z"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat) -> String {
        let sink = Sink::default();
        let log = Log::new(format, LogLevel::Info, sink.clone()).unwrap();
        let pairs = [
            ("route", "/v1/models".into()),
            ("client", "a \"b\"\nc".into()),
            ("model", Json::Null),
            ("status", 200u32.into()),
        ];
        log.say(LogLevel::Info, "request", &pairs);
        log.say(LogLevel::Debug, "request", &pairs);
        drop(log);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_is_one_line_whatever_is_in_it() {
        let text = written(LogFormat::Text);
        assert_eq!(text.lines().count(), 1, "{text}");
        let end = r#" info  request route=/v1/models client="a \"b\"\nc" status=200"#;
        assert!(text.trim_end().ends_with(end), "{text}");
        let json = written(LogFormat::Json);
        assert_eq!(json.lines().count(), 1, "{json}");
        let json = Json::parse(json.as_bytes()).unwrap();
        let client = json.get("client").and_then(Json::as_str);
        assert_eq!(client, Some("a \"b\"\nc"));
        assert!(json.get("model").is_none());
    }

    /// A sink that never takes anything.
    struct Stuck;

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            loop {
                std::thread::park();
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader() {
        let log = Log::new(LogFormat::Text, LogLevel::Info, Stuck).unwrap();
        // The writer takes one line, whenever it comes to it; that line tells of those lost before.
        let mut lost = 0;
        for _ in 0..3 * WAITING {
            log.say(LogLevel::Info, "request", &[]);
            lost = lost.max(log.lost.load(Ordering::Relaxed) as usize);
        }
        assert!(lost >= WAITING / 2, "{lost}");
    }
}
