//! The workers of a download. Each takes a part, asks for the bytes that it lacks, and writes them where they belong.

use super::parts::Parts;
use super::{Fetch, TICK, pause};
use crate::error::{At, StoreError};
use crate::net::{Answer, Method, NetError, broken};
use crate::progress::OnProgress;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

/// Read and written at once; also what is lost at most of each part when the process is killed.
const PIECE: usize = 64 << 10;

/// Why the parts could not be fetched.
pub(super) enum Failure {
    /// The server does not answer ranges.
    NoRanges,
    Store(StoreError),
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// What the workers share.
struct Work<'a> {
    parts: &'a Parts,
    data: &'a Path,
    next: AtomicUsize,
    completed: AtomicU64,
    stop: AtomicBool,
    /// By when a small blob must be here: a licence is a document like a manifest.
    by: Option<Instant>,
}

/// Blobs that are no longer must come within the time of a document.
const SMALL: u64 = 1 << 20;

impl Fetch<'_> {
    fn by(&self) -> Option<Instant> {
        let document = self.client.network.retry.document;
        (self.size <= SMALL).then(|| Instant::now() + document)
    }

    /// Fetches all that the parts lack.
    pub(super) fn ranges(
        &self,
        parts: &Parts,
        data: &Path,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), Failure> {
        let work = Work {
            parts,
            data,
            next: AtomicUsize::new(0),
            completed: AtomicU64::new(parts.total()),
            stop: AtomicBool::new(false),
            by: self.by(),
        };
        let workers = self.client.network.parallel.clamp(1, parts.count().max(1));
        let mut outcome = Ok(());
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            for _ in 0..workers {
                let (sender, work) = (sender.clone(), &work);
                scope.spawn(move || {
                    let _ = sender.send(self.worker(work));
                });
            }
            drop(sender);
            loop {
                let heard = receiver.recv_timeout(TICK);
                let completed = work.completed.load(Ordering::Relaxed);
                let failure = match heard {
                    Err(RecvTimeoutError::Disconnected) => break,
                    Ok(Err(failure)) => Some(failure),
                    Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {
                        self.step(completed).tell(progress).err().map(Into::into)
                    }
                };
                if let Some(failure) = failure {
                    work.stop.store(true, Ordering::Relaxed);
                    // The first failure is the reason; others follow from it.
                    if outcome.is_ok() {
                        outcome = Err(failure);
                    }
                }
            }
        });
        outcome?;
        self.step(self.size).tell(progress)?;
        Ok(())
    }

    fn worker(&self, work: &Work<'_>) -> Result<(), Failure> {
        loop {
            let part = work.next.fetch_add(1, Ordering::Relaxed);
            if part >= work.parts.count() || work.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let mut done = work.parts.done(part);
            let mut failed = 0;
            while done < work.parts.len_of(part) && !work.stop.load(Ordering::Relaxed) {
                let before = done;
                match self.part(work, part, &mut done) {
                    Ok(()) => {}
                    Err(Failure::Store(StoreError::Net(error))) if error.may_pass() => {
                        // Only tries in a row that bring nothing count.
                        failed = if done > before { 1 } else { failed + 1 };
                        let late = work.by.is_some_and(|by| by <= Instant::now());
                        if late || failed >= self.client.network.retry.tries {
                            return Err(error.into());
                        }
                        pause(self.client, failed);
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
    }

    /// One request for what a part lacks.
    fn part(&self, work: &Work<'_>, part: usize, done: &mut u64) -> Result<(), Failure> {
        let start = work.parts.start(part);
        let (first, end) = (start + *done, start + work.parts.len_of(part));
        let range = format!("bytes={first}-{}", end - 1);
        let headers = [("range", range.as_str())];
        let answer = self.client.ask(
            &Method::GET,
            &self.url,
            &headers,
            self.credential.as_ref(),
            work.by,
        )?;
        let answer = match answer.status().as_u16() {
            416 => answer,
            _ => answer.ok()?,
        };
        self.check_range(&answer, first, end)?;
        let host = answer.host();
        let mut reader = answer.into_reader().take(end - first);
        let mut data = OpenOptions::new()
            .write(true)
            .open(work.data)
            .at(work.data)?;
        data.seek(SeekFrom::Start(first)).at(work.data)?;
        let mut marker = work.parts.marker(part)?;
        let mut piece = vec![0; PIECE];
        while start + *done < end {
            if work.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let n = reader
                .read(&mut piece)
                .map_err(|error| broken(&host, &error))?;
            if n == 0 {
                return Err(NetError::Short {
                    host,
                    expected: end - first,
                    found: start + *done - first,
                }
                .into());
            }
            data.write_all(&piece[..n]).at(work.data)?;
            *done += n as u64;
            marker.set(*done)?;
            work.completed.fetch_add(n as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// That what comes is what was asked for.
    fn check_range(&self, answer: &Answer, first: u64, end: u64) -> Result<(), Failure> {
        let expected = format!("bytes {first}-{}/{}", end - 1, self.size);
        let wrong = |found: &str| NetError::Range {
            host: answer.host(),
            expected: expected.clone(),
            found: found.chars().take(80).collect(),
        };
        match answer.status().as_u16() {
            206 => {}
            200 => return Err(Failure::NoRanges),
            // The blob is shorter than the manifest says.
            416 => return Err(wrong("that there is no such range").into()),
            status => return Err(wrong(&format!("the status {status}")).into()),
        }
        answer.plain()?;
        let found = answer.header("content-range").unwrap_or("no range");
        // The whole length may be left open.
        let open = format!("bytes {first}-{}/*", end - 1);
        if found != expected && found != open {
            return Err(wrong(found).into());
        }
        match answer.header("content-length").map(str::parse::<u64>) {
            Some(length) if length != Ok(end - first) => Err(wrong("another length").into()),
            _ => Ok(()),
        }
    }

    /// Everything in one answer, from a server that knows no ranges. What breaks off begins anew.
    pub(super) fn whole(
        &self,
        data: &Path,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        let mut failed = 0;
        let by = self.by();
        let in_time = || by.is_none_or(|by| Instant::now() < by);
        loop {
            match self.whole_once(data, by, progress) {
                Err(StoreError::Net(error))
                    if error.may_pass()
                        && in_time()
                        && failed + 1 < self.client.network.retry.tries =>
                {
                    failed += 1;
                    pause(self.client, failed);
                }
                outcome => return outcome,
            }
        }
    }

    fn whole_once(
        &self,
        data: &Path,
        by: Option<Instant>,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        let answer = self
            .client
            .ask(&Method::GET, &self.url, &[], self.credential.as_ref(), by)?
            .ok()?;
        answer.plain()?;
        let host = answer.host();
        let expected = self.size;
        let long = || NetError::Long {
            host: host.clone(),
            expected,
        };
        if let Some(Ok(length)) = answer.header("content-length").map(str::parse::<u64>)
            && length > expected
        {
            return Err(long().into());
        }
        let mut file = OpenOptions::new().write(true).open(data).at(data)?;
        let mut reader = answer.into_reader();
        let mut piece = vec![0; PIECE];
        let mut found = 0;
        loop {
            let n = reader
                .read(&mut piece)
                .map_err(|error| broken(&host, &error))?;
            if n == 0 {
                break;
            }
            found += n as u64;
            if found > expected {
                return Err(long().into());
            }
            file.write_all(&piece[..n]).at(data)?;
            self.step(found).tell(progress)?;
        }
        if found < expected {
            return Err(NetError::Short {
                host,
                expected,
                found,
            }
            .into());
        }
        Ok(())
    }
}
