//! Flattened device trees (Devicetree Specification 0.4, chapters 2 and 5): what loaders tell of a machine.
//!
//! Nothing is believed: every offset is checked, nodes are walked in one pass, and what is nested too deep is refused.

use super::memory_map::Range;
use thiserror::Error;

const MAGIC: u32 = 0xd00d_feed;
const HEADER: usize = 40;
/// The oldest version that the present format can be read as.
const COMPATIBLE: u32 = 17;
/// Larger ones are refused; real ones have some tens of kilobytes.
const LARGEST: usize = 2 << 20;
/// Nodes in nodes.
const DEEPEST: usize = 16;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;
const END: u32 = 9;

/// A tree that cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// Another number is where its magic number should be.
    #[error("the device tree begins with {found:#x}")]
    Magic {
        /// That number.
        found: u32,
    },
    /// It is of a version that cannot be read.
    #[error("the device tree is of version {version}")]
    Version {
        /// The version that it says it is compatible with.
        version: u32,
    },
    /// It is too large, or a part of it lies outside.
    #[error("the device tree's {part} are cut off")]
    CutOff {
        /// Which part.
        part: &'static str,
    },
    /// Its structure makes no sense.
    #[error("the device tree is damaged at {at:#x} of its structure")]
    Damaged {
        /// Where.
        at: usize,
    },
    /// It has no memory.
    #[error("the device tree tells of no memory")]
    NoMemory,
}

/// A big-endian number.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*word))
}

/// A number of some cells of four bytes each, of which the last two count.
fn cells(bytes: &[u8], count: usize) -> Option<u64> {
    let words = bytes.get(..count.checked_mul(4)?)?.chunks_exact(4);
    Some(words.fold(0, |sum, word| {
        let word = word.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        sum << 32 | word
    }))
}

/// How a node's children give addresses, and how those are the node's parent's.
#[derive(Copy, Clone)]
struct Bus<'a> {
    address_cells: usize,
    size_cells: usize,
    ranges: Option<&'a [u8]>,
}

/// A node, with the buses that lead to it.
pub struct Node<'a, 'w> {
    /// What it is called, with its address.
    pub name: &'a str,
    /// How deep it is: the root is 0.
    pub depth: usize,
    properties: &'a [u8],
    strings: &'a [u8],
    /// From the root to the parent.
    buses: &'w [Bus<'a>],
}

impl<'a> Node<'a, '_> {
    /// The name without its address.
    pub fn kind(&self) -> &'a str {
        self.name.split('@').next().unwrap_or_default()
    }

    /// The bytes of a property.
    pub fn property(&self, name: &str) -> Option<&'a [u8]> {
        let mut at = 0;
        while let Some(token) = be32(self.properties, at) {
            at += 4;
            if token != PROPERTY {
                continue;
            }
            let (len, place) = (be32(self.properties, at)?, be32(self.properties, at + 4)?);
            let bytes = self.properties.get(at + 8..)?.get(..len as usize)?;
            let rest = self.strings.get(place as usize..).unwrap_or_default();
            if rest.starts_with(name.as_bytes()) && rest.get(name.len()) == Some(&0) {
                return Some(bytes);
            }
            at += 8 + bytes.len().next_multiple_of(4);
        }
        None
    }

    /// A property that is a number of 32 bits.
    pub fn number(&self, name: &str) -> Option<u32> {
        be32(self.property(name)?, 0)
    }

    /// A property that is a text.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        text(self.property(name)?, 0)
    }

    /// Whether it is a device of a kind.
    pub fn is_compatible(&self, with: &str) -> bool {
        let kinds = self.property("compatible").unwrap_or_default();
        kinds
            .split(|&byte| byte == 0)
            .any(|kind| kind == with.as_bytes())
    }

    /// Whether it is in use.
    pub fn is_enabled(&self) -> bool {
        matches!(self.text("status"), None | Some("okay" | "ok"))
    }

    /// The n-th range of its `reg`, as its parent's bus has it.
    fn place(&self, index: usize) -> Option<Range> {
        let bus = self.buses.last()?;
        let size = (bus.address_cells + bus.size_cells) * 4;
        let entry = self
            .property("reg")?
            .get(index.checked_mul(size)?..)?
            .get(..size)?;
        let len = cells(&entry[bus.address_cells * 4..], bus.size_cells)?;
        Some(Range::new(cells(entry, bus.address_cells)?, len))
    }

    /// The n-th number of its `reg` where that is no address: of processors.
    pub fn id(&self) -> Option<u64> {
        Some(self.place(0)?.start)
    }

    /// The n-th range of its `reg`, as the processors have it.
    pub fn range(&self, index: usize) -> Option<Range> {
        let Range { start, end } = self.place(index)?;
        let mut at = start;
        // The root's own addresses are the processors'.
        for pair in self.buses.windows(2).rev() {
            at = translate(&pair[1], &pair[0], at)?;
        }
        Some(Range::new(at, end - start))
    }

    /// The bytes of the property as entries of some cells each.
    pub fn entries(&self, name: &str, cells: usize) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.property(name).unwrap_or_default();
        bytes.chunks_exact(4 * cells.max(1))
    }
}

/// An address of a bus as its parent has it.
fn translate(bus: &Bus<'_>, parent: &Bus<'_>, address: u64) -> Option<u64> {
    let ranges = bus.ranges?;
    if ranges.is_empty() {
        return Some(address);
    }
    let (own, above) = (bus.address_cells, parent.address_cells);
    let size = (own + above + bus.size_cells) * 4;
    ranges.chunks_exact(size.max(4)).find_map(|entry| {
        let start = cells(entry, own)?;
        let len = cells(&entry[(own + above) * 4..], bus.size_cells)?;
        let offset = address.checked_sub(start).filter(|&offset| offset < len)?;
        cells(&entry[own * 4..], above)?.checked_add(offset)
    })
}

/// The text at an offset, up to its zero.
fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let bytes = bytes.get(at..)?;
    let end = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&bytes[..end]).ok()
}

/// A tree whose parts lie inside of it.
#[derive(Copy, Clone, Debug)]
pub struct DeviceTree<'a> {
    structure: &'a [u8],
    strings: &'a [u8],
    reserved: &'a [u8],
}

/// How long the tree is that begins with these 40 bytes.
pub fn bytes(head: &[u8]) -> Result<usize, TreeError> {
    let found = be32(head, 0).unwrap_or(0);
    if found != MAGIC {
        return Err(TreeError::Magic { found });
    }
    let len = be32(head, 4).unwrap_or(0) as usize;
    if (HEADER..=LARGEST).contains(&len) {
        Ok(len)
    } else {
        Err(TreeError::CutOff { part: "bytes" })
    }
}

impl<'a> DeviceTree<'a> {
    /// Looks at a tree's header.
    pub fn new(tree: &'a [u8]) -> Result<Self, TreeError> {
        let len = bytes(tree)?;
        let tree = tree.get(..len).ok_or(TreeError::CutOff { part: "bytes" })?;
        let field = |at| be32(tree, at).unwrap_or(0);
        let version = field(24);
        if field(20) < COMPATIBLE || version > COMPATIBLE {
            return Err(TreeError::Version { version });
        }
        let part = |part, start: u32, len: Option<u32>| {
            let bytes = tree.get(start as usize..);
            let bytes = match len {
                Some(len) => bytes.and_then(|bytes| bytes.get(..len as usize)),
                None => bytes,
            };
            bytes.ok_or(TreeError::CutOff { part })
        };
        Ok(Self {
            structure: part("nodes", field(8), Some(field(36)))?,
            strings: part("names", field(12), Some(field(32)))?,
            reserved: part("reservations", field(16), None)?,
        })
    }

    /// Memory that must be left alone.
    pub fn reserved(&self) -> impl Iterator<Item = Range> {
        let entries = self.reserved.chunks_exact(16).map_while(|entry| {
            let range = Range::new(cells(entry, 2)?, cells(&entry[8..], 2)?);
            (range.start != 0 || !range.is_empty()).then_some(range)
        });
        entries.filter(|range| !range.is_empty())
    }

    /// Shows every node once, parents first.
    pub fn walk(&self, mut show: impl FnMut(&Node<'a, '_>)) -> Result<(), TreeError> {
        let nothing = Bus {
            address_cells: 2,
            size_cells: 1,
            ranges: None,
        };
        let mut buses = [nothing; DEEPEST];
        let (mut depth, mut at) = (0, 0);
        loop {
            let damaged = TreeError::Damaged { at };
            let token = be32(self.structure, at).ok_or(damaged)?;
            at += 4;
            match token {
                BEGIN_NODE => {
                    let name = text(self.structure, at).ok_or(damaged)?;
                    at += (name.len() + 1).next_multiple_of(4);
                    let start = at;
                    at = self.skip_properties(at)?;
                    let node = Node {
                        name,
                        depth,
                        properties: self.structure.get(start..at).ok_or(damaged)?,
                        strings: self.strings,
                        buses: &buses[..depth],
                    };
                    show(&node);
                    let count = |name, usual| match node.number(name) {
                        Some(count) if count <= 4 => count as usize,
                        _ => usual,
                    };
                    let bus = Bus {
                        address_cells: count("#address-cells", 2),
                        size_cells: count("#size-cells", 1),
                        ranges: node.property("ranges"),
                    };
                    *buses.get_mut(depth).ok_or(damaged)? = bus;
                    depth += 1;
                }
                END_NODE if depth > 0 => depth -= 1,
                NOTHING => {}
                END if depth == 0 => return Ok(()),
                _ => return Err(damaged),
            }
        }
    }

    /// Where the properties end that begin there.
    fn skip_properties(&self, mut at: usize) -> Result<usize, TreeError> {
        let damaged = TreeError::Damaged { at };
        loop {
            match be32(self.structure, at).ok_or(damaged)? {
                PROPERTY => {
                    let len = be32(self.structure, at + 4).ok_or(damaged)? as usize;
                    at += 12 + len.next_multiple_of(4);
                }
                NOTHING => at += 4,
                _ => return Ok(at),
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
