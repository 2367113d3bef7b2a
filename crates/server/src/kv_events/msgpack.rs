//! The few forms of MessagePack that events need: <https://github.com/msgpack/msgpack/blob/master/spec.md>.

/// Writes MessagePack.
#[derive(Debug, Default)]
pub(super) struct Packer(pub(super) Vec<u8>);

impl Packer {
    pub(super) fn nil(&mut self) {
        self.0.push(0xc0);
    }

    pub(super) fn float(&mut self, value: f64) {
        self.0.push(0xcb);
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn number(&mut self, value: u64) {
        match value {
            0..0x80 => self.0.push(value as u8),
            0x80..0x1_0000_0000 => {
                self.0.push(0xce);
                self.0.extend((value as u32).to_be_bytes());
            }
            _ => {
                self.0.push(0xcf);
                self.0.extend(value.to_be_bytes());
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        match text.len() {
            length @ 0..32 => self.0.push(0xa0 | length as u8),
            length => {
                self.0.push(0xdb);
                self.0.extend((length as u32).to_be_bytes());
            }
        }
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Begins an array; so many values follow.
    pub(super) fn array(&mut self, length: usize) {
        match length {
            0..16 => self.0.push(0x90 | length as u8),
            _ => {
                self.0.push(0xdd);
                self.0.extend((length as u32).to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_bytes_of_the_specification() {
        let mut packer = Packer::default();
        packer.array(5);
        packer.nil();
        packer.number(127);
        packer.number(128);
        packer.number(1 << 40);
        packer.text("ab");
        let expected = [
            0x95, 0xc0, 0x7f, 0xce, 0, 0, 0, 128, 0xcf, 0, 0, 1, 0, 0, 0, 0, 0, 0xa2, b'a', b'b',
        ];
        assert_eq!(packer.0, expected);
        let mut long = Packer::default();
        long.array(16);
        long.text(&"x".repeat(32));
        long.float(1.5);
        assert_eq!(long.0[..10], [0xdd, 0, 0, 0, 16, 0xdb, 0, 0, 0, 32]);
        assert_eq!(long.0[42..], [0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
    }
}
