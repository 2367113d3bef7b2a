//! What ends when its handle is dropped: answers, models, loads.

use crate::support::{open, runtime, tale, wait_until};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use strata::{
    Answer, AsyncAnswer, Completion, Error, ErrorKind, Events, Json, Listeners, Model, Options,
    Request, Runtime, Session, Tool, ToolChoice, user,
};

#[test]
fn handles_can_be_sent_and_shared() {
    fn send<T: Send + 'static>() {}
    fn sync<T: Send + Sync + 'static>() {}
    sync::<Model>();
    sync::<Request>();
    sync::<Session>();
    sync::<Runtime>();
    sync::<Error>();
    sync::<Completion>();
    send::<Answer>();
    send::<AsyncAnswer>();
    send::<Events>();
}

/// A request that would go on for long.
fn endless(model: &Model) -> Request {
    let mut request = model.complete("Once upon a time").temperature(0.0);
    request.generate_mut().ignore_end = true;
    request
}

/// A model, and whether its engine's thread has ended.
fn watched() -> (Model, Arc<AtomicBool>) {
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
    let listeners = Listeners {
        ended: Some(Box::new(move || told.store(true, Ordering::SeqCst))),
        ..Listeners::default()
    };
    let model = Model::open_on(runtime(), "tale", Options::default(), listeners);
    (model.unwrap(), ended)
}

#[test]
fn a_dropped_answer_frees_its_place() {
    let model = open("tale", Options::default().requests(1)).unwrap();
    let mut answer = endless(&model).stream().unwrap();
    answer.next().unwrap().unwrap();
    let waiting = endless(&model).stream().unwrap();
    wait_until("one runs and one waits", || {
        let counters = model.counters();
        (counters.running, counters.waiting) == (1, 1)
    });
    drop(answer);
    drop(waiting);
    wait_until("both are canceled", || model.counters().canceled == 2);
    let counters = model.counters();
    assert_eq!((counters.running, counters.waiting), (0, 0));
    let next = model.complete("a fox").temperature(0.0).max_tokens(2);
    assert_eq!(next.run().unwrap().usage.generated_tokens, 2);
    // One that has ended cancels nothing.
    wait_until("it has finished", || model.counters().finished == 1);
    assert_eq!(model.counters().canceled, 2);
}

#[test]
fn a_dropped_model_ends_its_thread_and_its_requests() {
    let (model, ended) = watched();
    let mut events = endless(&model).events().unwrap();
    events.next_blocking();
    let other = model.clone();
    drop(model);
    assert!(!ended.load(Ordering::SeqCst), "there is another handle");
    drop(other);
    assert!(ended.load(Ordering::SeqCst));
    while !events.has_ended() {
        events.next_blocking();
    }
    assert_eq!(events.failure().map(Error::kind), Some(ErrorKind::Closed));
    assert!(events.next_blocking().is_empty());
}

#[test]
fn an_answer_keeps_its_model() {
    let (model, ended) = watched();
    let mut answer = endless(&model).stream().unwrap();
    drop(model);
    for _ in 0..3 {
        answer.next().unwrap().unwrap();
    }
    assert!(!ended.load(Ordering::SeqCst));
    std::thread::spawn(move || drop(answer)).join().unwrap();
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn a_model_can_be_dropped_by_a_function_that_another_model_calls() {
    let (model, ended) = watched();
    let mut events = endless(&model).events().unwrap();
    events.next_blocking();
    let last = std::sync::Mutex::new(Some(model));
    let tool = Tool {
        name: "unload".into(),
        description: None,
        parameters: Json::Null,
        strict: false,
    };
    let request = tale().chat([user("Unload it.")]).max_tokens(40);
    let request = request.tool_choice(ToolChoice::Required);
    let request = request.tool_function(tool, move |_| {
        drop(last.lock().unwrap().take());
        Ok("done".into())
    });
    let asking = std::thread::spawn(|| request.run().unwrap());
    asking.join().unwrap();
    assert!(ended.load(Ordering::SeqCst));
}

#[test]
fn a_model_can_be_dropped_on_its_own_thread() {
    let (model, ended) = watched();
    let last = model.clone();
    let (sent, received) = std::sync::mpsc::channel::<()>();
    model.worker().act(
        move |_| {
            // Until the test has dropped its own handle.
            let _ = received.recv();
            drop(last);
        },
        |()| {},
    );
    drop(model);
    drop(sent);
    wait_until("the thread ends", || ended.load(Ordering::SeqCst));
}

#[test]
fn a_request_to_a_stopped_engine_fails_instead_of_waiting() {
    let (model, ended) = watched();
    model.worker().stop();
    let refused = endless(&model).text().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    wait_until("the thread ends", || ended.load(Ordering::SeqCst));
    assert_eq!(
        endless(&model).text().unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(
        model.session().save().unwrap_err().kind(),
        ErrorKind::Closed
    );
}

#[test]
fn a_load_tells_its_progress_and_can_be_canceled() {
    let mut told = Vec::new();
    let mut progress = |done, all| {
        told.push((done, all));
        ControlFlow::Continue(())
    };
    let listeners = Listeners {
        progress: Some(&mut progress),
        ..Listeners::default()
    };
    drop(Model::open_on(runtime(), "tale", Options::default(), listeners).unwrap());
    assert!(told.is_sorted() && told.len() > 2);
    assert!(told.last().is_some_and(|(done, all)| done == all));

    let mut calls = 0;
    let canceled = Model::open_with_progress("tale", Options::default().threads(1), |done, all| {
        calls += 1;
        if done > all / 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!(canceled.unwrap_err().kind(), ErrorKind::Canceled);
    assert!(calls < told.len());
}
