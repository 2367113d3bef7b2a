//! What a client says first (RFC 8446, section 4.1.2).

use crate::TlsError;

pub(crate) const SUITE: u16 = 0x1303;
pub(crate) const X25519: u16 = 29;
pub(crate) const ED25519: u16 = 0x0807;
pub(crate) const VERSION: u16 = 0x0304;
pub(crate) const HTTP: &[u8] = b"http/1.1";

/// Bytes, read from the front.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], TlsError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(TlsError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, TlsError> {
        let taken = self.take(bytes)?.iter();
        Ok(taken.fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
    }

    /// Bytes with their length in front, which has so many bytes.
    fn list(&mut self, bytes: usize) -> Result<Self, TlsError> {
        let len = self.number(bytes)?;
        self.take(len).map(Reader)
    }
}

/// Whether a list of numbers of two bytes has this one.
fn has(mut list: Reader<'_>, wanted: u16) -> Result<bool, TlsError> {
    let mut found = false;
    while !list.0.is_empty() {
        found |= list.number(2)? == usize::from(wanted);
    }
    Ok(found)
}

/// What matters of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHello<'a> {
    /// To be said again.
    pub(crate) session: &'a [u8],
    pub(crate) share: Option<[u8; 32]>,
    /// Whether it asked for the one protocol that there is.
    pub(crate) asks_http: bool,
    suite: bool,
    version: bool,
    group: bool,
    signature: bool,
}

impl<'a> ClientHello<'a> {
    /// Reads the message without its header.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, TlsError> {
        let mut message = Reader(message);
        let mut hello = Self::default();
        message.take(2 + 32)?;
        hello.session = message.list(1)?.0;
        if hello.session.len() > 32 {
            return Err(TlsError::Malformed);
        }
        hello.suite = has(message.list(2)?, SUITE)?;
        message.list(1)?;
        if message.0.is_empty() {
            return Err(TlsError::Version);
        }
        let mut extensions = message.list(2)?;
        if !message.0.is_empty() {
            return Err(TlsError::Malformed);
        }
        while !extensions.0.is_empty() {
            let kind = extensions.number(2)?;
            hello.extension(kind, extensions.list(2)?)?;
        }
        hello.check()?;
        Ok(hello)
    }

    fn extension(&mut self, kind: usize, mut data: Reader<'a>) -> Result<(), TlsError> {
        match kind {
            10 => self.group = has(data.list(2)?, X25519)?,
            13 => self.signature = has(data.list(2)?, ED25519)?,
            16 => {
                let mut names = data.list(2)?;
                while !names.0.is_empty() {
                    self.asks_http |= names.list(1)?.0 == HTTP;
                }
            }
            43 => self.version = has(data.list(1)?, VERSION)?,
            51 => {
                let mut shares = data.list(2)?;
                while !shares.0.is_empty() {
                    let group = shares.number(2)?;
                    let share = shares.list(2)?.0;
                    if group == usize::from(X25519) {
                        let share = share.try_into().map_err(|_| TlsError::Malformed)?;
                        self.share = Some(share);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TlsError> {
        if !self.version {
            return Err(TlsError::Version);
        }
        let missing = [
            ("cipher suite", self.suite),
            ("group", self.group),
            ("kind of signature", self.signature),
        ];
        match missing.into_iter().find(|(_, there)| !there) {
            Some((what, _)) => Err(TlsError::Nothing { what }),
            None => Ok(()),
        }
    }
}
