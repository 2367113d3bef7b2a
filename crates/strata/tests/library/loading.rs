//! Plans, and options that change how a model is loaded but not what it says.

use crate::support::{open, tale};
use strata::{ErrorKind, KvType, Model, Options, Stream, user};

fn ask(model: &Model) -> String {
    let request = model.chat([user("Tell me a story about a fox.")]);
    request.temperature(0.0).max_tokens(24).text().unwrap()
}

#[test]
fn a_plan_says_what_a_model_takes_and_what_would_help() {
    let plan = Model::plan("tale", &Options::default()).unwrap();
    assert_eq!(plan.facts.name, "tale");
    assert_eq!((plan.context, plan.draft), (tale().context(), 0));
    assert!(plan.fits && plan.weights > 10_000_000);
    let parts = plan.weights + plan.kv + plan.activations + plan.program;
    assert_eq!(plan.total(), parts);

    let half = Options::default().context(plan.context / 2);
    assert_eq!(Model::plan("tale", &half).unwrap().kv, plan.kv / 2);
    let compact = Options::default().kv(KvType::Q8_0);
    assert!(Model::plan("tale", &compact).unwrap().kv < plan.kv);
    let drafting = Options::default().draft_model("tale");
    assert!(Model::plan("tale", &drafting).unwrap().draft > plan.weights);

    // States of recurrent layers have a budget of their own, snapshots included.
    assert_eq!((plan.states, plan.state_count), (0, 0));
    let hybrid = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden/granitehybrid.gguf"
    );
    let hybrid = Model::plan(hybrid, &Options::default()).unwrap();
    assert!(hybrid.state_count > 16 && hybrid.states > 0 && hybrid.states < hybrid.kv);

    let tight = Options::default().memory("64M");
    let plan = Model::plan("tale", &tight).unwrap();
    assert_eq!((plan.fits, plan.limit), (false, 64_000_000));
    let exact = Model::plan_within("tale", &Options::default(), 64_000_000).unwrap();
    assert_eq!((exact.fits, exact.limit), (false, 64_000_000));
}

#[test]
fn what_is_loaded_differently_says_the_same() {
    let expected = ask(tale());
    let plain = || Options::default().context(512);
    for (what, options) in [
        ("one thread", plain().threads(1)),
        ("small batches", plain().batch(8)),
        ("streamed", plain().stream(Stream::Always)),
        (
            "drafting with itself",
            plain().max_draft(4).draft_model("tale"),
        ),
        (
            "the least of everything",
            plain().threads(0).batch(0).requests(0),
        ),
    ] {
        let model = open("tale", options).unwrap();
        assert_eq!(ask(&model), expected, "{what}");
    }
    let model = Model::open("tale", plain().threads(1)).unwrap();
    assert_eq!(ask(&model), expected, "a runtime of its own");
    assert_eq!(model.facts().context, 512);
}

#[test]
fn keys_that_do_not_fill_blocks_are_refused_before_anything_is_loaded() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../convert/tests/folders/llama-llama3-rope"
    );
    let options = Options::default().kv(KvType::Q8_0);
    let error = open(folder, options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("heads of 16 values"), "{error}");
    open(folder, Options::default()).unwrap();
}
