//! Folders of clients by names that tell nothing of their keys: whoever can list a folder must not be able to try keys
//! against the names in it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use strata_platform::Sha256;

/// The file in a folder with the secret of its names.
const FILE: &str = ".names";

/// Bytes of the secret, and of names.
const SECRET: usize = 32;
const NAME: usize = 16;

/// Names of owners in one folder.
#[derive(Clone)]
pub(crate) struct OwnerNames([u8; SECRET]);

impl OwnerNames {
    /// The names of a folder, which are the same at each start.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let mut secret = [0; SECRET];
        match fs::File::open(&path) {
            Ok(mut file) => file.read_exact(&mut secret)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private_folder(folder)?;
                strata_host::fill_random(&mut secret)?;
                let draft = folder.join(format!("{FILE}.{}", std::process::id()));
                write_private(&draft, &secret)?;
                fs::rename(&draft, &path)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self(secret))
    }

    /// The name of an owner's folder.
    pub(crate) fn name(&self, owner: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(owner.as_bytes());
        let digest = hash.finalize();
        let letters = digest[..NAME].iter().map(|byte| format!("{byte:02x}"));
        letters.collect()
    }
}

/// Creates a folder that only this user can look into.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Writes a file that only this user can read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that is there already may have another mode.
    let _ = fs::remove_file(path);
    let mut options = fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)?.write_all(bytes)
}
