//! DER (ITU-T X.690), as far as signatures and certificates need it.

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const OCTETS: u8 = 4;
const INTEGER: u8 = 2;
const OID: u8 = 6;
/// Fields that are told apart by a number: 0 and 2 around other values, and 0 with plain bytes.
pub(crate) const FIRST: u8 = 0xa0;
pub(crate) const THIRD: u8 = 0xa2;
pub(crate) const FIRST_PLAIN: u8 = 0x80;
pub(crate) const NULL: [u8; 2] = [5, 0];
pub(crate) const ONE: [u8; 3] = [INTEGER, 1, 1];

/// A value of pieces that follow one another.
pub(crate) fn tagged(tag: u8, pieces: &[&[u8]]) -> Vec<u8> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut out = vec![tag];
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let bytes = &bytes[len.leading_zeros() as usize / 8..];
        out.push(0x80 | bytes.len() as u8);
        out.extend(bytes);
    }
    pieces.iter().for_each(|piece| out.extend(*piece));
    out
}

pub(crate) fn sequence(pieces: &[&[u8]]) -> Vec<u8> {
    tagged(SEQUENCE, pieces)
}

pub(crate) fn oid(bytes: &[u8]) -> Vec<u8> {
    tagged(OID, &[bytes])
}

/// Takes a value off the front: its tag, the whole of it, what is in it.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8], &'a [u8])> {
    let (tag, first) = (*bytes.first()?, *bytes.get(1)?);
    let digits = usize::from(first & 0x7f);
    let (head, len) = if first < 0x80 {
        (2, usize::from(first))
    } else if (1..=4).contains(&digits) {
        let digits = bytes.get(2..2 + digits)?;
        let len = digits
            .iter()
            .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        (2 + digits.len(), len)
    } else {
        return None;
    };
    let whole = bytes.get(..head.checked_add(len)?)?;
    *bytes = &bytes[whole.len()..];
    Some((tag, whole, &whole[head..]))
}

/// What a signature says of an X.509 certificate (RFC 5280).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// Its number, encoded.
    pub(crate) serial: &'a [u8],
    /// Who made it, encoded.
    pub(crate) issuer: &'a [u8],
    /// The key that it is about: a SubjectPublicKeyInfo.
    pub public_key: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads a certificate.
    pub fn parse(mut bytes: &'a [u8]) -> Option<Self> {
        let (SEQUENCE, _, mut inner) = take(&mut bytes)? else {
            return None;
        };
        let (SEQUENCE, _, mut fields) = take(&mut inner)? else {
            return None;
        };
        let mut next = take(&mut fields)?;
        // The version.
        if next.0 == FIRST {
            next = take(&mut fields)?;
        }
        let (INTEGER, serial, _) = next else {
            return None;
        };
        let (_, _, _) = take(&mut fields)?;
        let (_, issuer, _) = take(&mut fields)?;
        let (_, _, _) = take(&mut fields)?;
        let (_, _, _) = take(&mut fields)?;
        let (SEQUENCE, public_key, _) = take(&mut fields)? else {
            return None;
        };
        Some(Self {
            serial,
            issuer,
            public_key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_as_many_bytes_as_they_need() {
        assert_eq!(tagged(4, &[&[1, 2], &[3]]), [4, 3, 1, 2, 3]);
        assert_eq!(tagged(4, &[&[0; 0x80]])[..3], [4, 0x81, 0x80]);
        assert_eq!(tagged(4, &[&[0; 0x1234]])[..4], [4, 0x82, 0x12, 0x34]);
    }

    #[test]
    fn a_certificate_is_read_and_damaged_ones_do_no_harm() {
        let name = sequence(&[&oid(&[1])]);
        let key = sequence(&[&oid(&[2]), &[3, 2, 0, 9]]);
        let version = tagged(FIRST, &[&ONE]);
        let serial = tagged(INTEGER, &[&[7; 20]]);
        let body = sequence(&[&version, &serial, &name, &name, &name, &name, &key]);
        let whole = sequence(&[&body, &name, &[3, 1, 0]]);
        let read = Certificate::parse(&whole).unwrap();
        assert_eq!((read.serial, read.issuer), (&serial[..], &name[..]));
        assert_eq!(read.public_key, key);
        for at in 0..whole.len() {
            assert_eq!(Certificate::parse(&whole[..at]), None);
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut bad = whole.clone();
                bad[at] = value;
                Certificate::parse(&bad);
            }
        }
    }
}
