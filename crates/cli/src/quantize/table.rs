//! What each tensor becomes.

use serde_json::{Value, json};
use std::io::Write;
use strata_convert::Importance;
use strata_quant::GgmlType;

/// One tensor.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) from: String,
    pub(super) to: GgmlType,
    pub(super) bytes: u64,
}

/// All tensors of a file.
pub(super) struct Table {
    pub(super) tensors: Vec<Row>,
    /// Of the whole file.
    pub(super) bytes: u64,
}

impl Table {
    /// Bits of a weight, on average.
    pub(super) fn bits(&self) -> f64 {
        let values: f64 = self.tensors.iter().map(Row::values).sum();
        let bytes: u64 = self.tensors.iter().map(|row| row.bytes).sum();
        8.0 * bytes as f64 / values.max(1.0)
    }

    /// An importance matrix of another model would go unnoticed.
    pub(super) fn warn_of_unknown(&self, importance: &Importance) {
        let known = |row: &&Row| importance.get(&row.name).is_some();
        let used = self.tensors.iter().filter(known).count();
        let unknown = importance.len().saturating_sub(used);
        if unknown > 0 {
            eprintln!(
                "note: {unknown} of the {} entries in the importance matrix belong to tensors the model does not have",
                importance.len()
            );
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        let widest = self.tensors.iter().map(|row| row.name.len()).max();
        let widest = widest.unwrap_or(0).max("tensor".len());
        writeln!(
            out,
            "{:<widest$}  {:>20}  {:>7}  {:>7}  {:>14}",
            "tensor", "shape", "from", "to", "bytes"
        )?;
        for row in &self.tensors {
            let shape: Vec<String> = row.dims.iter().map(u64::to_string).collect();
            writeln!(
                out,
                "{:<widest$}  {:>20}  {:>7}  {:>7}  {:>14}",
                row.name,
                shape.join(" × "),
                row.from,
                row.to.name(),
                row.bytes
            )?;
        }
        writeln!(
            out,
            "{} tensors, {:.1} MB, {:.2} bits per weight",
            self.tensors.len(),
            self.bytes as f64 / 1e6,
            self.bits()
        )
    }

    /// The summary; the tensors too where nothing was written.
    pub(super) fn json(&self, file: &str, mix: &str, seconds: Option<f64>) -> Value {
        let mut value = json!({
            "file": file,
            "type": mix,
            "tensors": self.tensors.len(),
            "bytes": self.bytes,
            "bits_per_weight": self.bits(),
        });
        match seconds {
            Some(seconds) => value["seconds"] = json!(seconds),
            None => value["tensors"] = self.tensors.iter().map(Row::json).collect(),
        }
        value
    }
}

impl Row {
    fn values(&self) -> f64 {
        self.dims.iter().map(|&dim| dim as f64).product()
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "shape": self.dims,
            "from": self.from,
            "to": self.to.name(),
            "bytes": self.bytes,
        })
    }
}
