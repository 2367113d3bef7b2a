//! Where connections begin to count.

use super::*;

/// Where the machine begins to count when a client of this port comes first.
fn first_number(secret: [u64; 2], port: u16) -> u32 {
    let (mut server, mut other) = wire();
    let heard = Arc::clone(&server.to);
    let mut network = Network::new(&mut server, &settings(), secret, 0);
    let mut client = Client::new(&mut other);
    client.port = port;
    client.connect();
    for now in 1..10 {
        client.poll(now * 1_000_000);
        network.poll(now * 1_000_000);
        let mut frames = heard.lock().unwrap();
        let number = frames.iter_mut().find_map(|frame| {
            card::tcp_segment(frame, |_, _, segment| segment.seq_number().0 as u32)
        });
        if let Some(number) = number {
            return number;
        }
    }
    panic!("no answer came");
}

#[test]
fn sequence_numbers_of_one_connection_tell_nothing_of_anothers() {
    let number = first_number([1, 2], 5000);
    assert_eq!(number, first_number([1, 2], 5000));
    // The stack's generator stands at the same place for both, so only the ends of the connections tell them apart.
    let other = first_number([1, 2], 5001);
    assert_ne!(number, other);
    let distance = |secret| first_number(secret, 5000).wrapping_sub(first_number(secret, 5001));
    assert_ne!(distance([1, 2]), distance([1, 3]));
    assert_ne!(number, first_number([2, 2], 5000));
}
