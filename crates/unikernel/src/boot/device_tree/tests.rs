use super::*;
use std::string::String;
use std::vec;
use std::vec::Vec;

/// Writes trees.
#[derive(Clone, Default)]
pub(crate) struct Writer {
    structure: Vec<u8>,
    strings: Vec<u8>,
    pub(crate) reserved: Vec<(u64, u64)>,
}

impl Writer {
    fn word(&mut self, word: u32) {
        self.structure.extend(word.to_be_bytes());
    }

    pub(crate) fn begin(&mut self, name: &str) -> &mut Self {
        self.word(BEGIN_NODE);
        self.structure.extend(name.bytes());
        self.structure.push(0);
        self.structure
            .resize(self.structure.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn end(&mut self) -> &mut Self {
        self.word(END_NODE);
        self
    }

    pub(crate) fn property(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        let place = self.strings.len() as u32;
        self.strings.extend(name.bytes());
        self.strings.push(0);
        self.word(PROPERTY);
        self.word(bytes.len() as u32);
        self.word(place);
        self.structure.extend(bytes);
        self.structure
            .resize(self.structure.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn cells(&mut self, name: &str, cells: &[u32]) -> &mut Self {
        let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_be_bytes()).collect();
        self.property(name, &bytes)
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        let mut bytes = Vec::from(text.as_bytes());
        bytes.push(0);
        self.property(name, &bytes)
    }

    pub(crate) fn nothing(&mut self) -> &mut Self {
        self.word(NOTHING);
        self
    }

    pub(crate) fn finish(&self) -> Vec<u8> {
        let mut reserved: Vec<u8> = Vec::new();
        for (start, len) in self.reserved.iter().chain(&[(0, 0)]) {
            reserved.extend(start.to_be_bytes());
            reserved.extend(len.to_be_bytes());
        }
        let mut structure = self.structure.clone();
        structure.extend(END.to_be_bytes());
        let at = HEADER + reserved.len();
        let names = at + structure.len();
        let all = names + self.strings.len();
        let mut out = Vec::new();
        for word in [
            MAGIC as usize,
            all,
            at,
            names,
            HEADER,
            17,
            16,
            0,
            self.strings.len(),
            structure.len(),
        ] {
            out.extend((word as u32).to_be_bytes());
        }
        out.extend(reserved);
        out.extend(structure);
        out.extend(&self.strings);
        out
    }
}

fn small() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.reserved.push((0x1000, 0x2000));
    writer.begin("");
    writer
        .cells("#address-cells", &[2])
        .cells("#size-cells", &[2]);
    writer
        .begin("soc")
        .cells("#address-cells", &[1])
        .cells("#size-cells", &[1]);
    writer.cells("ranges", &[0x7e00_0000, 0, 0x3f00_0000, 0x100_0000]);
    writer.begin("serial@7e201000").nothing();
    writer.property("compatible", b"brcm,uart\0arm,pl011\0");
    writer
        .cells("reg", &[0x7e20_1000, 0x200, 0x7e30_0000, 4])
        .end();
    writer
        .begin("lost@5")
        .cells("reg", &[5, 1])
        .text("status", "disabled")
        .end();
    writer.end();
    writer
        .begin("i2c")
        .cells("#size-cells", &[0])
        .cells("#address-cells", &[1]);
    writer.begin("sensor@7").cells("reg", &[7]).end().end();
    writer.end();
    writer.finish()
}

#[test]
fn nodes_are_found_with_their_addresses() {
    let bytes = small();
    let tree = DeviceTree::new(&bytes).unwrap();
    assert!(tree.reserved().eq([Range::new(0x1000, 0x2000)]));
    let mut seen: Vec<String> = vec![];
    tree.walk(|node| {
        seen.push(node.kind().into());
        match node.name {
            "serial@7e201000" => {
                assert!(node.is_compatible("arm,pl011") && !node.is_compatible("pl011"));
                assert_eq!(node.range(0), Some(Range::new(0x3f20_1000, 0x200)));
                assert_eq!(node.range(1), Some(Range::new(0x3f30_0000, 4)));
                assert_eq!(node.range(2), None);
                assert!(node.is_enabled());
            }
            "lost@5" => {
                // Outside of what the bus shows.
                assert_eq!((node.range(0), node.is_enabled()), (None, false));
            }
            "sensor@7" => assert_eq!((node.id(), node.range(0)), (Some(7), None)),
            _ => {}
        }
    })
    .unwrap();
    assert_eq!(seen, ["", "soc", "serial", "lost", "i2c", "sensor"]);
}

#[test]
fn headers_that_lie_are_refused() {
    let good = small();
    let with = |at: usize, word: u32| {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&word.to_be_bytes());
        DeviceTree::new(&bad).err()
    };
    assert_eq!(with(0, 7), Some(TreeError::Magic { found: 7 }));
    assert_eq!(with(4, 0), Some(TreeError::CutOff { part: "bytes" }));
    assert_eq!(with(4, u32::MAX), Some(TreeError::CutOff { part: "bytes" }));
    assert_eq!(with(8, u32::MAX), Some(TreeError::CutOff { part: "nodes" }));
    assert_eq!(
        with(32, u32::MAX),
        Some(TreeError::CutOff { part: "names" })
    );
    assert_eq!(with(24, 18), Some(TreeError::Version { version: 18 }));
    assert_eq!(
        DeviceTree::new(&good[..9]).err(),
        Some(TreeError::CutOff { part: "bytes" })
    );
    assert_eq!(
        DeviceTree::new(&[]).err(),
        Some(TreeError::Magic { found: 0 })
    );
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let mut writer = Writer::default();
    for _ in 0..=DEEPEST {
        writer.begin("n").text("x", "y");
    }
    for _ in 0..=DEEPEST {
        writer.end();
    }
    let bytes = writer.finish();
    let walked = DeviceTree::new(&bytes).unwrap().walk(|_| ());
    assert!(
        matches!(walked, Err(TreeError::Damaged { .. })),
        "{walked:?}"
    );
}

/// Looks at everything there is, as a reader would.
pub(crate) fn look(bytes: &[u8]) {
    let Ok(tree) = DeviceTree::new(bytes) else {
        return;
    };
    let _ = tree.reserved().count();
    let _ = tree.walk(|node| {
        for name in ["reg", "ranges", "compatible", "#size-cells", "status"] {
            let _ = (node.property(name), node.text(name), node.number(name));
        }
        let _ = (
            node.range(0),
            node.range(usize::MAX),
            node.id(),
            node.is_enabled(),
        );
        let _ = node.entries("reg", 3).count();
    });
}

#[test]
fn no_bytes_make_it_panic() {
    let good = small();
    for at in 0..good.len() {
        for value in [0, 1, 2, 3, 4, 9, 0x7f, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            look(&bad);
        }
        look(&good[..at]);
        let mut short = good[..at].to_vec();
        if let Some(len) = short.get_mut(4..8) {
            len.copy_from_slice(&(at as u32).to_be_bytes());
        }
        look(&short);
    }
}
