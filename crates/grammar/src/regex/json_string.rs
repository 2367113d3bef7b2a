//! What a text that an expression matches looks like as a string of JSON.

use super::{Arena, ByteSet, Expr, Node};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// The characters that are escaped, and how. There is one way to write each: no `\u`.
const ESCAPES: [(u8, u8); 5] = [
    (0x08, b'b'),
    (0x0c, b'f'),
    (b'\n', b'n'),
    (b'\r', b'r'),
    (b'\t', b't'),
];

impl Arena {
    /// The strings of JSON, in quotes, whose content an expression matches.
    pub(crate) fn json_string(&mut self, expr: Expr) -> Expr {
        let inner = self.escaped(expr, &mut HashMap::new());
        let quote = self.literal(b"\"");
        self.seq_of(&[quote, inner, quote])
    }

    fn escaped(&mut self, expr: Expr, known: &mut HashMap<Expr, Expr>) -> Expr {
        if let Some(done) = known.get(&expr) {
            return *done;
        }
        let mut all = |arena: &mut Self, parts: &[Expr]| -> Vec<Expr> {
            let parts = parts.iter().map(|part| arena.escaped(*part, known));
            parts.collect()
        };
        let result = match self.node(expr).clone() {
            Node::Nothing | Node::Empty | Node::Multiple(_) => expr,
            Node::Bytes(set) => self.escaped_bytes(set),
            Node::Seq(..) => {
                let mut parts = Vec::new();
                let mut at = expr;
                while let Node::Seq(head, tail) = *self.node(at) {
                    parts.push(head);
                    at = tail;
                }
                parts.push(at);
                let parts = all(self, &parts);
                self.seq_of(&parts)
            }
            Node::Or(parts) => {
                let parts = all(self, &parts);
                self.or(parts)
            }
            Node::And(parts) => {
                let parts = all(self, &parts);
                self.and(parts)
            }
            Node::Not(part) => {
                let part = self.escaped(part, known);
                self.not(part)
            }
            Node::Repeat(part, least, most) => {
                let part = self.escaped(part, known);
                self.repeat(part, least, most)
            }
        };
        known.insert(expr, result);
        result
    }

    fn escaped_bytes(&mut self, set: ByteSet) -> Expr {
        const CONTROL: u64 = 0xffff_ffff;
        const NEWLINE: u64 = 1 << b'\n';
        let control = set.0[0] & CONTROL;
        let special = control != 0 || [b'"', b'\\', 0x7f].iter().any(|byte| set.contains(*byte));
        if !special {
            return self.bytes_of(set);
        }
        let mut letters = ByteSet::EMPTY;
        for (byte, letter) in ESCAPES {
            if set.contains(byte) {
                letters.insert(letter);
            }
        }
        // A set of all control characters is one of all that is escaped.
        if control | NEWLINE == CONTROL {
            letters.insert(b'"');
            letters.insert(b'\\');
        }
        for byte in [b'"', b'\\'] {
            if set.contains(byte) {
                letters.insert(byte);
            }
        }
        let mut plain = set;
        plain.0[0] &= !CONTROL;
        [b'"', b'\\', 0x7f].iter().for_each(|b| plain.remove(*b));
        let backslash = self.literal(b"\\");
        let letters = self.bytes_of(letters);
        let escaped = self.seq(backslash, letters);
        let plain = self.bytes_of(plain);
        self.or(vec![escaped, plain])
    }

    /// Any string of JSON with so many characters.
    pub(crate) fn any_json_string(&mut self, least: u32, most: u32) -> Expr {
        let any = self.any_character();
        let text = self.repeat(any, least, most);
        self.json_string(text)
    }
}
