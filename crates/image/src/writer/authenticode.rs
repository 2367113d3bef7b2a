//! Authenticode signatures of EFI applications, which Secure Boot checks: a PKCS #7 message (RFC 2315) behind the program
//! that holds the digest of everything but itself. The format is in Microsoft's "Windows Authenticode Portable Executable
//! Signature Format", what is checked in the UEFI specification, section 32.2.4.

use super::der::{self, Certificate};
use crate::{ImageError, Layout};
use std::io::{self, Write};
use std::ops::Range;
use strata_platform::Sha256;

/// Offsets in a PE32+ optional header.
const CHECKSUM: usize = 64;
const CERTIFICATE_TABLE: usize = 112 + 4 * 8;

/// Object identifiers, encoded.
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2];
const CONTENT_TYPE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 3];
const MESSAGE_DIGEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 4];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const SHA_256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
const INDIRECT_DATA: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 1, 4];
const PE_IMAGE_DATA: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 1, 15];

/// Who signs a program for Secure Boot.
pub struct ProgramSigner<'a> {
    /// The X.509 certificate, as DER.
    pub certificate: &'a [u8],
    /// Signs a message by RSA (PKCS #1 v1.5) over its SHA-256.
    pub sign: &'a dyn Fn(&[u8]) -> Vec<u8>,
}

/// Puts a signature behind an EFI application whose headers are in `head`; `body` is all of it, headers included.
pub(crate) fn sign(
    head: &mut [u8],
    body: &Layout<'_>,
    optional_header: usize,
    signer: &ProgramSigner<'_>,
) -> Result<Vec<u8>, ImageError> {
    let certificate = Certificate::parse(signer.certificate).ok_or(ImageError::Certificate)?;
    let table = optional_header + CERTIFICATE_TABLE;
    let checksum = optional_header + CHECKSUM;
    let mut hashed = Hashed {
        sum: Sha256::new(),
        at: 0,
        skipped: [checksum..checksum + 4, table..table + 8],
    };
    // A digest takes everything.
    let _ = body.write_to(&mut hashed);
    let message = message(&hashed.sum.finalize(), &certificate, signer);
    // WIN_CERTIFICATE: length, revision 2.0, PKCS #7.
    let mut out = ((8 + message.len()) as u32).to_le_bytes().to_vec();
    out.extend([0, 2, 2, 0]);
    out.extend(message);
    out.resize(out.len().next_multiple_of(8), 0);
    let place = [body.len() as u32, out.len() as u32];
    super::elf::set(head, table, &place.map(u32::to_le_bytes).concat());
    Ok(out)
}

/// A digest of a file without what signing changes.
struct Hashed {
    sum: Sha256,
    at: usize,
    skipped: [Range<usize>; 2],
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = self.at + bytes.len();
        let mut from = self.at;
        for skipped in &self.skipped {
            if skipped.end <= from || skipped.start >= end {
                continue;
            }
            let until = skipped.start.max(from);
            self.sum.update(&bytes[from - self.at..until - self.at]);
            from = skipped.end.min(end);
        }
        self.sum.update(&bytes[from - self.at..]);
        self.at = end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn message(digest: &[u8], certificate: &Certificate<'_>, signer: &ProgramSigner<'_>) -> Vec<u8> {
    let sha_256 = der::sequence(&[&der::oid(SHA_256), &der::NULL]);
    let rsa = der::sequence(&[&der::oid(RSA), &der::NULL]);
    let indirect = der::oid(INDIRECT_DATA);
    let content = [pe_image(), digest_info(&sha_256, digest)].concat();

    let attribute =
        |name, value: &[u8]| der::sequence(&[&der::oid(name), &der::tagged(der::SET, &[value])]);
    let sum = der::tagged(der::OCTETS, &[&Sha256::digest(&content)]);
    let attributes = [
        attribute(CONTENT_TYPE, &indirect),
        attribute(MESSAGE_DIGEST, &sum),
    ]
    .concat();
    // What is signed calls them a set, what is sent gives them a number.
    let signature = (signer.sign)(&der::tagged(der::SET, &[&attributes]));
    let signer_info = der::sequence(&[
        &der::ONE,
        &der::sequence(&[certificate.issuer, certificate.serial]),
        &sha_256,
        &der::tagged(der::FIRST, &[&attributes]),
        &rsa,
        &der::tagged(der::OCTETS, &[&signature]),
    ]);
    let content = der::tagged(der::FIRST, &[&der::sequence(&[&content])]);
    let signed = der::sequence(&[
        &der::ONE,
        &der::tagged(der::SET, &[&sha_256]),
        &der::sequence(&[&indirect, &content]),
        &der::tagged(der::FIRST, &[signer.certificate]),
        &der::tagged(der::SET, &[&signer_info]),
    ]);
    der::sequence(&[&der::oid(SIGNED_DATA), &der::tagged(der::FIRST, &[&signed])])
}

/// SpcAttributeTypeAndOptionalValue of a PE image: no flags, and a link that is never followed.
fn pe_image() -> Vec<u8> {
    let text: Vec<u8> = "<<<Obsolete>>>"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    let text = der::tagged(der::FIRST_PLAIN, &[&text]);
    let link = der::tagged(der::FIRST, &[&der::tagged(der::THIRD, &[&text])]);
    let flags = [3, 1, 0];
    der::sequence(&[&der::oid(PE_IMAGE_DATA), &der::sequence(&[&flags, &link])])
}

fn digest_info(algorithm: &[u8], digest: &[u8]) -> Vec<u8> {
    der::sequence(&[algorithm, &der::tagged(der::OCTETS, &[digest])])
}
