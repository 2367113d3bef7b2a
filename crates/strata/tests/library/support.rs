//! What the tests share: one runtime, so that models take turns on its threads, and one open model.

use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};
use strata::{Error, Listeners, Model, Options, Runtime, Sampling};
use strata_weights::gguf::Builder;
use strata_weights::{GgmlType, Gguf};

/// The threads that all models of the tests compute with.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new(None).unwrap())
}

/// Opens a model.
pub(crate) fn open(model: impl AsRef<Path>, options: Options) -> Result<Model, Error> {
    Model::open_on(runtime(), model, options, Listeners::default())
}

/// The built-in model, which most tests share.
pub(crate) fn tale() -> &'static Model {
    static TALE: OnceLock<Model> = OnceLock::new();
    TALE.get_or_init(|| open("tale", Options::default()).unwrap())
}

/// Always the likeliest token.
pub(crate) fn greedy() -> Sampling {
    Sampling {
        temperature: Some(0.0),
        ..Sampling::default()
    }
}

/// The built-in model's file.
pub(crate) fn tale_file() -> Vec<u8> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    std::fs::read(models.join("tale/tale-q4_k_m.gguf")).unwrap()
}

/// A tensor of a file to write.
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) ty: GgmlType,
    pub(crate) dims: Vec<u64>,
    pub(crate) data: Vec<u8>,
}

/// A GGUF file of some metadata and these tensors.
pub(crate) fn gguf(mut builder: Builder, tensors: &[Tensor]) -> Vec<u8> {
    for tensor in tensors {
        builder
            .tensor(&tensor.name, tensor.ty, &tensor.dims)
            .unwrap();
    }
    let layout = builder.finish().unwrap();
    let mut file = layout.header;
    let start = file.len();
    file.resize(layout.total_len as usize, 0);
    for (extent, tensor) in layout.tensors.iter().zip(tensors) {
        let place = &mut file[start + extent.offset as usize..];
        place[..tensor.data.len()].copy_from_slice(&tensor.data);
    }
    file
}

/// The built-in model with another chat template.
pub(crate) fn tale_with_template(template: &str) -> Vec<u8> {
    const KEY: &str = "tokenizer.chat_template";
    let file = tale_file();
    let parsed = Gguf::parse(&file).unwrap();
    let mut builder = Builder::new();
    for (key, value) in parsed.metadata().iter().filter(|(key, _)| *key != KEY) {
        builder.set_value(key, value).unwrap();
    }
    builder.set(KEY, template).unwrap();
    let tensors = parsed.tensors().iter().map(|tensor| Tensor {
        name: tensor.name.into(),
        ty: tensor.ty,
        dims: tensor.dims.to_vec(),
        data: tensor.data.to_vec(),
    });
    gguf(builder, &tensors.collect::<Vec<_>>())
}

/// Waits until something holds, which takes a moment at most.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
