//! Certificates of images that serve by TLS: made here, or by others.

use super::SettingArguments;
use crate::failure::{Failure, Kind};
use crate::pack::keys;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::{Path, PathBuf};
use strata_image::Setting;
use strata_tls::Identity;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// A certificate's path and text.
type File = (PathBuf, String);

/// Settings with a certificate and its key, if clients are to call by TLS; and the file that a new one is to be written
/// to, for clients to trust.
pub(super) fn settings(
    arguments: &SettingArguments,
    output: &Path,
    options: &[Setting],
) -> Result<(Vec<Setting>, Option<File>), Failure> {
    let (identity, seed, file) = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            let seed = keys::signing(key)?.to_seed();
            (read(certificate, seed)?, seed, None)
        }
        _ if arguments.tls => {
            let seed = keys::random()?;
            let identity = Identity::self_signed(seed, &names(options));
            let mut path = output.as_os_str().to_owned();
            path.push(".crt");
            let text = pem(&identity);
            (identity, seed, Some((path.into(), text)))
        }
        _ => return Ok((Vec::new(), None)),
    };
    let certificates = identity.certificates().iter();
    let certificates: Vec<String> = certificates.map(|der| STANDARD.encode(der)).collect();
    let digits: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    let settings = vec![
        ("tls-cert".to_owned(), certificates.join(",")),
        ("tls-key".to_owned(), digits),
    ];
    Ok((settings, file))
}

/// What clients call the machine by.
fn names(options: &[Setting]) -> Vec<&str> {
    let value = |key: &str| {
        let last = options.iter().rev().find(|(name, _)| name == key);
        last.map(|(_, value)| value.as_str())
    };
    let address = value("ip").and_then(|text| text.split('/').next());
    let given = [value("host"), address.filter(|address| *address != "dhcp")];
    let given = given.into_iter().flatten();
    given.chain(["localhost", "127.0.0.1"]).collect()
}

fn read(path: &Path, seed: [u8; 32]) -> Result<Identity, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
    Identity::new(decode(&text).unwrap_or_default(), seed).map_err(|error| {
        let sentence = format_args!("{}: {error}", path.display());
        Failure::new(Kind::Usage, sentence)
            .hint("`openssl req -x509 -newkey ed25519` makes a key and its certificate")
    })
}

/// The certificates of a file's text.
pub(super) fn decode(text: &str) -> Option<Vec<Vec<u8>>> {
    let decode = |part: &str| {
        let (body, _) = part.split_once(END)?;
        let body: String = body.split_ascii_whitespace().collect();
        STANDARD.decode(body).ok()
    };
    text.split(BEGIN).skip(1).map(decode).collect()
}

fn pem(identity: &Identity) -> String {
    let mut text = String::new();
    for der in identity.certificates() {
        let body = STANDARD.encode(der);
        let lines: Vec<&str> = (0..body.len())
            .step_by(64)
            .map(|at| &body[at..body.len().min(at + 64)])
            .collect();
        text += &format!("{BEGIN}\n{}\n{END}\n", lines.join("\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_come_back_from_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.crt");
        let made = Identity::self_signed([3; 32], &["box.example"]);
        std::fs::write(&path, pem(&made)).unwrap();
        let again = read(&path, [3; 32]).ok().unwrap();
        assert_eq!(again.certificates(), made.certificates());
        assert!(read(&path, [4; 32]).is_err());
        std::fs::write(&path, "nothing").unwrap();
        assert!(read(&path, [3; 32]).is_err());
    }

    #[test]
    fn the_machine_is_called_by_all_its_names() {
        let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let given = [
            setting("ip", "10.0.0.5/24,10.0.0.1"),
            setting("host", "box"),
        ];
        assert_eq!(names(&given), ["box", "10.0.0.5", "localhost", "127.0.0.1"]);
        assert_eq!(names(&[setting("ip", "dhcp")]), ["localhost", "127.0.0.1"]);
    }
}
