//! Tests of mapped files.

use super::*;
use crate::PageReport;
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

const MB: usize = 1 << 20;

/// A file that goes away with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("strata-mapped-{name}-{}", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        std::fs::write(&file.0, bytes).unwrap();
        file
    }

    fn open(&self) -> MappedFile {
        MappedFile::open(&self.0).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 1000) as u8).collect()
}

fn resident(bytes: &[u8]) -> Option<u64> {
    PageReport::of(bytes).map(|report| report.resident_bytes)
}

#[test]
fn bytes_are_the_files() {
    for len in [0, 1, 4095, 4096, 100_000] {
        let bytes = pattern(len);
        let file = Temporary::new(&format!("bytes-{len}"), &bytes);
        let mapped = file.open();
        mapped.advise_sequential();
        assert_eq!(mapped.bytes(), bytes);
    }
}

#[test]
fn a_part_is_mapped_alone() {
    let bytes = pattern(MB);
    let file = Temporary::new("part", &bytes);
    for range in [0..1, 0..MB, 65_536..65_537, 65_536..MB, 100..70_000] {
        let part = MappedFile::open_range(&file.0, range.start as u64..range.end as u64).unwrap();
        assert!(part.bytes() == &bytes[range.clone()], "{range:?}");
        part.advise_sequential();
        part.will_need(part.bytes());
        part.done_with(part.bytes());
        assert!(part.bytes() == &bytes[range.clone()], "{range:?}");
    }
    let (past, end) = (MB as u64 + 1, u64::MAX);
    #[expect(clippy::reversed_empty_ranges, reason = "a mistake to be refused")]
    for range in [0..past, past..past + 1, 0..end, 5..4] {
        let refused = MappedFile::open_range(&file.0, range.clone()).err();
        let refused = refused.unwrap_or_else(|| panic!("{range:?}"));
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn what_is_not_a_regular_file_is_refused() {
    let folder = MappedFile::open(&std::env::temp_dir()).err().unwrap();
    assert_eq!(folder.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(folder.to_string(), "it is not a regular file");
    let missing = std::env::temp_dir().join("strata-mapped-that-is-not-there");
    let missing = MappedFile::open(&missing).err().unwrap();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    #[cfg(unix)]
    {
        let device = MappedFile::open(Path::new("/dev/zero")).err().unwrap();
        assert_eq!(device.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let pipe = Temporary::new("pipe", &[]);
    std::fs::remove_file(&pipe.0).unwrap();
    let name = std::ffi::CString::new(pipe.0.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let error = MappedFile::open(&pipe.0).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn advice_never_changes_what_is_read() {
    let bytes = pattern(3 * MB + 123);
    let file = Temporary::new("advice", &bytes);
    let mapped = file.open();
    for range in [
        0..1,
        0..4096,
        4095..4097,
        5000..MB,
        MB - 1..3 * MB,
        7..7,
        3 * MB..bytes.len(),
        0..bytes.len(),
    ] {
        let part = &mapped.bytes()[range.clone()];
        mapped.will_need(part);
        mapped.done_with(part);
        mapped.done_with(part);
        mapped.will_need(part);
        assert!(mapped.bytes() == bytes, "{range:?}");
    }
}

#[test]
fn other_peoples_bytes_are_left_alone() {
    let file = Temporary::new("others", &pattern(2 * MB));
    let second = Temporary::new("others-second", &pattern(MB));
    let files = MappedFiles(vec![file.open(), second.open()]);
    let ours = pattern(4 * MB);
    files.will_need(&ours);
    files.done_with(&ours);
    assert!(ours == pattern(4 * MB));
    let empty = Temporary::new("others-empty", &[]).open();
    empty.done_with(empty.bytes());
    empty.will_need(&ours);
    empty.done_with(&ours);
    assert!(ours == pattern(4 * MB));
}

#[test]
fn ranges_released_in_turn_leave_nothing_behind() {
    let bytes = pattern(5 * MB + 77);
    let file = Temporary::new("release", &bytes);
    let files = MappedFiles(vec![file.open()]);
    let mapped = files.0[0].bytes();
    assert!(mapped == bytes);
    let Some(before) = resident(mapped) else {
        return eprintln!("skipped: this system does not report its pages");
    };
    assert!(before >= 5 * MB as u64);
    let (mut start, mut len) = (0, 1000);
    while start < mapped.len() {
        let end = mapped.len().min(start + len);
        files.done_with(&mapped[start..end]);
        (start, len) = (end, len * 2 + 1);
    }
    assert_eq!(resident(mapped), Some(0));
    assert!(mapped == bytes);
}

#[test]
#[cfg(target_os = "linux")]
fn releasing_keeps_the_bytes_of_the_next_range() {
    let file = Temporary::new("next", &pattern(MB));
    let mapped = file.open();
    assert!(mapped.bytes() == pattern(MB));
    let Some(before) = resident(mapped.bytes()) else {
        return eprintln!("skipped: this system does not report its pages");
    };
    let page = page_size();
    mapped.done_with(&mapped.bytes()[page - 1..page + 1]);
    mapped.done_with(&mapped.bytes()[2 * page..3 * page - 1]);
    assert_eq!(resident(mapped.bytes()), Some(before - page as u64));
}

#[test]
#[cfg(target_os = "linux")]
fn bytes_that_will_be_needed_come_without_being_touched() {
    let file = Temporary::new("fetch", &pattern(20 * MB));
    let mapped = file.open();
    if resident(mapped.bytes()).is_none() {
        return eprintln!("skipped: this system does not report its pages");
    }
    // Kernels before 5.14 only read it into their cache.
    if mapped
        .bytes
        .advise_range(memmap2::Advice::PopulateRead, 0, 1)
        .is_err()
    {
        return eprintln!("skipped: this system cannot fault in a range");
    }
    mapped.will_need(&mapped.bytes()[MB..]);
    let start = Instant::now();
    while resident(mapped.bytes()).unwrap() < 19 * MB as u64 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "nothing was read ahead"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_cut_short_is_known_to_be_damaged() {
    let path = std::env::temp_dir().join(format!("strata-cut-{}", std::process::id()));
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let (cut, whole) = (
        MappedFile::open(&path).unwrap(),
        MappedFile::open(&path).unwrap(),
    );
    assert_eq!(cut.bytes()[1 << 19], 7);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5000)
        .unwrap();
    assert!(cut.is_intact());
    assert_eq!((cut.bytes()[100], cut.bytes()[1 << 19]), (7, 0));
    assert_eq!(cut.bytes()[(1 << 20) - 1], 0);
    assert!(!cut.is_intact() && whole.is_intact());
    drop(cut);
    assert_eq!(whole.bytes()[1 << 18], 0);
    std::fs::remove_file(&path).unwrap();
}
