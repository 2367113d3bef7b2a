//! Part 6: batches, pages, the prefix tree, the scheduler, constraints and drafts.

use strata_kernels::{ActFormat, ActRows, Kernels, Panels, TileMut, pack_panel, packed_bytes};
use strata_learn::blocks::quantize_q4_0;
use strata_learn::bpe::Bpe;
use strata_learn::chunks::attend;
use strata_learn::decoder::Decoder;
use strata_learn::demos::numbers;
use strata_learn::gguf::ModelFile;
use strata_learn::pages::{PAGE, Pages, Place, Table};
use strata_learn::prefix_tree::PrefixTree;
use strata_learn::sampling::likeliest;
use strata_learn::scheduler::{Sequence, Share, matmul_batch, plan};
use strata_learn::steering::{Choices, propose, speculate};
use strata_quant::GgmlType;

use crate::tale;

#[test]
fn a_batch_gives_each_its_own_bits() {
    let matrix = numbers(16 * 64, 1);
    let xs: Vec<Vec<f32>> = (0..5).map(|i| numbers(64, 10 + i)).collect();
    let together = matmul_batch(&matrix, &xs);
    for (x, out) in xs.iter().zip(&together) {
        assert_eq!(&matmul_batch(&matrix, std::slice::from_ref(x))[0], out);
    }
    assert_eq!(matmul_batch(&matrix, &[]), Vec::<Vec<f32>>::new());
}

#[test]
fn the_products_batches_do_too() {
    const COLS: usize = 64;
    let kernels = Kernels::detect();
    let weights = numbers(16 * COLS, 1);
    let rows: Vec<u8> = weights
        .as_chunks()
        .0
        .iter()
        .flat_map(quantize_q4_0)
        .collect();
    let mut panel = vec![0; packed_bytes(GgmlType::Q4_0, 16, COLS)];
    pack_panel(GgmlType::Q4_0, COLS, &rows, &mut panel);
    let product = |tokens: &[u64]| {
        let format = ActFormat::Q8x32;
        let mut bytes = vec![0; tokens.len() * format.row_bytes(COLS)];
        for (token, row) in tokens.iter().zip(bytes.chunks_mut(format.row_bytes(COLS))) {
            kernels.quantize_act(format, &numbers(COLS, *token), row);
        }
        let mut out = vec![0.0f32; tokens.len() * 16];
        kernels.matmul(
            Panels::new(GgmlType::Q4_0, 16, COLS, &panel),
            ActRows::new(format, COLS, &bytes),
            TileMut::from_slice(&mut out, tokens.len(), 16),
        );
        out
    };
    let together = product(&[3, 4, 5, 6, 7]);
    for (i, token) in [3, 4, 5, 6, 7].into_iter().enumerate() {
        assert_eq!(product(&[token]), together[16 * i..][..16]);
    }
}

#[test]
fn a_fork_copies_a_page_only_when_it_writes() {
    let mut pages = Pages::new(4);
    let mut first = Table::default();
    for _ in 0..PAGE + 3 {
        first.append(&mut pages).expect("room");
    }
    let mut second = first.fork(&mut pages);
    assert_eq!(pages.free(), 2);
    let (old, slot) = (first.pages[1], 3);
    let place = second.append(&mut pages).expect("room");
    assert_eq!((place.slot, place.copy_of), (slot, Some(old)));
    assert_ne!(place.page, old);
    // Now nobody else reads the first one's last page.
    let expected = Place {
        page: old,
        slot,
        copy_of: None,
    };
    assert_eq!(first.append(&mut pages), Some(expected));
    assert_eq!(first.pages[0], second.pages[0]);
    first.release(&mut pages);
    assert_eq!(pages.free(), 2);
    second.release(&mut pages);
    assert_eq!(pages.free(), 4);
}

#[test]
fn a_full_pool_says_so() {
    let mut pages = Pages::new(1);
    let mut table = Table::default();
    for _ in 0..PAGE {
        table.append(&mut pages).expect("room");
    }
    assert_eq!(table.append(&mut pages), None);
}

#[test]
fn prompts_share_what_they_begin_with() {
    let mut pages = Pages::new(5);
    let mut tree = PrefixTree::default();
    let first: Vec<u32> = (0..70).collect();
    let computed: Vec<usize> = (0..3).filter_map(|_| pages.take()).collect();
    tree.insert(&first, &computed, &mut pages);
    // The third page is not full, so it is not kept.
    computed.iter().for_each(|page| pages.release(*page));
    assert_eq!(pages.free(), 3);

    let mut second: Vec<u32> = (0..64).collect();
    second[40] = 999;
    assert_eq!(tree.find(&second, &mut pages), computed[..1]);
    assert_eq!(tree.find(&first, &mut pages), computed[..2]);
    // In use: nothing to give up. The second page goes first, because the first one leads to it.
    assert!(!tree.evict(&mut pages));
    pages.release(computed[1]);
    assert!(tree.evict(&mut pages));
    assert_eq!(pages.free(), 4);
    pages.release(computed[0]);
    pages.release(computed[0]);
    assert!(tree.evict(&mut pages));
    assert_eq!(pages.free(), 5);
    assert!(!tree.evict(&mut pages));
}

#[test]
fn writers_go_before_prompts() {
    let sequence = |name, prompt, answer| Sequence {
        name,
        prompt,
        answer,
    };
    let mut sequences = [
        sequence("a", 0, 2),
        sequence("b", 10, 1),
        sequence("c", 3, 5),
    ];
    let share = |sequence, tokens| Share { sequence, tokens };
    assert_eq!(plan(&mut sequences, 8), [share(0, 1), share(1, 7)]);
    assert_eq!(
        plan(&mut sequences, 8),
        [share(0, 1), share(1, 3), share(2, 3)]
    );
    assert_eq!(plan(&mut sequences, 8), [share(2, 1)]);
    assert_eq!(plan(&mut sequences, 0), []);
}

#[test]
fn only_allowed_answers_can_be_written() {
    let vocabulary: Vec<Vec<u8>> = ["yes", "ye", "no", "s", "x", ""]
        .map(|text| text.as_bytes().to_vec())
        .into();
    let mut choices = Choices::new(&["yes", "no"]);
    let mut logits = [0.0; 6];
    choices.mask(&mut logits, &vocabulary);
    let possible: Vec<bool> = logits.iter().map(|logit| logit.is_finite()).collect();
    assert_eq!(possible, [true, true, true, false, false, false]);
    choices.accept(b"ye");
    assert!(choices.allows(b"s") && !choices.allows(b"yes") && !choices.is_complete());
    choices.accept(b"s");
    assert!(choices.is_complete() && !choices.allows(b"s"));
}

#[test]
fn drafts_change_the_steps_and_not_the_answer() {
    assert_eq!(propose(&[1, 2, 3, 9, 1, 2], 2), [3, 9]);
    assert!(propose(&[1, 2, 3], 2).is_empty() && propose(&[], 2).is_empty());

    let Some(bytes) = tale() else { return };
    let file = ModelFile::parse(&bytes).expect("a valid file");
    let mut decoder = Decoder::load(&file).expect("a supported model");
    // Something to copy from.
    let text = "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The dog";
    let prompt = Bpe::from_file(&file).expect("merges").encode(text);
    let mut plain = Vec::new();
    let mut logits = Vec::new();
    for (position, token) in prompt.iter().enumerate() {
        logits = decoder.forward(*token, position).to_vec();
    }
    for position in prompt.len()..prompt.len() + 16 {
        plain.push(likeliest(&logits));
        logits = decoder.forward(likeliest(&logits), position).to_vec();
    }
    let (drafted, steps) = speculate(&mut decoder, &prompt, 16, 4);
    assert_eq!(drafted, plain);
    assert!(steps <= 8, "{steps} steps");
}

#[test]
fn chunks_do_not_show_the_number_of_threads() {
    let scores: Vec<f32> = numbers(1000, 1).iter().map(|x| x * 20.0).collect();
    let values: Vec<Vec<f32>> = (0..1000).map(|i| numbers(8, i)).collect();
    let alone = attend(&scores, &values, 256, 1);
    for threads in 2..6 {
        assert_eq!(attend(&scores, &values, 256, threads), alone);
    }
    // Against a softmax over everything in f64.
    let weight = |score: &f32| (f64::from(*score) - 20.0).exp();
    let sum: f64 = scores.iter().map(weight).sum();
    for (i, ours) in alone.iter().enumerate() {
        let parts = scores.iter().zip(&values);
        let exact: f64 = parts.map(|(s, v)| weight(s) / sum * f64::from(v[i])).sum();
        assert!((f64::from(*ours) - exact).abs() < 1e-5);
    }
    // Chunks of another size are another order, and other bits.
    assert_ne!(attend(&scores, &values, 100, 1), alone);
    assert!(attend(&[], &[], 256, 2).is_empty());
}
