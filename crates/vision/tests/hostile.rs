//! Files that are not what they say: an error or an image within the limits, never a crash, never much memory.

use crate::vectors::{bytes, read};
use strata_vision::{DecodeError, Format, Limits, decode};

/// The most memory that the process has had so far, in KiB; 0 where the system does not say.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    number.unwrap_or(0)
}

/// Small enough that mutants are quick.
const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    pixels: 1 << 18,
    side: 4096,
};

/// Mutants of each file. `STRATA_MUTANTS` asks for more.
fn mutants() -> usize {
    let asked = std::env::var("STRATA_MUTANTS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(60)
}

fn files() -> Vec<(String, Vec<u8>)> {
    let files = read("files.json").into_iter();
    files
        .map(|file| (file["name"].as_str().unwrap().into(), bytes(&file["file"])))
        .collect()
}

#[test]
fn headers_that_claim_65535_squared_are_refused_before_memory_is_taken() {
    let big = 65_535u32;
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend(big.to_be_bytes());
    png.extend(big.to_be_bytes());
    png.extend([8, 6, 0, 0, 0]);
    png.extend(crc(&png[12..]).to_be_bytes());
    png.extend(b"\0\0\0\0IEND\xaeB`\x82");
    let gif = b"GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\xff\xff\xff\xff\0\x02\x02D\x01\0;";
    let mut bmp = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    bmp.extend(big.to_le_bytes());
    bmp.extend(big.to_le_bytes());
    bmp.extend(b"\x01\0\x18\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let mut jpeg =
        b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\x03\x01\x11\0\x02\x11\0\x03\x11\0".to_vec();
    jpeg.extend(b"\xff\xda\0\x0c\x03\x01\0\x02\0\x03\0\0\x3f\0\xff\xd9");
    // 16,384 is the most that a WebP header can say; this is an extended one.
    let mut webp = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\0\xff\xff\0".to_vec();
    webp.extend(b"VP8L\x05\0\0\0\x2f\xff\xff\xff\x0f\0");
    let before = peak();
    for file in [&png[..], gif, &bmp, &jpeg, &webp] {
        let format = Format::of(file).unwrap();
        let error = decode(file, Limits::default()).unwrap_err();
        let refused = matches!(
            error,
            DecodeError::TooLarge { .. } | DecodeError::Damaged { .. }
        );
        assert!(refused, "{}: {error}", format.name());
    }
    let grown = peak() - before;
    assert!(grown < 64 << 10, "{grown} KiB were taken");
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[test]
fn truncated_files_end_in_an_error_or_an_image() {
    for (name, file) in files() {
        let step = (file.len() / 50).max(1);
        for end in (0..file.len()).step_by(step) {
            if let Ok(image) = decode(&file[..end], LIMITS) {
                assert_eq!(image.pixels.len(), image.width * image.height * 3, "{name}");
            }
        }
    }
}

#[test]
fn mutants_end_in_an_error_or_an_image_within_the_limits() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut images, mut errors) = (0, 0);
    for (_, file) in files() {
        for _ in 0..mutants() {
            let mut mutant = file.clone();
            for _ in 0..=next(4) {
                let at = next(mutant.len());
                match next(4) {
                    0 => mutant[at] ^= 1 << next(8),
                    1 => mutant[at] = next(256) as u8,
                    2 => mutant.truncate(at.max(1)),
                    _ => mutant.insert(at, next(256) as u8),
                }
            }
            match decode(&mutant, LIMITS) {
                Err(_) => errors += 1,
                Ok(image) => {
                    assert!(image.width * image.height <= LIMITS.pixels);
                    images += 1;
                }
            }
        }
    }
    assert!(
        images > 100 && errors > 100,
        "{images} images, {errors} errors"
    );
}

#[test]
fn a_gif_of_ten_thousand_frames_costs_one() {
    let (_, file) = files().into_iter().find(|(name, _)| name == "gif").unwrap();
    let frame = file.iter().position(|&byte| byte == b',').unwrap();
    let (head, body) = file.split_at(frame);
    let body = &body[..body.len() - 1];
    let many: Vec<u8> = [head, &body.repeat(10_000), b";"].concat();
    let limits = Limits {
        bytes: many.len(),
        ..LIMITS
    };
    assert_eq!(decode(&many, limits), decode(&file, limits));
}
