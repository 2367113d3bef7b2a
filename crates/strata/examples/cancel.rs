//! Cancel an answer by dropping it, and a load by breaking off its progress.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};
use strata::{Error, ErrorKind, Model, Options, user};

fn main() -> Result<(), Error> {
    let mut calls = 0;
    let canceled = Model::open_with_progress("tale", Options::default(), |done, all| {
        calls += 1;
        println!("loaded {done} of {all} bytes");
        ControlFlow::Break(())
    });
    let error = canceled.expect_err("it was canceled");
    assert_eq!((error.kind(), calls), (ErrorKind::Canceled, 1));

    let model = Model::open("tale", Options::default())?;
    let mut answer = model.chat([user("Tell me a long story.")]).stream()?;
    let first = answer.next().transpose()?.unwrap_or_default();
    println!("the answer begins with {:?}", first.text);
    drop(answer);

    // The engine notices within a moment, and its place is free for others.
    let end = Instant::now() + Duration::from_secs(10);
    while model.counters().canceled == 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    let counters = model.counters();
    assert_eq!((counters.canceled, counters.running), (1, 0));
    Ok(())
}
