//! Sessions: grown, forked, saved, restored.

use crate::support::{greedy, open, tale};
use strata::{Constraints, ErrorKind, Format, Limits, Options, Privacy, Sampling, Session};

const OPENING: &str =
    "Once upon a time there was a fox who lived in a forest near a small village.";

#[test]
fn a_session_goes_on_where_it_ended() {
    let mut session = tale().session();
    assert!(session.tokens().is_empty());
    session.append(OPENING);
    let first = session.run(10, &greedy()).unwrap();
    let second = session.run(10, &greedy()).unwrap();
    let whole = tale().complete(OPENING).temperature(0.0).max_tokens(20);
    assert_eq!(first.clone() + &second, whole.text().unwrap());
    assert_eq!(session.text(), format!("{OPENING}{first}{second}"));
}

#[test]
fn constraints_hold_for_every_run_and_a_checkpoint_is_come_back_to() {
    let constraints = Constraints {
        format: Format::Regex("(yes|no)".into()),
        privacy: Privacy {
            never_to_disk: true,
            ..Privacy::default()
        },
        ..Constraints::default()
    };
    let mut session = tale().session().constrained(constraints.clone());
    session.append(OPENING);
    let before = session.checkpoint();
    let first = session.run(10, &greedy()).unwrap();
    assert!(first == "yes" || first == "no", "{first:?}");
    session.return_to(before);
    assert_eq!(session.text(), OPENING);
    assert_eq!(session.run(10, &greedy()).unwrap(), first);
    // Nobody knows where the bytes would go.
    let refused = session.save().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let mut small = tale().session().constrained(Constraints {
        limits: Limits {
            memory: Some(16),
            ..Limits::default()
        },
        ..Constraints::default()
    });
    small.append(OPENING);
    assert!(small.run(10, &greedy()).is_err());
    assert_eq!(small.text(), OPENING);
}

#[test]
fn forks_share_their_past_and_nothing_else() {
    let mut one = tale().session();
    one.append(OPENING);
    let mut other = one.fork();
    one.run(8, &greedy()).unwrap();
    assert_eq!(other.text(), OPENING);
    other.append(" It was winter.");
    other.run(8, &greedy()).unwrap();
    assert!(other.text().starts_with("Once upon") && other.text().contains(" It was winter."));
    assert!(!one.text().contains("It was winter."));
    // Without a seed each run is sampled anew.
    let hot = Sampling {
        temperature: Some(1.5),
        ..Sampling::default()
    };
    let (mut left, mut right) = (one.fork(), one.fork());
    assert_ne!(left.run(20, &hot).unwrap(), right.run(20, &hot).unwrap());
}

#[test]
fn a_saved_session_goes_on_elsewhere_without_being_computed_again() {
    let open = || open("tale", Options::default().sessions(true)).unwrap();
    let model = open();
    let mut session = model.session();
    session.append(OPENING);
    session.run(50, &greedy()).unwrap();
    let saved = session.save().unwrap();
    let expected = session.run(10, &greedy()).unwrap();
    drop((session, model));

    let model = open();
    let mut restored = Session::restore(&model, saved.clone()).unwrap();
    assert_eq!(restored.run(10, &greedy()).unwrap(), expected);
    assert!(model.counters().cached_tokens >= 32);

    let mut damaged = saved.clone();
    damaged[100] ^= 1;
    for bytes in [
        damaged,
        saved[..50].to_vec(),
        b"no session".to_vec(),
        vec![],
    ] {
        let error = Session::restore(&model, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    // One that was not opened for it restores the text.
    let mut restored = Session::restore(tale(), saved).unwrap();
    assert_eq!(restored.run(10, &greedy()).unwrap(), expected);
}

#[test]
fn what_a_folder_keeps_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::default().cache(folder.path(), 1 << 30);
        open("tale", options.sessions(true)).unwrap()
    };
    let long = OPENING.repeat(4);
    let ask = |model: &strata::Model| {
        let request = model.complete(&*long).temperature(0.0);
        request.max_tokens(5).run().unwrap()
    };
    let first = ask(&open());
    assert_eq!(first.usage.cached_tokens, 0);
    let model = open();
    let second = ask(&model);
    assert_eq!(first.text, second.text);
    assert!(second.usage.cached_tokens >= 64, "{:?}", second.usage);
    assert!(model.counters().restored_pages >= 2);
}
