//! GGUF: a file is refused with an error, or everything in it can be walked, written again and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_weights::gguf::{Builder, Gguf, GgufSet, Value};

fuzz_target!(|bytes: &[u8]| {
    let gguf = match Gguf::parse(bytes) {
        Ok(gguf) => gguf,
        Err(error) => {
            assert!(error.to_string().len() < 400);
            return;
        }
    };
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        assert!(gguf.metadata().get(key).is_some());
        if let Value::Array(array) = value {
            assert_eq!(array.iter().count(), array.len());
        }
        builder
            .set_value(key, value)
            .expect("a read pair can be written");
    }
    for tensor in gguf.tensors() {
        assert!(gguf.tensor(tensor.name).is_some());
        let start = (gguf.data_offset() + tensor.offset) as usize;
        assert_eq!(tensor.data, &bytes[start..start + tensor.data.len()]);
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .expect("a read tensor can be written");
    }
    let layout = builder.finish().expect("a read file can be laid out");
    let mut file = layout.header;
    for (tensor, extent) in gguf.tensors().iter().zip(&layout.tensors) {
        file.extend_from_slice(tensor.data);
        file.resize(file.len() + (extent.padded_len - extent.len) as usize, 0);
    }
    let again = Gguf::parse(&file).expect("what was written can be read");
    assert_eq!(again.metadata().len(), gguf.metadata().len());
    for (a, b) in again.tensors().iter().zip(gguf.tensors()) {
        assert_eq!(
            (a.name, a.ty, a.dims, a.data),
            (b.name, b.ty, b.dims, b.data)
        );
    }
    let _ = GgufSet::new(vec![gguf, again]);
});
