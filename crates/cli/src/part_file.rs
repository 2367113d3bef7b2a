//! Files that appear under their name only when they are whole.

use crate::progress;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use strata_convert::WriteFailure;

/// Writes `length` bytes beside the file and gives it its name when they are on the disk.
pub(crate) fn write(
    path: &Path,
    length: u64,
    doing: &str,
    fill: impl FnOnce(&mut BufWriter<&File>, &ProgressBar) -> Result<(), WriteFailure<io::Error>>,
) -> Result<(), WriteFailure<io::Error>> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let file = File::create(&part).map_err(WriteFailure::Sink)?;
    let bar = progress::bar(
        length,
        &format!("{doing} {{wide_bar}} {{decimal_bytes}}/{{decimal_total_bytes}} {{eta}}"),
    );
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    let written = fill(&mut out, &bar)
        .and_then(|()| out.flush().map_err(WriteFailure::Sink))
        .and_then(|()| file.sync_all().map_err(WriteFailure::Sink))
        .and_then(|()| std::fs::rename(&part, path).map_err(WriteFailure::Sink));
    // What is still buffered after a failure is not to be tried again.
    drop(out.into_parts());
    bar.finish_and_clear();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_neither_the_file_nor_its_part() {
        let folder = std::env::temp_dir().join(format!("strata-part-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        let full = || WriteFailure::Sink(io::Error::from(io::ErrorKind::StorageFull));
        let failed = write(&path, 4, "writing", |out, _| {
            out.write_all(b"half").map_err(WriteFailure::Sink)?;
            Err(full())
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let whole = write(&path, 4, "writing", |out, _| {
            out.write_all(b"all!").map_err(WriteFailure::Sink)
        });
        assert!(whole.is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"all!");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
