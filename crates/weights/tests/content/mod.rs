//! The content of a file as JSON, in the form that `tools/gguf_roundtrip.py` prints; and as a new file.
#![allow(dead_code, reason = "each test binary uses a part")]

use serde_json::{Value as Json, json};
use strata_weights::gguf::{Builder, Gguf, Layout, Value};

/// What a file says. Floats are their bits and tensor data is its hash, so that equality is exact.
pub(crate) fn describe(gguf: &Gguf<'_>) -> Json {
    let metadata = gguf.metadata().iter().map(|(key, value)| match value {
        Value::Array(array) => {
            let elements: Vec<Json> = array.iter().map(scalar).collect();
            json!([key, format!("array of {}", array.element_type()), elements])
        }
        value => json!([key, value.value_type().name(), scalar(value)]),
    });
    let tensors = gguf.tensors().iter().map(|tensor| {
        let (dims, hash) = (tensor.dims.to_vec(), format!("{:016x}", fnv(tensor.data)));
        json!([
            tensor.name,
            tensor.ty.name(),
            dims,
            tensor.offset,
            tensor.data.len(),
            hash
        ])
    });
    json!({
        "version": gguf.version(),
        "alignment": gguf.alignment(),
        "metadata": metadata.collect::<Vec<_>>(),
        "tensors": tensors.collect::<Vec<_>>(),
    })
}

fn scalar(value: Value<'_>) -> Json {
    match value {
        Value::U8(x) => json!(x),
        Value::I8(x) => json!(x),
        Value::U16(x) => json!(x),
        Value::I16(x) => json!(x),
        Value::U32(x) => json!(x),
        Value::I32(x) => json!(x),
        Value::U64(x) => json!(x),
        Value::I64(x) => json!(x),
        Value::F32(x) => json!(format!("{:08x}", x.to_bits())),
        Value::F64(x) => json!(format!("{:016x}", x.to_bits())),
        Value::Bool(x) => json!(x),
        Value::Str(x) => json!(x),
        Value::Array(_) => panic!("an array is no scalar"),
    }
}

fn fnv(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Writes a file's content again.
pub(crate) fn rewrite(gguf: &Gguf<'_>) -> Vec<u8> {
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        builder
            .set_value(key, value)
            .expect("a read pair can be written");
    }
    for tensor in gguf.tensors() {
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .expect("a read tensor can be written");
    }
    let layout = builder.finish().expect("a read file can be laid out");
    assemble(&layout, gguf.tensors().iter().map(|tensor| tensor.data))
}

/// Puts the tensors' data after the header, as a caller that streams does.
pub(crate) fn assemble<'d>(layout: &Layout, data: impl IntoIterator<Item = &'d [u8]>) -> Vec<u8> {
    let mut file = layout.header.clone();
    for (extent, data) in layout.tensors.iter().zip(data) {
        assert_eq!(
            file.len() as u64,
            layout.header.len() as u64 + extent.offset
        );
        assert_eq!(data.len() as u64, extent.len);
        file.extend_from_slice(data);
        file.resize(file.len() + (extent.padded_len - extent.len) as usize, 0);
    }
    assert_eq!(file.len() as u64, layout.total_len);
    file
}

/// The bytes of a committed sample.
pub(crate) fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
