//! Measuring in turns with another program: one measurement for each line of standard input.
//!
//! On a shared machine processors and memory can be half or twice as fast from one second to the next. Two programs
//! that both keep their model in memory and take short turns see the same machine; two that run one after the other do
//! not.

use super::{Arguments, decode, prefill};
use crate::failure::{Failure, Kind};
use crate::scorer::Scorer;
use std::io::{BufRead, Write};

/// Answers each line, `prefill` or `decode`, with a JSON object, until there are no more.
pub(super) fn take(
    scorer: &mut Scorer<'_>,
    tokens: &[u32],
    arguments: &Arguments,
    read_weights: impl Fn() -> Option<f64>,
) -> Result<(), Failure> {
    let prompt = arguments.prompt as usize;
    // How many of the tokens the cache holds.
    let mut computed = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::new(Kind::Usage, error))?;
        let answer = match line.trim() {
            "prefill" => {
                computed = prompt;
                serde_json::json!({ "tok_s": prefill(scorer, &tokens[..prompt])? })
            }
            "decode" => {
                let before = arguments.read_bandwidth.then(&read_weights).flatten();
                let speed = decode(scorer, tokens, computed, arguments)?;
                let after = before.and_then(|_| read_weights());
                computed = (arguments.ctx_used + arguments.tokens) as usize;
                serde_json::json!({
                    "tok_s": speed,
                    "read_bandwidth_bytes_s": before.zip(after).map(|(a, b)| (a + b) / 2.0),
                })
            }
            other => {
                let message =
                    format!("unknown measurement {other:?}: expected `prefill` or `decode`");
                return Err(Failure::new(Kind::Usage, message));
            }
        };
        writeln!(std::io::stdout().lock(), "{answer}").map_err(|error| Failure::stdout(&error))?;
    }
    Ok(())
}
