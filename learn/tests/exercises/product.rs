//! Checks of the exercises of parts 5 to 7.

use std::ops::Range;

use strata_kernels::Kernels;
use strata_learn::demos::numbers;
use strata_learn::paging::Tables;
use strata_learn::ring::checksum;
use strata_learn::sampling::uniform;
use strata_learn::template::Message;

type MostFrequent = fn(&[Vec<u32>]) -> Option<(u32, u32)>;

pub(super) fn pair(most_frequent: MostFrequent) {
    let words = [vec![5, 1, 2], vec![1, 2, 1, 2], vec![5, 1]];
    assert_eq!(most_frequent(&words), Some((1, 2)));
    assert_eq!(most_frequent(&[vec![9, 8], vec![3, 4]]), Some((3, 4)));
    assert_eq!(most_frequent(&[vec![1], vec![]]), None);
}

pub(super) fn qk_norm(qk_norm: fn(&mut [f32], &[f32], f32)) {
    let (mut heads, weight) = (numbers(96, 1), numbers(32, 2));
    let mut expected = heads.clone();
    for head in expected.chunks_exact_mut(32) {
        Kernels::detect().rms_norm_in_place(head, Some(&weight), 1e-6);
    }
    qk_norm(&mut heads, &weight, 1e-6);
    for (ours, expected) in heads.iter().zip(&expected) {
        assert!((ours - expected).abs() < 1e-5);
    }
}

type Route = fn(&[f32], usize) -> Vec<(usize, f32)>;

pub(super) fn shares(route: Route) {
    let scores = [1.0, 3.0, 2.0, -1.0];
    let chosen = route(&scores, 2);
    let sum: f32 = scores.iter().map(|score: &f32| score.exp()).sum();
    assert_eq!(chosen.len(), 2);
    for (found, expert) in chosen.iter().zip([1, 2]) {
        assert_eq!(found.0, expert);
        assert!((found.1 - scores[expert].exp() / sum).abs() < 1e-6);
    }
    assert!(route(&[1000.0, 0.0], 1)[0].1.is_finite());
}

pub(super) fn picture_tokens(picture_tokens: fn(usize, usize, usize, usize) -> usize) {
    assert_eq!(picture_tokens(224, 224, 14, 1), 256);
    assert_eq!(picture_tokens(336, 336, 14, 1), 576);
    assert_eq!(picture_tokens(448, 448, 14, 2), 256);
    // A pixel more costs a whole row.
    assert_eq!(picture_tokens(449, 448, 14, 2), 272);
    assert_eq!(picture_tokens(1, 1, 16, 4), 1);
}

pub(super) fn fair(fair_shares: fn(usize, &[usize]) -> Vec<usize>) {
    for budget in 0..30 {
        let wants = [3, 0, 10, 7];
        let shares = fair_shares(budget, &wants);
        assert_eq!(shares.iter().sum::<usize>(), budget.min(20), "{budget}");
        for (share, want) in shares.iter().zip(wants) {
            assert!(*share <= want);
            let most = shares.iter().max().expect("a client");
            assert!(*share == want || share + 1 >= *most, "{shares:?}");
        }
    }
}

pub(super) fn shared_pages(shared_pages: fn(&[u32], &[u32]) -> usize) {
    let text: Vec<u32> = (0..100).collect();
    assert_eq!(shared_pages(&text, &text), 3);
    assert_eq!(shared_pages(&text, &text[..64]), 1);
    assert_eq!(shared_pages(&text, &text[..65]), 2);
    assert_eq!(shared_pages(&text[..40], &text), 1);
    assert_eq!(shared_pages(&text, &text[1..]), 0);
    assert_eq!(shared_pages(&text, &[]), 0);
}

pub(super) fn expected(expected_tokens: fn(f64, u32) -> f64) {
    assert_eq!(expected_tokens(0.0, 4), 1.0);
    assert_eq!(expected_tokens(1.0, 4), 5.0);
    for draft in [1, 3, 8] {
        let right = |step: u64| {
            let draws = (0..u64::from(draft)).map(|i| uniform(step, i));
            draws.take_while(|draw| *draw < 0.7).count() + 1
        };
        let mean = (0..20_000).map(right).sum::<usize>() as f64 / 20_000.0;
        assert!((expected_tokens(0.7, draft) - mean).abs() < 0.05, "{mean}");
    }
}

pub(super) fn indices(indices: fn(u64) -> [usize; 4]) {
    let address = 0x7f00_1234_5678;
    let [a, b, c, d] = indices(address).map(|index| index as u64);
    assert!([a, b, c, d].iter().all(|index| *index < 512));
    assert_eq!(a << 39 | b << 30 | c << 21 | d << 12 | 0x678, address);
    // The processor agrees.
    let mut tables = Tables::default();
    tables.map(a << 39 | b << 30 | c << 21 | d << 12, 0x5000, 1);
    assert_eq!(tables.walk(address), Some(0x5678));
}

pub(super) fn checksum_update(update: fn(u16, u16, u16) -> u16) {
    for seed in 0..500 {
        let word = |i| (uniform(seed, i) * 65536.0) as u16;
        let mut words: Vec<u16> = (0..10).map(word).collect();
        let bytes =
            |words: &[u16]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
        let before = checksum(&bytes(&words));
        let old = std::mem::replace(&mut words[4], word(99));
        assert_eq!(update(before, old, words[4]), checksum(&bytes(&words)));
    }
}

pub(super) fn split_rows(rows_of: fn(usize, usize, usize) -> Range<usize>) {
    for (workers, rows) in [(1, 5), (3, 10), (4, 4), (8, 3), (7, 1000), (2, 0)] {
        let mut next = 0;
        let mut lengths = Vec::new();
        for worker in 0..workers {
            let range = rows_of(worker, workers, rows);
            assert_eq!(range.start, next, "worker {worker} of {workers}");
            next = range.end;
            lengths.push(range.len());
        }
        assert_eq!(next, rows);
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        assert!(most.expect("a worker") - least.expect("a worker") <= 1);
    }
}

pub(super) fn shorten(shorten: fn(&[Message], usize) -> Vec<Message>) {
    let message = |(role, content): (&str, &str)| Message {
        role: role.into(),
        content: content.into(),
    };
    let chat = [
        ("system", "1234"),
        ("user", "12345"),
        ("assistant", "123"),
        ("user", "12"),
    ]
    .map(message);
    let roles = |most| -> Vec<String> {
        let kept = shorten(&chat, most).into_iter();
        kept.map(|message| message.role).collect()
    };
    assert_eq!(roles(14), ["system", "user", "assistant", "user"]);
    // The answer would fit, but nothing may begin with it.
    assert_eq!(roles(13), ["system", "user"]);
    assert_eq!(roles(6), ["system", "user"]);
    assert_eq!(roles(5), ["system"]);
    assert_eq!(shorten(&chat[1..], 10).len(), 3);
    assert!(shorten(&[], 10).is_empty());
}

type TokenOf = fn(&[(u32, f64)], f64) -> Option<u32>;

pub(super) fn dart(token_of: TokenOf) {
    let list = [(7, 0.5), (2, 0.25), (9, 0.125), (4, 0.125)];
    let mut other = list;
    other.reverse();
    for i in 0..64 {
        let dart = f64::from(i) / 64.0;
        let expected = match i {
            0..16 => 2,
            16..24 => 4,
            24..56 => 7,
            _ => 9,
        };
        assert_eq!(token_of(&list, dart), Some(expected), "{dart}");
        assert_eq!(token_of(&other, dart), Some(expected), "{dart}");
    }
    assert_eq!(token_of(&[], 0.5), None);
}
