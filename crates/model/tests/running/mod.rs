//! Runs sequences through a model, for tests.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Mutex;
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, Compute, EmbeddedRun, KvPages, KvType, Model, Output, Sequence, Span, Workspace,
};
use strata_platform::{Pool, SystemMemory};

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for c in text.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// Compares a part of `docs/architectures.md` with the rows that it should have; writes them under `STRATA_RECORD`.
pub(crate) fn check_page(part: &str, rows: &[String]) {
    static PAGE: Mutex<()> = Mutex::new(());
    let _alone = PAGE.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architectures.md");
    let page = String::from_utf8(read(&path)).unwrap();
    let (begin, end) = (
        format!("<!-- {part} -->\n"),
        format!("<!-- end of {part} -->"),
    );
    let start = page.find(&begin).expect("the page has the part") + begin.len();
    let stop = start + page[start..].find(&end).expect("the part ends");
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    if std::env::var_os("STRATA_RECORD").is_some() {
        let page = format!("{}{rows}{}", &page[..start], &page[stop..]);
        return std::fs::write(&path, page).unwrap();
    }
    assert!(
        page[start..stop] == rows,
        "docs/architectures.md is out of date: run the tests of strata-model with STRATA_RECORD=1"
    );
}

/// A row of that page: a name, what it is compared with, and the largest difference.
pub(crate) fn page_row(name: &str, references: &[String], worst: f32) -> String {
    format!("| `{name}` | {} | {worst:.0e} |", references.join("; "))
}

/// One sequence and all that computing it takes.
pub(crate) struct Runner<'a> {
    pub(crate) model: &'a Model,
    pub(crate) compute: Compute<'a>,
    pub(crate) kv: KvPages,
    pub(crate) work: Workspace,
    pub(crate) sequence: Sequence,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        model: &'a Model,
        kernels: &'static Kernels,
        pool: &'a dyn Pool,
        kind: KvType,
        positions: usize,
    ) -> Self {
        let limits = BatchLimits {
            tokens: positions,
            logits: positions,
        };
        Self {
            model,
            compute: Compute { kernels, pool },
            kv: KvPages::new(model.config(), kind, positions, &SystemMemory).unwrap(),
            work: Workspace::new(model, limits, pool.workers()),
            sequence: Sequence::default(),
        }
    }

    /// Feeds tokens in one batch.
    pub(crate) fn feed(&mut self, tokens: &[u32], output: Output) -> Vec<f32> {
        self.feed_embedded(tokens, &[], output)
    }

    /// Feeds tokens of a sequence with images in one batch.
    pub(crate) fn feed_embedded(
        &mut self,
        tokens: &[u32],
        embedded: &[EmbeddedRun],
        output: Output,
    ) -> Vec<f32> {
        self.kv.reserve(&mut self.sequence, tokens.len()).unwrap();
        if let Some(source) = &self.model.config().source
            && self.sequence.is_empty()
        {
            let end = tokens.iter().position(|&token| token == source.start);
            self.sequence.set_source(end.unwrap_or(tokens.len()));
        }
        let span = Span {
            sequence: &mut self.sequence,
            tokens,
            output,
            adapter: None,
            embedded,
        };
        let outputs = self
            .model
            .forward(&self.compute, &mut self.kv, &mut self.work, &mut [span])
            .unwrap();
        match output {
            Output::States => outputs.states.to_vec(),
            _ => outputs.logits.to_vec(),
        }
    }
}
