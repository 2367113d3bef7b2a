//! `strata inspect`: what a model file says about itself.

use crate::failure::Failure;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use strata::load::ModelFile;
use strata_weights::{Array, GgufSet, Tensor, Value};

/// Show the metadata and tensors of a model file
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model: a .gguf file (any part of a split one), or a name that `strata list` shows
    #[arg(required_unless_present = "architectures")]
    file: Option<PathBuf>,
    /// List the architectures that run, what each is checked against, and those that are known but do not run
    #[arg(long, conflicts_with_all = ["file", "json"])]
    architectures: bool,
    /// Print as JSON, with every array in full
    #[arg(long)]
    json: bool,
}

/// The page that the architectures' tests write.
const ARCHITECTURES: &str = include_str!("../../../docs/architectures.md");

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let Some(file) = &arguments.file else {
        return print_architectures(&mut out)
            .and_then(|()| out.flush())
            .map_err(|error| Failure::stdout(&error));
    };
    let file = ModelFile::open(file)?;
    let model = file.parse()?;
    let written = if arguments.json {
        serde_json::to_writer(&mut out, &Json(&model))
            .map_err(Into::into)
            .and_then(|()| writeln!(out))
    } else {
        print(&model, &mut out)
    };
    written
        .and_then(|()| out.flush())
        .map_err(|error| Failure::stdout(&error))
}

/// The page's headings and tables, in columns.
fn print_architectures(out: &mut impl Write) -> std::io::Result<()> {
    for line in ARCHITECTURES.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            writeln!(out, "\n{heading}")?;
        }
        let Some(row) = line.strip_prefix("| ") else {
            continue;
        };
        let cells = row.trim_end_matches(" |").split(" | ");
        let cells: Vec<&str> = cells.map(|cell| cell.trim_matches('`')).collect();
        match cells[..] {
            [name, reference, worst] => {
                writeln!(out, "  {name:<18} {reference:<50} {worst}")?;
            }
            _ => writeln!(out, "  {:<18} {}", cells[0], cells[1..].join(" "))?,
        }
    }
    Ok(())
}

fn print(model: &GgufSet<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let parts = match model.parts() {
        1 => String::new(),
        n => format!(", {n} files"),
    };
    let bytes: u64 = model.tensors().iter().map(|t| t.data.len() as u64).sum();
    let values: u64 = model.tensors().iter().map(elements).sum();
    writeln!(
        out,
        "GGUF{parts}: {} tensors, {} parameters, {}",
        model.tensors().len(),
        count(values),
        size(bytes),
    )?;
    writeln!(out)?;
    print_contents(model, out)
}

/// All keys and tensors, a line each.
pub(crate) fn print_contents(model: &GgufSet<'_>, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "Metadata")?;
    let width = model.metadata().iter().map(|(key, _)| key.len()).max();
    for (key, value) in model.metadata().iter() {
        writeln!(
            out,
            "  {key:<width$}  {}",
            short(value),
            width = width.unwrap_or(0)
        )?;
    }
    writeln!(out, "\nTensors")?;
    let width = model
        .tensors()
        .iter()
        .map(|t| t.name.len())
        .max()
        .unwrap_or(0);
    for tensor in model.tensors() {
        let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
        writeln!(
            out,
            "  {:<width$}  {:<8} {:<20} {:>10}",
            tensor.name,
            tensor.ty.name(),
            dims.join(" × "),
            size(tensor.data.len() as u64),
        )?;
    }
    Ok(())
}

/// A value on one line: long strings are cut, arrays show their first elements.
fn short(value: Value<'_>) -> String {
    const TEXT: usize = 60;
    const SHOWN: usize = 4;
    match value {
        Value::Str(text) if text.chars().count() > TEXT => {
            let head: String = text.chars().take(TEXT).collect();
            format!("{head:?}… ({} bytes)", text.len())
        }
        Value::Str(text) => format!("{text:?}"),
        Value::Array(array) => {
            let mut shown: Vec<String> = array.iter().take(SHOWN).map(short).collect();
            if array.len() > SHOWN {
                shown.push("…".into());
            }
            format!(
                "[{}] ({} × {})",
                shown.join(", "),
                array.len(),
                array.element_type().name()
            )
        }
        Value::U8(v) => v.to_string(),
        Value::I8(v) => v.to_string(),
        Value::U16(v) => v.to_string(),
        Value::I16(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I32(v) => v.to_string(),
        Value::U64(v) => v.to_string(),
        Value::I64(v) => v.to_string(),
        Value::F32(v) => v.to_string(),
        Value::F64(v) => v.to_string(),
        Value::Bool(v) => v.to_string(),
    }
}

/// The reader has checked that no product of dimensions overflows.
fn elements(tensor: &Tensor<'_>) -> u64 {
    tensor.dims.iter().product()
}

fn count(n: u64) -> String {
    match n {
        1_000_000_000.. => format!("{:.2} billion", n as f64 / 1e9),
        1_000_000.. => format!("{:.1} million", n as f64 / 1e6),
        _ => n.to_string(),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.2} GB", bytes as f64 / 1e9),
        1_000_000.. => format!("{:.1} MB", bytes as f64 / 1e6),
        1_000.. => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{bytes} B"),
    }
}

/// The whole file as JSON, written piece by piece: a vocabulary is never copied.
struct Json<'a, 'b>(&'a GgufSet<'b>);
struct JsonMetadata<'a, 'b>(&'a GgufSet<'b>);
struct JsonTensors<'a, 'b>(&'a GgufSet<'b>);
struct JsonTensor<'a, 'b>(&'a Tensor<'b>);
struct JsonValue<'a>(Value<'a>);
struct JsonArray<'a>(Array<'a>);

impl Serialize for Json<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("files", &self.0.parts())?;
        map.serialize_entry("metadata", &JsonMetadata(self.0))?;
        map.serialize_entry("tensors", &JsonTensors(self.0))?;
        map.end()
    }
}

impl Serialize for JsonMetadata<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.metadata().iter().map(|(k, v)| (k, JsonValue(v))))
    }
}

impl Serialize for JsonTensors<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.tensors().iter().map(JsonTensor))
    }
}

impl Serialize for JsonTensor<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("name", self.0.name)?;
        map.serialize_entry("type", self.0.ty.name())?;
        map.serialize_entry("dims", &self.0.dims[..])?;
        map.serialize_entry("offset", &self.0.offset)?;
        map.serialize_entry("bytes", &self.0.data.len())?;
        map.end()
    }
}

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(v) => to.serialize_u8(v),
            Value::I8(v) => to.serialize_i8(v),
            Value::U16(v) => to.serialize_u16(v),
            Value::I16(v) => to.serialize_i16(v),
            Value::U32(v) => to.serialize_u32(v),
            Value::I32(v) => to.serialize_i32(v),
            Value::U64(v) => to.serialize_u64(v),
            Value::I64(v) => to.serialize_i64(v),
            Value::F32(v) => to.serialize_f32(v),
            Value::F64(v) => to.serialize_f64(v),
            Value::Bool(v) => to.serialize_bool(v),
            Value::Str(v) => to.serialize_str(v),
            Value::Array(v) => JsonArray(v).serialize(to),
        }
    }
}

impl Serialize for JsonArray<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(JsonValue))
    }
}
