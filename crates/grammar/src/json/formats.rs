//! The formats of strings that can be held to. Dates and times are written as patterns before a schema comes here
//! ([`crate::schema`]).

use crate::regex::{Arena, ByteSet, ENDLESS, Expr};
use alloc::vec;
use alloc::vec::Vec;

const UNRESERVED: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
const DELIMITERS: &[u8] = b"!$&'()*+,;=";

impl Arena {
    /// The texts of a format, if it is known.
    pub(super) fn format(&mut self, name: &str) -> Option<Expr> {
        Some(match name {
            "duration" => self.duration(),
            "email" => self.email(),
            "hostname" => {
                let label = self.label(61);
                self.separated(label, b".", 0, ENDLESS)
            }
            "ipv4" => self.ipv4(),
            "ipv6" => self.ipv6(),
            "uuid" => self.uuid(),
            "uri" => self.uri(),
            _ => return None,
        })
    }

    fn set(&mut self, parts: &[&[u8]]) -> Expr {
        self.bytes_of(ByteSet::of(&parts.concat()))
    }

    fn alphanumeric(&mut self) -> Expr {
        let mut set = ByteSet::of(UNRESERVED);
        b"-._~".iter().for_each(|byte| set.remove(*byte));
        self.bytes_of(set)
    }

    fn many(&mut self, part: Expr, least: u32) -> Expr {
        self.repeat(part, least, ENDLESS)
    }

    fn perhaps(&mut self, part: Expr) -> Expr {
        self.repeat(part, 0, 1)
    }

    /// A part, and more of it, so many at least and at most, behind a separator each.
    fn separated(&mut self, part: Expr, by: &[u8], least: u32, most: u32) -> Expr {
        let by = self.literal(by);
        let more = self.seq(by, part);
        let more = self.repeat(more, least, most);
        self.seq(part, more)
    }

    /// A number with a unit, and what may follow it.
    fn amount(&mut self, unit: &[u8], more: Expr) -> Expr {
        let digit = self.bytes_of(ByteSet::range(b'0', b'9'));
        let digits = self.many(digit, 1);
        let unit = self.literal(unit);
        let more = self.perhaps(more);
        self.seq_of(&[digits, unit, more])
    }

    /// Amounts of three units, none left out between two others.
    fn amounts(&mut self, units: [&[u8]; 3]) -> Expr {
        let last = self.amount(units[2], Self::EMPTY);
        let middle = self.amount(units[1], last);
        let first = self.amount(units[0], middle);
        self.or(vec![first, middle, last])
    }

    /// RFC 3339, appendix A.
    fn duration(&mut self) -> Expr {
        let date = self.amounts([b"Y", b"M", b"D"]);
        let time = self.amounts([b"H", b"M", b"S"]);
        let t = self.literal(b"T");
        let time = self.seq(t, time);
        let maybe_time = self.perhaps(time);
        let date = self.seq(date, maybe_time);
        let weeks = self.amount(b"W", Self::EMPTY);
        let p = self.literal(b"P");
        let any = self.or(vec![date, time, weeks]);
        self.seq(p, any)
    }

    /// A part of a name of a host, with so many characters between its ends.
    fn label(&mut self, most: u32) -> Expr {
        let end = self.alphanumeric();
        let mut inner = ByteSet::of(UNRESERVED);
        b"._~".iter().for_each(|byte| inner.remove(*byte));
        let inner = self.bytes_of(inner);
        let inner = self.repeat(inner, 0, most);
        let rest = self.seq(inner, end);
        let rest = self.perhaps(rest);
        self.seq(end, rest)
    }

    /// RFC 5321, 4.1.2: a mailbox.
    fn email(&mut self) -> Expr {
        let mut atom = ByteSet::of(UNRESERVED);
        atom.remove(b'.');
        b"!#$%&'*+/=?^`{|}"
            .iter()
            .for_each(|byte| atom.insert(*byte));
        let atom = self.bytes_of(atom);
        let atom = self.many(atom, 1);
        let local = self.separated(atom, b".", 0, ENDLESS);
        let label = self.label(ENDLESS);
        let domain = self.separated(label, b".", 0, ENDLESS);
        let address = self.ipv4();
        let address = self.in_brackets(address);
        let domain = self.or(vec![domain, address]);
        let at = self.literal(b"@");
        self.seq_of(&[local, at, domain])
    }

    fn in_brackets(&mut self, inner: Expr) -> Expr {
        let (open, close) = (self.literal(b"["), self.literal(b"]"));
        self.seq_of(&[open, inner, close])
    }

    fn ipv4(&mut self) -> Expr {
        let byte = self.naturals(0, 255);
        self.separated(byte, b".", 3, 3)
    }

    fn hex(&mut self, least: u32, most: u32) -> Expr {
        let digit = self.set(&[b"0123456789abcdefABCDEF"]);
        self.repeat(digit, least, most)
    }

    /// RFC 4291, 2.2: eight groups, or fewer around a pair of colons.
    fn ipv6(&mut self) -> Expr {
        const GROUPS: u32 = 8;
        let group = self.hex(1, 4);
        let gap = self.literal(b"::");
        let mut forms = vec![self.separated(group, b":", GROUPS - 1, GROUPS - 1)];
        for after in 0..GROUPS {
            let before = match GROUPS - 1 - after {
                0 => Self::EMPTY,
                most => {
                    let before = self.separated(group, b":", 0, most - 1);
                    self.perhaps(before)
                }
            };
            let after = match after {
                0 => Self::EMPTY,
                count => self.separated(group, b":", count - 1, count - 1),
            };
            forms.push(self.seq_of(&[before, gap, after]));
        }
        self.or(forms)
    }

    fn uuid(&mut self) -> Expr {
        let dash = self.literal(b"-");
        let mut parts = Vec::new();
        for digits in [8, 4, 4, 4, 12] {
            if !parts.is_empty() {
                parts.push(dash);
            }
            parts.push(self.hex(digits, digits));
        }
        self.seq_of(&parts)
    }

    /// Characters of a set, or bytes spelled with a percent sign.
    fn encoded(&mut self, more: &[u8]) -> Expr {
        let plain = self.set(&[UNRESERVED, DELIMITERS, more]);
        let percent = self.literal(b"%");
        let byte = self.hex(2, 2);
        let byte = self.seq(percent, byte);
        self.or(vec![plain, byte])
    }

    /// RFC 3986, appendix A.
    fn uri(&mut self) -> Expr {
        let letter = self.bytes_of(ByteSet::of(&UNRESERVED[..52]));
        let scheme = self.set(&[&UNRESERVED[..62], b"+-."]);
        let scheme = self.many(scheme, 0);
        let colon = self.literal(b":");
        let scheme = self.seq_of(&[letter, scheme, colon]);

        let user = self.encoded(b":");
        let user = self.many(user, 0);
        let at = self.literal(b"@");
        let user = self.seq(user, at);
        let user = self.perhaps(user);
        let address = self.ipv6();
        let v = self.literal(b"v");
        let version = self.hex(1, ENDLESS);
        let point = self.literal(b".");
        let future = self.set(&[UNRESERVED, DELIMITERS, b":"]);
        let future = self.many(future, 1);
        let future = self.seq_of(&[v, version, point, future]);
        let address = self.or(vec![address, future]);
        let address = self.in_brackets(address);
        let name = self.encoded(b"");
        let name = self.many(name, 0);
        let host = self.or(vec![address, name]);
        let digit = self.bytes_of(ByteSet::range(b'0', b'9'));
        let port = self.many(digit, 0);
        let port = self.seq(colon, port);
        let port = self.perhaps(port);

        let character = self.encoded(b":@");
        let slash = self.literal(b"/");
        let segment = self.many(character, 0);
        let segment = self.seq(slash, segment);
        let segments = self.many(segment, 0);
        let first = self.many(character, 1);
        let rootless = self.seq(first, segments);
        let absolute = self.perhaps(rootless);
        let absolute = self.seq(slash, absolute);
        let slashes = self.literal(b"//");
        let with_host = self.seq_of(&[slashes, user, host, port, segments]);
        let path = self.or(vec![with_host, absolute, rootless, Self::EMPTY]);

        let rest = self.encoded(b":@/?");
        let rest = self.many(rest, 0);
        let mark = self.literal(b"?");
        let query = self.seq(mark, rest);
        let query = self.perhaps(query);
        let mark = self.literal(b"#");
        let fragment = self.seq(mark, rest);
        let fragment = self.perhaps(fragment);
        self.seq_of(&[scheme, path, query, fragment])
    }
}
