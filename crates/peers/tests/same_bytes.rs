//! The same bits on several machines as on one.

use crate::machines::{Peer, Runner, alone, golden, spread, tokens};
use strata_model::{Reach, Sequence};
use strata_peers::Overlap;

/// Everything that a scheduler does with an executor, and all logits that come of it.
fn story(runner: &mut Runner) -> Vec<u32> {
    let (mut first, mut second) = (Sequence::default(), Sequence::default());
    let mut all = Vec::new();
    let (prompt, other) = (tokens(38, 3), tokens(9, 11));
    // Prompts of different lengths together, then a token each.
    let mut batch = [(&mut first, &prompt[..]), (&mut second, &other[..])];
    all.extend(runner.feed(&mut batch).unwrap());
    let mut batch = [(&mut first, &[7][..]), (&mut second, &[8][..])];
    all.extend(runner.feed(&mut batch).unwrap());
    // A snapshot, two tokens that were wrong, and back.
    let len = first.len();
    let kept = first.state().map(|state| {
        let kept = runner.table.take_state().unwrap();
        runner.executor.copy_state(state, kept);
        kept
    });
    all.extend(runner.feed(&mut [(&mut first, &[1, 2])]).unwrap());
    match (kept, first.state()) {
        (Some(kept), Some(state)) => {
            runner.executor.copy_state(kept, state);
            first.restored(len);
            runner.table.release_state(kept);
        }
        _ => first.rewind(len),
    }
    all.extend(runner.feed(&mut [(&mut first, &[5])]).unwrap());
    // A fork that shares the first page and has a copy of the second; recurrent ones with a copy of the state.
    let adopted = runner
        .table
        .adopt(first.pages(), first.len(), first.forgotten());
    let (mut fork, copy) = adopted.unwrap();
    if let Some(copy) = copy {
        runner.executor.copy_page(&runner.table, copy);
    }
    if let (Some(from), Some(to)) = (first.state(), fork.state()) {
        runner.executor.copy_state(from, to);
    }
    let mut batch = [(&mut fork, &[4, 6][..]), (&mut first, &[9][..])];
    all.extend(runner.feed(&mut batch).unwrap());
    // Out of memory and back, into other pages.
    let (executor, table) = (&mut runner.executor, &mut runner.table);
    let pages = fork.pages().to_vec();
    let saved = pages.iter().map(|&page| {
        let mut bytes = Vec::new();
        executor.read_page(table, page, &mut bytes);
        assert_eq!(bytes.len(), table.layout().page_bytes());
        bytes
    });
    let saved: Vec<Vec<u8>> = saved.collect();
    let (len, old) = (fork.len(), fork.state());
    let mut state = Vec::new();
    if let Some(old) = old {
        executor.read_state(old, &mut state);
        assert_eq!(state.len(), table.layout().state_bytes());
    }
    let held: Vec<_> = (0..2).map(|_| table.take_page().unwrap()).collect();
    table.truncate(&mut fork, 0);
    table.reserve(&mut fork, len).unwrap();
    for page in held {
        table.release(page, Reach::Window);
        table.release(page, Reach::Everything);
    }
    for (&page, bytes) in fork.pages().iter().zip(&saved) {
        executor.write_page(table, page, bytes);
    }
    if let Some(new) = fork.state() {
        executor.write_state(new, &state);
    }
    fork.advance(len);
    // Pages are read in the order of the layers, so that they can be saved by one machine and read by several.
    let whole = saved[0].iter().chain(&state);
    all.extend(whole.map(|&byte| u32::from(byte)));
    all.extend(runner.feed(&mut [(&mut fork, &[3])]).unwrap());
    for sequence in [&mut first, &mut second, &mut fork] {
        runner.table.truncate(sequence, 0);
    }
    all
}

#[test]
fn several_machines_compute_the_bits_of_one() {
    let models = [
        ("llama", &[1][..]),
        ("mistral-window", &[1]),
        ("gemma2", &[1]),
        ("deepseek2", &[1]),
        ("lfm2", &[1, 2]),
        ("falcon-h1", &[1]),
        ("rwkv7", &[1]),
        ("gemma3n", &[0]),
        ("qwen2moe", &[0]),
    ];
    for (name, starts) in models {
        let bytes = golden(name);
        let expected = story(&mut Runner::new(alone(&bytes)));
        let peers: Vec<Peer> = starts.iter().map(|_| Peer::start(&bytes)).collect();
        let peers: Vec<&Peer> = peers.iter().collect();
        let (executor, _) = spread(&bytes, &peers, starts, Overlap::Auto).unwrap();
        let mut runner = Runner::new(executor);
        assert!(story(&mut runner) == expected, "{name}");
        // The same again, in pages that others have used.
        assert!(story(&mut runner) == expected, "{name}");
    }
}

#[test]
fn large_batches_in_pieces_give_the_same_bits() {
    for (name, starts) in [("llama-yarn", &[1][..]), ("lfm2", &[1, 2])] {
        let bytes = golden(name);
        let run = |runner: &mut Runner| {
            let mut sequences = [
                Sequence::default(),
                Sequence::default(),
                Sequence::default(),
            ];
            let prompts = [tokens(150, 1), tokens(1, 2), tokens(40, 3)];
            let batch = sequences.iter_mut().zip(&prompts);
            let mut batch: Vec<_> = batch.map(|(s, tokens)| (s, &tokens[..])).collect();
            runner.feed(&mut batch).unwrap()
        };
        let expected = run(&mut Runner::new(alone(&bytes)));
        let peers: Vec<Peer> = starts.iter().map(|_| Peer::start(&bytes)).collect();
        let peers: Vec<&Peer> = peers.iter().collect();
        let (executor, _) = spread(&bytes, &peers, starts, Overlap::Always).unwrap();
        assert!(run(&mut Runner::new(executor)) == expected, "{name}");
    }
}

/// What windows are past is given back and used by others: block numbers of one page change while it lives.
#[test]
fn pages_that_windows_have_left_serve_others() {
    let bytes = golden("mistral-window");
    let run = |runner: &mut Runner| {
        let (mut long, mut other) = (Sequence::default(), Sequence::default());
        let mut all = Vec::new();
        for round in 0..5 {
            let tokens = tokens(20, round);
            all.extend(runner.feed(&mut [(&mut long, &tokens)]).unwrap());
            let seen = long
                .len()
                .saturating_sub(runner.table.layout().window().unwrap());
            runner.table.forget_before(&mut long, seen);
            all.extend(runner.feed(&mut [(&mut other, &tokens[..9])]).unwrap());
            if round == 2 {
                runner.table.truncate(&mut other, 0);
            }
        }
        assert!(long.forgotten() > 0);
        all
    };
    let peer = Peer::start(&bytes);
    let (executor, _) = spread(&bytes, &[&peer], &[1], Overlap::Auto).unwrap();
    assert!(run(&mut Runner::new(executor)) == run(&mut Runner::new(alone(&bytes))));
}
