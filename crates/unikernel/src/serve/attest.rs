//! `GET /attest?nonce=HEX`: what the TPM vouches for. It needs no key: nobody should send theirs to a machine that they do not
//! trust yet.

use super::Server;
use crate::attest::{self, NONCE, REGISTERS, Report};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use core::time::Duration;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};
use strata_wire::Reply;
use strata_wire::http::Head;
use strata_wire::url::queried;

/// The route.
pub(super) const PATH: &str = "/attest";
/// How often the TPM signs, in nanoseconds: it takes a while, and everybody waits for it.
const INTERVAL: u64 = 1_000_000_000;

impl Server {
    /// The registers, signed together with the caller's bytes.
    pub(super) fn attest(&mut self, head: &Head, now: u64) -> Result<Reply, Fault> {
        let bad = |message: &str| Fault::new(FaultKind::BadRequest, message);
        if head.method != "GET" {
            return Err(Fault::new(FaultKind::Method, "use GET"));
        }
        let query = head.target.split_once('?').map_or("", |(_, query)| query);
        let nonce = queried(query, "nonce").and_then(bytes);
        let nonce = nonce.filter(|nonce| NONCE.contains(&nonce.len()));
        let nonce = nonce.ok_or_else(|| {
            bad("nonce must be 8 to 32 random bytes in hexadecimal digits, new for each call")
        })?;
        if !attest::is_on() {
            let message = "this machine has no TPM: nothing vouches for what it runs";
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        if now < self.next_quote {
            let retry_after = Duration::from_nanos(INTERVAL);
            let message = "the TPM signs once a second";
            return Err(Fault::new(FaultKind::Overloaded { retry_after }, message));
        }
        self.next_quote = now.saturating_add(INTERVAL);
        match attest::report(&nonce) {
            Some(Ok(report)) => Ok(Reply::json(&json(&report, &nonce))),
            Some(Err(error)) => Err(Fault::new(FaultKind::Internal, error)),
            None => Err(Fault::new(FaultKind::Internal, "the TPM is gone")),
        }
    }
}

fn json(report: &Report, nonce: &[u8]) -> Json {
    let base64 = |bytes: &[u8]| Json::from(STANDARD.encode(bytes).as_str());
    let values = report
        .values
        .iter()
        .map(|value| Json::from(hex(value).as_str()));
    let values: Vec<Json> = values.collect();
    Json::object([
        ("nonce", hex(nonce).as_str().into()),
        ("bank", "sha256".into()),
        ("first_register", u64::from(REGISTERS.start).into()),
        ("registers", Json::Array(values)),
        ("quote", base64(&report.quote.message)),
        ("signature", base64(&report.quote.signature)),
        ("public_key", report.pem().as_str().into()),
        ("log", base64(&report.log)),
    ])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of an even number of hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let whole = digits.len().is_multiple_of(2) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let pairs = (0..digits.len()).step_by(2);
    whole.then(|| {
        pairs
            .filter_map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
            .collect()
    })
}
