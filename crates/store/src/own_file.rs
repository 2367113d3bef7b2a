//! Files that are the store's own: regular ones. A link could lead anywhere, and its target be shown as a licence or be
//! overwritten by a download; a pipe could keep whoever opens it waiting.

use crate::error::{At, StoreError};
use std::fs::{self, File, OpenOptions};
use std::path::Path;

/// The length of the regular file at `path`; `None` if there is none.
pub(crate) fn len(path: &Path) -> Option<u64> {
    let meta = fs::symlink_metadata(path).ok()?;
    meta.is_file().then_some(meta.len())
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    open_with(File::options().read(true), path)
}

/// Opens a file for writing, and makes it if there is none; what is in it stays.
pub(crate) fn open_for_writing(path: &Path) -> Result<File, StoreError> {
    let mut options = File::options();
    open_with(options.create(true).truncate(false).write(true), path)
}

fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File, StoreError> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    #[cfg(windows)]
    {
        // Opens a link itself, which is no regular file.
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        use std::os::windows::fs::OpenOptionsExt;
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    }
    let is_other = || fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file());
    match options.open(path) {
        Err(_) if is_other() => Err(StoreError::NotAFile(path.into())),
        opened => {
            let file = opened.at(path)?;
            if file.metadata().at(path)?.is_file() {
                Ok(file)
            } else {
                Err(StoreError::NotAFile(path.into()))
            }
        }
    }
}
