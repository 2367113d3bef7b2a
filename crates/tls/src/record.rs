//! Records that are sealed (RFC 8446, section 5.2), in one direction.

use crate::TlsError;
use crate::hkdf::{Secret, expand_label};
use alloc::vec::Vec;
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Tag};

pub(crate) const CHANGE_CIPHER: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const DATA: u8 = 23;
/// Bytes that a record holds at most, and by how much sealing makes it longer at most.
pub(crate) const LARGEST: usize = 1 << 14;
pub(crate) const OVERHEAD: usize = 256;
pub(crate) const HEADER: usize = 5;
const TAG: usize = 16;

/// The header of a record.
pub(crate) fn header(kind: u8, bytes: usize) -> [u8; HEADER] {
    let [high, low] = (bytes as u16).to_be_bytes();
    [kind, 3, 3, high, low]
}

/// A key and the number of the next record.
pub(crate) struct Direction {
    secret: Secret,
    cipher: ChaCha20Poly1305,
    iv: [u8; 12],
    number: u64,
}

impl Direction {
    pub(crate) fn new(secret: Secret) -> Self {
        let key: [u8; 32] = expand_label(&secret, "key", &[]);
        Self {
            cipher: ChaCha20Poly1305::new(&key.into()),
            iv: expand_label(&secret, "iv", &[]),
            number: 0,
            secret,
        }
    }

    /// The same direction with the next key.
    pub(crate) fn updated(&self) -> Self {
        Self::new(expand_label(&self.secret, "traffic upd", &[]))
    }

    fn nonce(&mut self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= number;
        }
        // At a million records a second this takes half a million years.
        self.number += 1;
        nonce
    }

    /// Seals bytes, a record's worth at most, and adds the record to what is sent.
    pub(crate) fn seal(&mut self, kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
        let header = header(DATA, bytes.len() + 1 + TAG);
        out.extend(header);
        let from = out.len();
        out.extend(bytes);
        out.push(kind);
        let nonce = self.nonce();
        let sealed =
            self.cipher
                .encrypt_in_place_detached(&nonce.into(), &header, &mut out[from..]);
        match sealed {
            Ok(tag) => out.extend(tag),
            // A record is far shorter than what the cipher takes.
            Err(_) => out.truncate(from - HEADER),
        }
    }

    /// Opens a record: what it is, and what it holds.
    pub(crate) fn open<'r>(
        &mut self,
        header: [u8; HEADER],
        record: &'r mut [u8],
    ) -> Result<(u8, &'r [u8]), TlsError> {
        let nonce = self.nonce();
        let split = record.len().checked_sub(TAG).ok_or(TlsError::Changed)?;
        let (bytes, tag) = record.split_at_mut(split);
        self.cipher
            .decrypt_in_place_detached(&nonce.into(), &header, bytes, Tag::from_slice(tag))
            .map_err(|_| TlsError::Changed)?;
        // Zeros may follow the type.
        let end = bytes.iter().rposition(|&byte| byte != 0);
        let end = end.ok_or(TlsError::Unexpected { kind: 0 })?;
        if end > LARGEST {
            return Err(TlsError::TooLong { bytes: end });
        }
        Ok((bytes[end], &bytes[..end]))
    }
}
