//! Drafts of the model's own layer that predicts the token after the next.

use crate::recurrent::{alone, assert_all_same, requests};
use crate::stateful::{Shape, Stateful};
use crate::tale::run_one;
use strata_engine::{Request, Speculation, SubmitError};
use strata_model::PAGE;

const NEXTN: Speculation = Speculation::Nextn { max_draft: 6 };

/// Attention alone, which needs no slots for states, and with a recurrence. Tokens mostly follow from one another.
const MODELS: [(&str, Option<usize>); 2] = [("glm4moe-mtp", Some(0)), ("qwen35-mtp", None)];

fn predicting(requests: &[Request]) -> Vec<Request> {
    let predicting = requests.iter().map(|request| Request {
        speculation: NEXTN,
        ..request.clone()
    });
    predicting.collect()
}

#[test]
fn predictions_are_accepted_and_change_no_answer() {
    for (name, states) in MODELS {
        let model = Stateful::named(name);
        let plain = requests(&model, 6);
        let (alone, predicting) = (alone(&model, &plain), predicting(&plain));
        for (batch, slots, pages) in [(512, 1, 128), (9, 3, 128), (64, 6, 16)] {
            let shape = Shape {
                batch,
                requests: slots,
                pages,
                states,
                max_draft: 6,
                ..Shape::default()
            };
            let counters = assert_all_same(&model, shape, &predicting, &alone);
            let (drafted, accepted) = (counters.drafted_tokens, counters.accepted_tokens);
            assert!(3 * accepted > drafted, "{name}: {accepted} of {drafted}");
        }
    }
}

#[test]
fn a_prediction_saves_steps() {
    let model = Stateful::named("glm4moe-mtp");
    let request = predicting(&[model.request(2, 20, 40)]).remove(0);
    let mut engine = model.engine(Shape {
        max_draft: 6,
        ..Shape::default()
    });
    let answer = run_one(&mut engine, request.clone());
    assert_eq!(answer.tokens, model.alone(&request).tokens);
    let counters = engine.counters();
    let (steps, accepted) = (counters.steps, counters.accepted_tokens);
    // The layer is a third of this model, so that few predictions pay.
    assert!(
        accepted > 0 && steps == 40 - accepted,
        "{steps} steps, {accepted} accepted"
    );
}

#[test]
fn what_predictions_stand_on_is_the_same_however_it_was_computed() {
    for (name, _) in MODELS {
        let model = Stateful::named(name);
        let request = predicting(&[model.request(4, 2 * PAGE + 9, 30)]).remove(0);
        let run = |batch: usize, again: bool| {
            let mut engine = model.engine(Shape {
                batch,
                max_draft: 6,
                ..Shape::default()
            });
            let mut answer = run_one(&mut engine, request.clone());
            if again {
                answer = run_one(&mut engine, request.clone());
                assert!(answer.usage().cached_tokens > 0);
            }
            let usage = answer.usage();
            (answer.tokens, usage.drafted_tokens, usage.accepted_tokens)
        };
        let whole = run(512, false);
        assert!(whole.2 > 2, "{name}: {} accepted", whole.2);
        assert_eq!(run(7, false), whole, "{name}: in chunks");
        let cached = run(512, true);
        assert_eq!(cached.0, whole.0, "{name}: from the cache");
        // Where a prediction costs much, few steps try one, and those are counted from the first that decodes.
        if name == "qwen35-mtp" {
            assert_eq!(cached, whole, "{name}: from the cache");
        }
    }
}

#[test]
fn a_model_without_the_layer_is_refused() {
    let model = Stateful::named("llama");
    let mut engine = model.engine(Shape {
        max_draft: 6,
        ..Shape::default()
    });
    let request = model.request(2, 20, 10);
    let refused = engine.submit(Request {
        speculation: NEXTN,
        ..request.clone()
    });
    assert_eq!(refused, Err(SubmitError::NoNextn));
    // Whoever leaves the choice to the engine has texts to draft from.
    let auto = Request {
        speculation: Speculation::Auto { max_draft: 6 },
        ..request
    };
    let answer = run_one(&mut engine, auto.clone());
    assert_eq!(answer.tokens, model.alone(&auto).tokens);
}
