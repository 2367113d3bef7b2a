//! Importance matrices in both formats, and GGUF files in other types: refused with an error, or written and read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_convert::{Importance, Mix, Recipe, Requantizing, WriteFailure};
use strata_platform::Inline;
use strata_weights::gguf::{Gguf, GgufSet};

fuzz_target!(|bytes: &[u8]| {
    let importance = match Importance::parse(bytes) {
        Ok(found) => {
            for name in found.names() {
                let columns = found.get(name).expect("a name that is listed");
                assert!(columns.iter().all(|value| value.is_finite()));
            }
            Some(found)
        }
        Err(error) => {
            assert!(error.to_string().len() < 400);
            None
        }
    };
    let Ok(gguf) = Gguf::parse(bytes) else { return };
    let Ok(set) = GgufSet::new(vec![gguf]) else {
        return;
    };
    let recipe = Recipe {
        importance: importance.as_ref(),
        ..Recipe::from(Mix::Q4_0)
    };
    let Ok(plan) = Requantizing::new(&set, &recipe) else {
        return;
    };
    for tensor in plan.tensors() {
        let mut written = 0;
        let done = plan.write(tensor, &Inline, &mut |bytes: &[u8]| {
            written += bytes.len() as u64;
            Ok::<(), ()>(())
        });
        match done {
            Ok(()) => assert_eq!(written, tensor.len),
            Err(WriteFailure::Convert(error)) => assert!(error.to_string().len() < 400),
            Err(WriteFailure::Sink(())) => unreachable!("the sink takes everything"),
        }
    }
});
