//! Part 7: page tables, the ring of a network card, checksums.

use strata_learn::demos::numbers;
use strata_learn::paging::Tables;
use strata_learn::ring::{Ring, checksum};
use strata_learn::scheduler::matmul_batch;
use strata_learn::workers::{Job, matmul_together};

#[test]
fn addresses_are_found_through_four_levels() {
    let mut tables = Tables::default();
    tables.map(0x7f00_1234_5000, 0x9000, 1);
    tables.map(0x4000_0000, 0x1_0020_0000, 2);
    assert_eq!(tables.walk(0x7f00_1234_5678), Some(0x9678));
    assert_eq!(tables.walk(0x4000_0000 + 0x12_3456), Some(0x1_0032_3456));
    assert_eq!(tables.walk(0x7f00_1234_6000), None);
    assert_eq!(tables.walk(0), None);
    // The first page took three tables below the root, the second two.
    assert_eq!(tables.count(), 6);
}

#[test]
fn packets_come_out_in_order_and_a_full_ring_drops() {
    let mut ring = Ring::new(4);
    assert_eq!(ring.take(), None);
    assert!(ring.receive(b"a") && ring.receive(b"b") && ring.receive(b"c"));
    assert!(!ring.receive(b"d"), "the driver was too slow");
    assert_eq!(ring.take().as_deref(), Some(&b"a"[..]));
    assert!(ring.receive(b"e"));
    for expected in [b"b", b"c", b"e"] {
        assert_eq!(ring.take().as_deref(), Some(&expected[..]));
    }
    assert_eq!(ring.take(), None);
    // Around the circle many times.
    for i in 0..100u8 {
        assert!(ring.receive(&[i]));
        assert_eq!(ring.take(), Some(vec![i]));
    }
}

#[test]
fn a_real_header_checks_out() {
    // An IPv4 header with its checksum, b861, in place.
    let header = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];
    assert_eq!(checksum(&header), 0);
    let mut without = header;
    without[10..12].fill(0);
    assert_eq!(checksum(&without), 0xb861);
    assert_eq!(checksum(&[0xff]), !0xff00);
}

#[test]
fn any_number_of_workers_gives_the_same_bits() {
    for rows in [0, 1, 16, 17, 100] {
        let (matrix, x) = (numbers(rows * 64, 1), numbers(64, 2));
        let alone = matmul_batch(&matrix, std::slice::from_ref(&x)).remove(0);
        for threads in 1..5 {
            assert_eq!(matmul_together(&matrix, &x, threads), alone, "{rows} rows");
        }
        let job = Job::new(&matrix, &x);
        assert_eq!(job.work(), rows.div_ceil(16));
        assert_eq!(job.work(), 0, "there is nothing left");
        assert_eq!(job.finish(), alone);
    }
}
