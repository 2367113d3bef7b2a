//! Keys in files.

use crate::failure::{Failure, Kind};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use strata_pack::{PublicKey, SigningKey};

/// A private key, of which only its owner may know.
pub(crate) fn signing(path: &Path) -> Result<SigningKey, Failure> {
    SigningKey::from_pem(&text(path)?).map_err(|error| {
        let sentence = format_args!("{}: {error}", path.display());
        Failure::new(Kind::Usage, sentence).hint("`strata pack --new-key FILE` writes one")
    })
}

/// A public key.
pub(super) fn public(path: &Path) -> Result<PublicKey, Failure> {
    PublicKey::from_pem(&text(path)?).map_err(|error| {
        let sentence = format_args!("{}: {error}", path.display());
        Failure::new(Kind::Usage, sentence).hint("name the file that ends in .pub")
    })
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))
}

/// What a key is made of.
pub(crate) fn random() -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    strata_host::fill_random(&mut seed)
        .map_err(|error| Failure::io("the system's random bytes", &error))?;
    Ok(seed)
}

/// Writes a new private key and its public key. Files that are there are left alone.
pub(super) fn create(path: &Path) -> Result<(), Failure> {
    let key = SigningKey::from_seed(random()?);
    let mut beside = path.as_os_str().to_owned();
    beside.push(".pub");
    let beside = PathBuf::from(beside);
    write(path, Readers::Owner, &key.to_pem())?;
    write(&beside, Readers::All, &key.public().to_pem())?;
    println!("{} signs; {} checks", path.display(), beside.display());
    Ok(())
}

/// Who may read a file. On Windows the folder that it is in says so.
enum Readers {
    Owner,
    All,
}

#[cfg_attr(
    not(unix),
    allow(unused_variables, reason = "the folder says who may read")
)]
fn write(path: &Path, readers: Readers, text: &str) -> Result<(), Failure> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(match readers {
            Readers::Owner => 0o600,
            Readers::All => 0o644,
        });
    }
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::io(path.display(), &error))
}
