//! Plans, and options that change how a model is loaded but not what it says.

use crate::support::{open, tale};
use strata::{Device, Drafts, ErrorKind, KvType, Model, Options, Stream, user};

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

#[test]
fn the_layer_that_predicts_the_token_after_the_next_is_loaded_if_it_is_asked_for() {
    let predicting = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden/glm4moe-mtp.gguf"
    );
    let plain = Model::plan(predicting, &Options::default()).unwrap();
    for (drafts, more) in [
        (Drafts::Given, false),
        (Drafts::Nextn, true),
        (Drafts::Auto, true),
    ] {
        let plan = Model::plan(predicting, &Options::default().drafts(drafts)).unwrap();
        assert_eq!(plan.weights > plain.weights, more, "{drafts:?}");
        assert_eq!(plan.kv > plain.kv, more, "{drafts:?}");
        let model = open(predicting, Options::default().drafts(drafts)).unwrap();
        let request = model.complete("AB!").temperature(0.0).max_tokens(24);
        let answer = request.run().unwrap();
        let accepted = answer.usage.accepted_tokens;
        assert_eq!(accepted > 2, more, "{drafts:?}: {accepted} accepted");
    }
    let refused = |model: &str, options: Options| {
        let error = open(model, options.drafts(Drafts::Nextn)).err().unwrap();
        // The file is as it should be.
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        error.to_string()
    };
    let missing = refused("tale", Options::default());
    assert!(missing.contains("no layer that predicts"), "{missing}");
    for (options, problem) in [
        (
            Options::default().draft_model("tale"),
            "there is a draft model",
        ),
        (
            Options::default().device(Device::Cuda(vec![0])),
            "GPUs do not compute",
        ),
    ] {
        let error = refused(predicting, options);
        assert!(error.contains(problem), "{error}");
    }
    // Whoever leaves the choice has texts.
    open("tale", Options::default().drafts(Drafts::Auto)).unwrap();
}
