//! Images and audio files that mean harm, sent to `strata serve`: a clear 4xx or an answer, bounded memory, and the server goes
//! on.

use crate::program::server::{Server, TestFolder};
use crate::program::{command, strata};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the server may take beyond what it takes for a harmless image: that of the largest image that is allowed, decoded
/// and resized, and what the allocator keeps.
const MOST_KIB: u64 = 1 << 20;

/// A server with a model that sees and one that hears, both with random weights.
struct Media {
    server: Server,
    _folder: TestFolder,
}

impl Media {
    fn start(name: &str) -> Self {
        let folder = TestFolder::new(name);
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (sees, hears) = (file("sees.gguf"), file("hears.gguf"));
        for (file, shape) in [(&sees, "tiny-vision"), (&hears, "tiny-whisper")] {
            strata(&["synth", file.as_str(), "--shape", shape, "--mix", "q8_0"]).text();
        }
        let mut serve = command();
        serve
            .args(["serve", &sees, "--speech", &hears, "--threads", "1"])
            .args(["--ctx", "512"])
            .env("OLLAMA_MODELS", folder.store());
        Self {
            server: Server::spawn(serve),
            _folder: folder,
        }
    }

    fn see(&self, image: &[u8]) -> (u16, String) {
        let image = base64(image);
        let body = json!({
            "model": "sees", "stream": false, "options": { "num_predict": 1 },
            "messages": [{ "role": "user", "content": "What is this?", "images": [image] }],
        });
        let (status, body) = self
            .server
            .ask("POST", "/api/chat", body.to_string().as_bytes());
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    fn hear(&self, audio: &[u8]) -> (u16, String) {
        let mut body =
            b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
                .to_vec();
        body.extend_from_slice(audio);
        body.extend_from_slice(b"\r\n--B--\r\n");
        let head = format!(
            "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
             content-type: multipart/form-data; boundary=B\r\ncontent-length: {}\r\n\r\n",
            self.server.host,
            body.len()
        );
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let _ = stream.write_all(&body);
        reply(&mut stream)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.server.host).unwrap();
        let time = Some(Duration::from_secs(120));
        stream.set_read_timeout(time).unwrap();
        stream
    }

    /// The most memory that the server has had so far; 0 where the system does not say.
    fn peak_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.server.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        number.unwrap_or(0)
    }

    fn lives(&self) {
        assert_eq!(self.server.ask("GET", "/health", b"").0, 200);
    }
}

/// A reply's status, and all of it.
fn reply(stream: &mut TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), text)
}

fn base64(bytes: &[u8]) -> String {
    use base64::prelude::{BASE64_STANDARD, Engine};
    BASE64_STANDARD.encode(bytes)
}

/// The seeds of the fuzzer: files that are in order, by their formats.
fn seeds(format: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    let entries = std::fs::read_dir(folder.join(format)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// A gray PNG of so many pixels with all of its rows, and a compressed text of so many bytes.
fn png(side: u32, text: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    if text > 0 {
        encoder
            .add_ztxt_chunk("Comment".into(), "0".repeat(text))
            .unwrap();
    }
    let row = (side as usize).div_ceil(8);
    let mut writer = encoder.write_header().unwrap();
    writer
        .write_image_data(&vec![0; row * side as usize])
        .unwrap();
    writer.finish().unwrap();
    file
}

/// A WAV file's header that claims so many bytes of 8-bit samples, at so many a second.
fn wav(claimed: u32, rate: u32) -> Vec<u8> {
    let mut file = b"RIFF".to_vec();
    file.extend(claimed.saturating_add(36).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(rate.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend(b"\x01\0\x08\0data");
    file.extend(claimed.to_le_bytes());
    file
}

#[test]
fn images_that_mean_harm_are_refused_and_the_server_goes_on() {
    let media = Media::start("hostile-images");
    let (status, said) = media.see(&png(64, 0));
    assert_eq!(status, 200, "{said}");
    let before = media.peak_kib();
    // A header of 65,535 pixels on a side, with a checksum that is right.
    let mut huge = png(64, 0);
    huge[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let sum = crc(&huge[12..29]);
    huge[29..33].copy_from_slice(&sum.to_be_bytes());
    let (status, said) = media.see(&huge);
    assert_eq!(status, 400, "{said}");
    assert!(said.contains("65535×65535"), "{said}");
    let mut bmp = seeds("bmp").remove(0).1;
    bmp[18..26].copy_from_slice(&[0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
    let (status, said) = media.see(&bmp);
    assert_eq!(status, 400, "{said}");
    // Pixels that are packed 1 to 1000: more than are allowed.
    let (status, said) = media.see(&png(16_000, 0));
    assert_eq!(status, 400, "{said}");
    // A chunk of text that is packed so: it is not read.
    let (status, said) = media.see(&png(64, 32 << 20));
    assert!(matches!(status, 200 | 400), "{status}: {said}");
    // Of ten thousand frames the first is looked at.
    let gif = seeds("gif").into_iter().min_by_key(|(_, gif)| gif.len());
    let gif = gif.unwrap().1;
    let frame = gif.iter().position(|&byte| byte == b',').unwrap();
    let (head, body) = gif.split_at(frame);
    let many = [head, &body[..body.len() - 1].repeat(10_000), b";"].concat();
    let (status, said) = media.see(&many);
    assert_eq!(status, 200, "{said}");
    for format in ["png", "jpeg", "webp", "gif", "bmp"] {
        for (path, seed) in seeds(format) {
            for cut in [seed.len() / 2, seed.len() - 1, 8] {
                let mut mutant = seed.clone();
                mutant[cut / 2] ^= 0x55;
                for file in [&seed[..cut], &mutant] {
                    let (status, said) = media.see(file);
                    let name = path.display();
                    assert!(matches!(status, 200 | 400), "{name}: {status}: {said}");
                }
            }
        }
    }
    let taken = media.peak_kib() - before;
    assert!(taken < MOST_KIB, "{taken} KiB were taken");
    media.lives();
}

#[test]
fn audio_that_means_harm_is_refused_and_the_server_goes_on() {
    let media = Media::start("hostile-audio");
    let before = media.peak_kib();
    // Claims 4 GiB and has none: what there is is heard.
    let (status, said) = media.hear(&wav(u32::MAX, 16_000));
    assert_eq!(status, 400, "{said}");
    // Longer than two hours.
    let mut long = wav(29 << 20, 4000);
    long.resize(long.len() + (29 << 20), 0x80);
    let (status, said) = media.hear(&long);
    assert_eq!(status, 400, "{said}");
    assert!(said.contains("7200") || said.contains("hours"), "{said}");
    for format in ["flac", "mp3", "ogg"] {
        for (path, seed) in seeds(format) {
            for cut in [4, 40.min(seed.len() / 2)] {
                let (status, said) = media.hear(&seed[..cut]);
                let name = path.display();
                assert!((400..500).contains(&status), "{name}: {status}: {said}");
            }
            for at in [5, seed.len() / 3, seed.len() / 2] {
                let mut mutant = seed.clone();
                mutant[at] ^= 0x55;
                let (status, said) = media.hear(&mutant);
                let name = path.display();
                assert!(matches!(status, 200 | 400), "{name}: {status}: {said}");
            }
        }
    }
    // An upload that never ends.
    let mut stream = media.connect();
    let head = format!(
        "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\
         content-type: multipart/form-data; boundary=B\r\ntransfer-encoding: chunked\r\n\r\n",
        media.server.host
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"100000\r\n", &[0x80; 1 << 20][..], b"\r\n"].concat();
    let sent = (0..256).find(|_| stream.write_all(&chunk).is_err());
    let (status, _) = reply(&mut stream);
    // The reply may be lost with the connection that the server closes.
    assert!(status == 413 || sent.is_some(), "{status}");
    let taken = media.peak_kib() - before;
    assert!(taken < MOST_KIB, "{taken} KiB were taken");
    media.lives();
}

/// PNG's checksum.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
