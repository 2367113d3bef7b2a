//! Keys and certificates for Secure Boot: RSA, which is what firmware checks.

use super::certificate;
use crate::failure::{Failure, Kind};
use rustls::SignatureScheme::RSA_PKCS1_SHA256;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use std::path::Path;
use std::sync::Arc;
use strata_image::Certificate;

const HOW: &str = "`openssl req -x509 -newkey rsa:2048 -nodes -keyout KEY -out CERT -subj /CN=maker` makes a key and its \
     certificate";

/// An RSA key and its certificate.
pub(super) struct ProgramKey {
    key: Arc<dyn SigningKey>,
    pub(super) certificate: Vec<u8>,
}

/// Whether a file holds a key for Secure Boot and not one for settings.
pub(super) fn is_program_key(path: &Path) -> bool {
    read(path).is_some()
}

fn read(path: &Path) -> Option<Arc<dyn SigningKey>> {
    let key = PrivateKeyDer::from_pem_file(path).ok()?;
    let key = any_supported_type(&key).ok()?;
    key.choose_scheme(&[RSA_PKCS1_SHA256])?;
    Some(key)
}

impl ProgramKey {
    /// Reads both, and sees that they belong together.
    pub(super) fn open(key: &Path, certificate: &Path) -> Result<Self, Failure> {
        let fails = |path: &Path, what: &str| {
            let sentence = format_args!("{}: {what}", path.display());
            Failure::new(Kind::Usage, sentence).hint(HOW)
        };
        let signing = read(key).ok_or_else(|| fails(key, "no RSA private key in PEM"))?;
        let text = std::fs::read_to_string(certificate)
            .map_err(|error| Failure::io(certificate.display(), &error))?;
        let der = certificate::decode(&text).and_then(|all| all.into_iter().next());
        let der = der.ok_or_else(|| fails(certificate, "no certificate in PEM"))?;
        let read = Certificate::parse(&der);
        let read = read.ok_or_else(|| fails(certificate, "no X.509 certificate"))?;
        let public = signing.public_key();
        if public.is_none_or(|public| public.as_ref() != read.public_key) {
            let what = format!("not the certificate of the key {}", key.display());
            return Err(fails(certificate, &what));
        }
        Ok(Self {
            key: signing,
            certificate: der,
        })
    }

    /// The signature of a message.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        let signer = self.key.choose_scheme(&[RSA_PKCS1_SHA256]);
        let signed = signer.and_then(|signer| signer.sign(message).ok());
        signed.ok_or_else(|| Failure::new(Kind::Failed, "signing for Secure Boot failed"))
    }
}
