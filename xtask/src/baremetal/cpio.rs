//! An archive as Linux unpacks it at boot: cpio, the "newc" form (the kernel's `early-userspace/buffer-format`).

/// An archive.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

impl Archive {
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, (0, 0), &[]);
    }

    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, (0, 0), content);
    }

    /// Where the first program's output goes.
    pub(super) fn console(&mut self) {
        self.entry("dev/console", CONSOLE, (5, 1), &[]);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            content.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_ended() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.file("bin/x", b"12345");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let at = |text: &[u8]| bytes.windows(text.len()).position(|part| part == text);
        assert_eq!(at(b"bin\0"), Some(110));
        assert_eq!(at(b"12345").unwrap() % 4, 0);
        assert!(at(b"TRAILER!!!\0").is_some());
    }
}
