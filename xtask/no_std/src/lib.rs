//! Uses each no_std crate once, with a panic handler and an allocator of its own.
#![no_std]
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use strata_engine::random::{Random, Stream};
use strata_kernels::Kernels;
use strata_platform::{Inline, Pool};
use strata_quant::GgmlType;
use strata::load::{ContextChoice, ParsedModel, TokenizerUse};
use strata_chat::tools::CallFormat;
use strata_convert::HfConfig;
use strata_template::jinja::Template;
use strata_tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};

struct NoMemory;

// SAFETY: it never hands out memory.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Reaches into every crate, so that all of them are linked.
#[unsafe(no_mangle)]
pub extern "C" fn touch() -> usize {
    let blocks = GgmlType::ALL.iter().map(|ty| ty.block_bytes()).sum::<usize>();
    let tokenizers = Gguf::parse(&[])
        .ok()
        .and_then(|file| Tokenizer::from_gguf(file.metadata()).ok())
        .map_or(0, |tokenizer| tokenizer.vocab_size());
    let parsed = Gguf::parse(&[])
        .ok()
        .and_then(|file| GgufSet::new([file].into()).ok())
        .and_then(|set| {
            let (context, required) = (ContextChoice::default(), TokenizerUse::Required);
            ParsedModel::new(&set, context, required).ok()
        })
        .map_or(0, |parsed| parsed.context);
    let architectures = strata_model::arch::ALL.len();
    let bits = Random::new(1, Stream::Token).next_u64() as usize;
    let lanes = Kernels::detect().argmax(&[0.0]) + Inline.workers();
    let calls = CallFormat::of_template("") as usize;
    let routes = strata_wire::dialect::routes().count();
    let converted = HfConfig::parse(b"{}").map_or(0, |config| usize::from(config.family().is_ok()));
    parsed + converted + calls + routes + blocks + tokenizers + architectures + bits + lanes + usize::from(Template::parse("").is_ok())
}
