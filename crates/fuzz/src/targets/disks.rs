//! Disks and bootable images: partition tables, FAT volumes, and what is attached to a kernel.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use std::borrow::Cow;
use strata_image::reader::{Fat, FormatError, Source, attachment, partitions};
use strata_image::{FatKind, FatOptions, File, Form, Kernel, fat_volume, image};

/// What the disk says it has; what is not in the input is zero.
const DISK_BYTES: u64 = 64 << 20;
const SECTOR: usize = 512;
/// Small files only: what a bare machine reads whole.
const SMALL: u64 = 64 << 10;

pub(super) const DISK: Target = Target {
    made_seeds: disks,
    words: &[
        "\u{55}\u{aa}",
        "EFI PART",
        "FAT16   ",
        "FAT32   ",
        "STRATA  ",
        "strata.toml",
        "MODEL   GGU",
    ],
    ..Target::new(
        "disk",
        "a disk to the readers of partition tables and FAT volumes; files are looked up and read",
        disk,
    )
};

pub(super) const IMAGE: Target = Target {
    made_seeds: attachments,
    words: &[
        "PE\0\0",
        ".strata\0",
        "STRATA\0\u{1}",
        "\u{7f}ELF\u{2}\u{1}\u{1}",
        "MZ",
    ],
    ..Target::new(
        "image",
        "a kernel or an image to the readers of ELF, PE and attachments; a kernel becomes an image",
        bootable,
    )
};

struct Disk<'a>(&'a [u8]);

#[derive(Debug)]
struct DiskError(String);

impl From<FormatError> for DiskError {
    fn from(error: FormatError) -> Self {
        Self(error.to_string())
    }
}

impl Source for Disk<'_> {
    type Error = DiskError;

    fn bytes(&self) -> u64 {
        DISK_BYTES
    }

    fn block_bytes(&self) -> usize {
        SECTOR
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), DiskError> {
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > DISK_BYTES) {
            return Err(DiskError("past the end".into()));
        }
        let start = (offset as usize).min(self.0.len());
        let there = &self.0[start..(start + out.len()).min(self.0.len())];
        out.fill(0);
        out[..there.len()].copy_from_slice(there);
        Ok(())
    }
}

fn disk(bytes: &[u8]) -> Outcome {
    let found = match partitions(&mut Disk(bytes)) {
        Ok(found) => found,
        Err(error) => return Outcome::refused(&error.0),
    };
    let mut how = vec![magnitude(found.len())];
    let starts = found
        .iter()
        .map(|partition| partition.start as usize)
        .take(4);
    for start in std::iter::once(0).chain(starts) {
        let mut volume = Disk(bytes.get(start..).unwrap_or_default());
        let mut fat = match Fat::open(&mut volume) {
            Ok(Some(fat)) => fat,
            Ok(None) => continue,
            Err(error) => return Outcome::refused(&error.0),
        };
        for path in [
            "strata.toml",
            "EFI/BOOT/BOOTX64.EFI",
            "\\strata\\a long name.gguf",
        ] {
            match fat.find(path) {
                Ok(file) => how.push(file.map_or(0, |file| magnitude(file.runs.len()))),
                Err(error) => return Outcome::refused(&error.0),
            }
            match fat.read_small(path, SMALL) {
                Ok(text) => how.push(text.map_or(0, |text| magnitude(text.len()))),
                Err(error) => return Outcome::refused(&error.0),
            }
        }
    }
    Outcome::taken(how)
}

/// A volume's beginning: its tables, its folders and its first files.
fn volume(first_sector: u32) -> Vec<u8> {
    let file = |path: &str, bytes: &'static [u8]| File {
        path: path.into(),
        bytes: Cow::Borrowed(bytes),
    };
    let files = vec![
        file("strata.toml", b"ip = \"dhcp\"\nport = 80\n"),
        file("EFI/BOOT/BOOTX64.EFI", b"MZ"),
        file("strata/a long name.gguf", b"GGUF"),
    ];
    let options = FatOptions {
        kind: FatKind::Smallest,
        label: "STRATA",
        first_sector,
    };
    let volume = fat_volume(files, &options).map(|layout| layout.to_vec());
    let mut bytes = volume.unwrap_or_default();
    let end = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    bytes.truncate(end.min(48 << 10));
    bytes
}

fn disks() -> Vec<Vec<u8>> {
    let mut mbr = vec![0; SECTOR];
    mbr[446..462].copy_from_slice(&[0, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 64, 0, 0]);
    mbr[510..].copy_from_slice(&[0x55, 0xaa]);
    let with_mbr = [mbr.clone(), volume(1)].concat();
    let mut gpt = mbr;
    gpt[450] = 0xee;
    let mut header = vec![0; SECTOR];
    header[..8].copy_from_slice(b"EFI PART");
    header[72] = 2;
    header[80] = 4;
    header[84] = 128;
    let mut entries = vec![0; SECTOR];
    entries[..16].fill(0xc1);
    entries[32] = 3;
    entries[40..42].copy_from_slice(&0x4000u16.to_le_bytes());
    let with_gpt = [gpt, header, entries, volume(3)].concat();
    vec![volume(0), with_mbr, with_gpt]
}

fn bootable(bytes: &[u8]) -> Outcome {
    let place = attachment::place(bytes);
    let attached = place.clone().and_then(|place| {
        let start = usize::try_from(place.start).ok()?;
        attachment::read(bytes.get(start..)?, place.start)
    });
    if let Some(model) = attachment::read(bytes, 0).and_then(|found| found.model) {
        assert!(
            model.end <= bytes.len() as u64,
            "a model outside of its section"
        );
    }
    match Kernel::parse(bytes) {
        Ok(kernel) => {
            for form in [Form::Elf, Form::Efi] {
                if let Ok(layout) = image(form, &kernel, &[], Some(b"GGUF")) {
                    assert_eq!(layout.to_vec().len() as u64, layout.len());
                }
            }
            Outcome::taken((place.is_some(), attached.is_some()))
        }
        Err(error) if place.is_none() => Outcome::refused(&error),
        Err(_) => Outcome::taken(
            attached.map(|found| (magnitude(found.options.len()), found.model.is_some())),
        ),
    }
}

/// A header with a section that has an attachment.
fn attachments() -> Vec<Vec<u8>> {
    let mut head = vec![0; 512];
    head[..2].copy_from_slice(b"MZ");
    head[0x3c] = 0x40;
    head[0x40..0x44].copy_from_slice(b"PE\0\0");
    head[0x46] = 1;
    head[0x54] = 16;
    let section = 0x40 + 24 + 16;
    head[section..section + 8].copy_from_slice(b".strata\0");
    head[section + 8..section + 12].copy_from_slice(&8192u32.to_le_bytes());
    head[section + 12..section + 16].copy_from_slice(&512u32.to_le_bytes());
    let mut attached = b"STRATA\0\x01".to_vec();
    attached.extend(7u32.to_le_bytes());
    attached.extend(4096u32.to_le_bytes());
    attached.extend(100u64.to_le_bytes());
    attached.extend(b"name=tx");
    attached.resize(8192, 0);
    vec![[head, attached.clone()].concat(), attached]
}
