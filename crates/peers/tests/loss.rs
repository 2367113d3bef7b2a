//! A peer that goes, and comes back.

use crate::machines::{Peer, Runner, alone, golden, spread, tokens};
use std::time::{Duration, Instant};
use strata_model::Sequence;
use strata_peers::{Overlap, PeerStates};

fn until(states: &PeerStates, up: bool) {
    let start = Instant::now();
    while states.now()[0].fault.is_none() != up {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{:?}",
            states.now()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_lost_peer_had_is_computed_again_when_it_is_back() {
    for overlap in [Overlap::Auto, Overlap::Always] {
        let bytes = golden("lfm2");
        let prompt = tokens(150, 3);
        let mut fresh = Sequence::default();
        let expected = Runner::new(alone(&bytes)).feed(&mut [(&mut fresh, &prompt)]);

        let peer = Peer::start(&bytes);
        let address = peer.address.clone();
        let (executor, states) = spread(&bytes, &[&peer], &[1], overlap).unwrap();
        assert!(states.now()[0].fault.is_none() && states.now()[0].layers.start == 1);
        let mut runner = Runner::new(executor);
        let mut sequence = Sequence::default();
        assert_eq!(runner.feed(&mut [(&mut sequence, &prompt)]), expected);
        assert!(runner.executor.take_loss().is_none());
        drop(peer);

        let len = sequence.len();
        let error = runner.feed(&mut [(&mut sequence, &prompt)]).unwrap_err();
        assert!(
            error.contains(&address) && error.contains("layers 1 to"),
            "{error}"
        );
        assert_eq!(
            sequence.len(),
            len,
            "a batch that failed has changed nothing"
        );
        // Nothing more can be read, and nothing is made up.
        let mut bytes_read = vec![1];
        let page = sequence.pages()[0];
        runner
            .executor
            .read_page(&runner.table, page, &mut bytes_read);
        assert_eq!(bytes_read, [1]);
        until(&states, false);
        let loss = runner.executor.take_loss().unwrap().to_string();
        assert!(loss.contains(&address), "{loss}");
        assert!(runner.executor.take_loss().is_none(), "a loss is told once");
        runner.table.truncate(&mut sequence, 0);
        assert!(
            runner.feed(&mut [(&mut sequence, &prompt)]).is_err(),
            "still gone"
        );

        let peer = Peer::start_at(&bytes, &address);
        until(&states, true);
        assert_eq!(runner.feed(&mut [(&mut sequence, &prompt)]), expected);
        assert_eq!(peer.address, address);
    }
}

/// Lost and back before anybody asked: what was stored is gone all the same.
#[test]
fn a_peer_that_was_started_anew_while_nobody_looked_counts_as_lost() {
    let bytes = golden("llama");
    let peer = Peer::start(&bytes);
    let address = peer.address.clone();
    let (executor, states) = spread(&bytes, &[&peer], &[1], Overlap::Auto).unwrap();
    let mut runner = Runner::new(executor);
    let mut sequence = Sequence::default();
    let prompt = tokens(20, 5);
    let expected = runner.feed(&mut [(&mut sequence, &prompt)]);
    drop(peer);
    until(&states, false);
    let _peer = Peer::start_at(&bytes, &address);
    until(&states, true);
    assert!(runner.feed(&mut [(&mut sequence, &[1])]).is_err());
    assert!(runner.executor.take_loss().is_some());
    runner.table.truncate(&mut sequence, 0);
    assert_eq!(runner.feed(&mut [(&mut sequence, &prompt)]), expected);
}
