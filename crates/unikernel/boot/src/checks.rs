//! Checks of devices, by `check=…`: what a test outside can compare.

use alloc::vec;
use strata_unikernel::drivers::{Devices, MAX_FRAME, NetDevice};
use strata_unikernel::machine::{interrupt_controller, time};
use strata_unikernel::say;

/// Reads every disk from end to end, and tells a checksum (FNV-1a, 64 bits).
pub(crate) fn disks(devices: &Devices) {
    for disk in &devices.disks {
        let mut disk = disk.lock();
        let size = disk.block_bytes();
        let blocks = (1 << 20) / size;
        let mut buffer = vec![0; blocks * size];
        let (mut at, mut sum, mut spent) = (0, 0xcbf2_9ce4_8422_2325u64, 0);
        while at < disk.blocks() {
            let part = (disk.blocks() - at).min(blocks as u64);
            let bytes = &mut buffer[..part as usize * size];
            let start = time::now();
            if let Err(error) = disk.read(at, bytes) {
                say!("{error}");
                break;
            }
            spent += time::now() - start;
            for &byte in bytes.iter() {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
            at += part;
        }
        let speed = (at * size as u64 * 1000).checked_div(spent).unwrap_or(0);
        say!("{} checksum {sum:016x}, {speed} MB/s", disk.name());
    }
}

/// Asks who has 10.0.2.2, the host of QEMU's own network, through every card.
pub(crate) fn cards(devices: &mut Devices) {
    for card in &mut devices.cards {
        match ask(card.as_mut()) {
            Some(address) => say!("{} heard from {address:02x?}", card.name()),
            None => say!("{} heard nothing", card.name()),
        }
    }
}

/// ARP, RFC 826.
fn ask(card: &mut dyn NetDevice) -> Option<[u8; 6]> {
    let own = card.address();
    let mut question = [0u8; 60];
    question[..6].fill(0xff);
    question[6..12].copy_from_slice(&own);
    question[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    question[22..28].copy_from_slice(&own);
    question[28..32].copy_from_slice(&[10, 0, 2, 15]);
    question[38..42].copy_from_slice(&[10, 0, 2, 2]);
    let mut frame = [0; MAX_FRAME];
    // Several times, because the card may not be up at once.
    for _ in 0..20 {
        if let Err(error) = card.send(&question) {
            say!("{error}");
        }
        let start = time::now();
        while time::now() - start < 100_000_000 {
            let Some(len) = card.receive(&mut frame) else {
                // SAFETY: this is the boot processor, whose timer runs.
                unsafe { interrupt_controller::nap(200) };
                continue;
            };
            if len >= 42 && frame[12..14] == [8, 6] && frame[20..22] == [0, 2] {
                return frame[22..28].try_into().ok();
            }
        }
    }
    None
}
