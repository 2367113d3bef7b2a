//! Measuring and attesting against a TPM that answers by the book.

use super::*;
use crate::drivers::tpm::tests::{fake, response};
use std::cell::RefCell;
use std::rc::Rc;
use std::vec;

/// Registers, and how commands end.
#[derive(Default)]
struct Book {
    registers: [[u8; 32]; 24],
    commands: Vec<u32>,
    refuses: Option<u32>,
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
}

impl Book {
    fn answer(&mut self, command: &[u8]) -> Vec<u8> {
        let len = number(&command[2..6]) as usize;
        let command = &command[..len];
        let code = number(&command[6..10]);
        self.commands.push(code);
        if self.refuses == Some(code) {
            return response(0x922, &[]);
        }
        match code {
            0x144 => response(0x100, &[]),
            0x182 => {
                let register = number(&command[10..14]) as usize;
                let digest = &command[len - 32..];
                let sum = Sha256::digest([&self.registers[register], digest].concat());
                self.registers[register] = sum;
                response(0, &[0, 0, 0, 0, 0, 0, 1, 0, 0])
            }
            0x17e => {
                let bits = command[len - 3..].iter().rev();
                let bits = bits.fold(0u32, |sum, &byte| sum << 8 | u32::from(byte));
                let chosen: Vec<usize> = (0..24).filter(|i| bits >> i & 1 == 1).take(8).collect();
                let mut out = vec![0, 0, 0, 9];
                out.extend(&command[10..]);
                out.extend((chosen.len() as u32).to_be_bytes());
                chosen
                    .iter()
                    .for_each(|&i| out.extend(sized(&self.registers[i])));
                response(0, &out)
            }
            0x131 => {
                let mut public = command[len - 6 - 24..len - 6 - 4].to_vec();
                assert_eq!(public[..4], [0, 0x23, 0, 0x0b]);
                // One of the coordinates has a zero in front, which is left out.
                public.extend(sized(&[7; 32]));
                public.extend(sized(&[8; 31]));
                let parameters = sized(&public);
                let mut out = vec![0x80, 0, 0, 1];
                out.extend((parameters.len() as u32).to_be_bytes());
                out.extend(parameters);
                response(0, &out)
            }
            0x158 => {
                assert_eq!(number(&command[10..14]), 0x8000_0001);
                let signed = sized(&[&b"signed "[..], &command[27..]].concat());
                let parameters = [&signed[..], &[0, 0x18, 0, 0x0b, 1, 2, 3]].concat();
                let mut out = (parameters.len() as u32).to_be_bytes().to_vec();
                out.extend(parameters);
                response(0, &out)
            }
            _ => response(0x143, &[]),
        }
    }
}

fn attester() -> (Attester, Rc<RefCell<Book>>) {
    let book = Rc::new(RefCell::new(Book::default()));
    let answers = Rc::clone(&book);
    let answer = move |command: &[u8]| answers.borrow_mut().answer(command);
    let tpm = fake(0x101, Rc::new(RefCell::new(answer)));
    let attester = Attester::new(tpm, Vec::new());
    (attester.expect("it starts"), book)
}

#[test]
fn what_is_measured_is_reported_and_listed() {
    let (mut attester, book) = attester();
    attester.measure(PROGRAM, [1; 32], "the program").unwrap();
    attester.measure(MODEL, [2; 32], "the model").unwrap();
    attester.measure(MODEL, [3; 32], "another model").unwrap();
    let report = attester.report(b"a nonce!").unwrap();
    assert_eq!(report.values.len(), 11);
    let extend = |old: [u8; 32], new: [u8; 32]| Sha256::digest([old, new].concat());
    assert_eq!(report.values[8], extend([0; 32], [1; 32]));
    let twice = extend(extend([0; 32], [2; 32]), [3; 32]);
    assert_eq!(report.values[10], twice);
    assert_eq!(report.values[9], [0; 32]);
    assert!(
        report
            .quote
            .message
            .windows(8)
            .any(|part| part == b"a nonce!")
    );
    assert_eq!(report.quote.signature, [0, 0x18, 0, 0x0b, 1, 2, 3]);
    assert_eq!(report.key.point[0], [7; 32]);
    assert_eq!((report.key.point[1][0], report.key.point[1][1]), (0, 8));
    assert_eq!(
        report.pem().lines().map(str::len).collect::<Vec<_>>(),
        [26, 64, 60, 24]
    );
    // The log says the same in the same order.
    let mut rest = &report.log[log::first_event(&report.log).unwrap()..];
    for (register, digest) in [(8, 1), (10, 2), (10, 3)] {
        let (event, later) = rest.split_at(log::event(rest).unwrap());
        assert_eq!((event[0], event[14]), (register, digest));
        rest = later;
    }
    assert!(rest.is_empty());
    // The key is made once.
    attester.report(b"another nonce").unwrap();
    let made = book
        .borrow()
        .commands
        .iter()
        .filter(|&&code| code == 0x131)
        .count();
    assert_eq!(made, 1);
}

#[test]
fn firmwares_log_goes_on() {
    let (_, book) = attester();
    let mut firmware = log::begin();
    log::add(&mut firmware, 4, &[9; 32], "a loader");
    let answer = move |command: &[u8]| book.borrow_mut().answer(command);
    let tpm = fake(0x100, Rc::new(RefCell::new(answer)));
    let mut attester = Attester::new(tpm, firmware.clone()).unwrap();
    attester.measure(SETTINGS, [4; 32], "settings").unwrap();
    let report = attester.report(b"12345678").unwrap();
    assert!(report.log.starts_with(&firmware) && report.log.len() > firmware.len());
}

#[test]
fn a_tpm_that_refuses_is_told() {
    for code in [0x182, 0x131, 0x158, 0x17e] {
        let (mut attester, book) = attester();
        book.borrow_mut().refuses = Some(code);
        let measured = attester.measure(PROGRAM, [1; 32], "the program");
        let told = measured.and_then(|()| attester.report(b"12345678").map(drop));
        let error = told.expect_err("it refuses");
        assert_eq!(
            error,
            TpmError::Refused {
                command: code,
                code: 0x922
            }
        );
    }
}
