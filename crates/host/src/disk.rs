//! How fast a file is read from its disk: what loading a model for the first time takes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

/// What reads around the page cache must be aligned to.
const ALIGNMENT: usize = 4096;
const STEP: usize = 4 << 20;

/// How fast a file was read.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ReadSpeed {
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Whether the file came from the system's page cache, because its file system reads no other way: then this is no
    /// speed of a disk.
    pub cached: bool,
}

/// Reads a file from its beginning for at most `time`, past the page cache where that can be.
pub fn read_speed(path: &Path, time: Duration) -> io::Result<ReadSpeed> {
    match direct(path) {
        // Some file systems take the flag and refuse the reads.
        Ok(file) => match measure(file, time) {
            Ok(bytes_per_second) => Ok(ReadSpeed {
                bytes_per_second,
                cached: false,
            }),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => plain(path, time),
            Err(error) => Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => plain(path, time),
        Err(error) => Err(error),
    }
}

fn plain(path: &Path, time: Duration) -> io::Result<ReadSpeed> {
    Ok(ReadSpeed {
        bytes_per_second: measure(File::open(path)?, time)?,
        cached: true,
    })
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT).open(path)
}

#[cfg(windows)]
fn direct(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_NO_BUFFERING;
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(FILE_FLAG_NO_BUFFERING)
        .open(path)
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
fn direct(path: &Path) -> io::Result<File> {
    use std::os::fd::AsRawFd;
    let file = OpenOptions::new().read(true).open(path)?;
    // SAFETY: the descriptor is open; this sets a flag of it. What is in the cache already is still read from there.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_NOCACHE, 1) } {
        -1 => Err(io::ErrorKind::InvalidInput.into()),
        _ => Ok(file),
    }
}

#[cfg(not(any(
    target_os = "android",
    target_os = "linux",
    target_os = "macos",
    windows
)))]
fn direct(_: &Path) -> io::Result<File> {
    let _ = OpenOptions::new();
    Err(io::ErrorKind::InvalidInput.into())
}

fn measure(mut file: File, time: Duration) -> io::Result<f64> {
    let mut buffer = vec![0; STEP + ALIGNMENT];
    let misfit = buffer.as_ptr().addr() % ALIGNMENT;
    let buffer = &mut buffer[(ALIGNMENT - misfit) % ALIGNMENT..][..STEP];
    file.seek(SeekFrom::Start(0))?;
    let (start, mut total) = (Instant::now(), 0u64);
    loop {
        let read = file.read(buffer)?;
        total += read as u64;
        // A read that ends in the middle of a block was the last.
        if read == 0 || read % ALIGNMENT != 0 || start.elapsed() >= time {
            let seconds = start.elapsed().as_secs_f64();
            return Ok(total as f64 / seconds.max(f64::MIN_POSITIVE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_is_read_at_some_speed() {
        let path = std::env::temp_dir().join(format!("strata-speed-{}", std::process::id()));
        for bytes in [ALIGNMENT - 1, 3 * STEP + 17] {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            let speed = read_speed(&path, Duration::from_millis(50)).unwrap();
            assert!(speed.bytes_per_second > 0.0, "{speed:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read_speed(&path, Duration::ZERO).is_err());
    }
}
