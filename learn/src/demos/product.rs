//! The demonstrations of parts 5 to 7.

use std::fmt::Write;

use super::{PROMPT, missing};
use crate::bpe::{Bpe, split, train};
use crate::bytes::ReadError;
use crate::decoder::Decoder;
use crate::experts::route;
use crate::gguf::ModelFile;
use crate::narrow::{dot_narrow, dot_wide};
use crate::pages::{Pages, Table};
use crate::paging::Tables;
use crate::patches::{Picture, merge, patches as cut, ring};
use crate::prefix_tree::PrefixTree;
use crate::scheduler::{Sequence, plan};
use crate::solutions::picture_tokens::picture_tokens;
use crate::steering::speculate;
use crate::text::token_bytes;

/// A text whose end stood in it before.
const REPETITIVE: &str = "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The dog sat on the \
                          mat. The cat";

pub(super) fn tokens(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let bpe = Bpe::from_file(file).ok_or_else(|| missing("byte-level vocabulary"))?;
    let mut out = String::new();
    for text in [
        "Once upon a time",
        "Unbelievable!",
        "I'll pay 1234 euros",
        "東京",
    ] {
        _ = write!(out, "{text:?}:");
        for token in bpe.encode(text) {
            let bytes = token_bytes(file, token);
            _ = match std::str::from_utf8(&bytes) {
                Ok(text) => write!(out, " {text:?}"),
                Err(_) => write!(out, " {bytes:02x?}"),
            };
        }
        out.push('\n');
    }
    let story = "the cat sat on the mat and the rat sat on the hat";
    _ = write!(out, "six merges of {story:?}:");
    for (left, right) in train(&split(story), 6) {
        let (left, right) = (
            String::from_utf8_lossy(&left),
            String::from_utf8_lossy(&right),
        );
        _ = write!(out, " {left:?}+{right:?}");
    }
    out.push('\n');
    Ok(out)
}

pub(super) fn patches() -> String {
    const SHADES: [char; 4] = ['.', '-', '+', '#'];
    let side = 16;
    let picture = Picture::from_bytes(side, &ring(side), [0.5; 3], [0.25; 3]);
    let cut = cut(&picture, 4);
    let mut out =
        String::from("the picture, its red in four shades       the mean red of each patch\n");
    let shade = |x: f32| SHADES[((x + 2.0).clamp(0.0, 3.99)) as usize];
    for y in 0..side {
        let line: String = picture.planes[0][y * side..][..side]
            .iter()
            .flat_map(|x| [shade(*x), ' '])
            .collect();
        out.push_str(line.trim_end());
        if y % 4 == 1 {
            _ = write!(out, "          ");
            for patch in &cut[y / 4 * 4..][..4] {
                let red = &patch[..16];
                _ = write!(out, " {:>6.2}", red.iter().sum::<f32>() / 16.0);
            }
        }
        out.push('\n');
    }
    _ = writeln!(
        out,
        "{} patches of {} numbers; merged two by two, {} of {}",
        cut.len(),
        cut[0].len(),
        merge(&cut, 4).len(),
        merge(&cut, 4)[0].len()
    );
    for (width, height, patch, merge) in [
        (224, 224, 16, 1),
        (336, 336, 14, 1),
        (448, 448, 14, 2),
        (1920, 1080, 14, 2),
    ] {
        let tokens = picture_tokens(width, height, patch, merge);
        _ = writeln!(
            out,
            "{width:>5} × {height:<4} patches of {patch}, merged {merge} × {merge}: {tokens:>5} tokens"
        );
    }
    out
}

pub(super) fn experts() -> String {
    let mut out = String::new();
    for (token, scores) in [
        ("certain", [0.1, 5.0, 0.2, 0.1]),
        ("torn", [0.1, 2.0, 2.1, 0.1]),
        ("indifferent", [0.1, 0.2, 0.2, 0.1]),
    ] {
        _ = write!(out, "{token:<12}");
        for (expert, weight) in route(&scores, 2) {
            _ = write!(out, " expert {expert} with {weight:.3}");
        }
        out.push('\n');
    }
    out
}

pub(super) fn schedule() -> String {
    let sequence = |name, prompt, answer| Sequence {
        name,
        prompt,
        answer,
    };
    let mut sequences = [
        sequence("ann", 0, 4),
        sequence("bob", 40, 3),
        sequence("cid", 5, 3),
    ];
    let mut out = String::new();
    for step in 1.. {
        let shares = plan(&mut sequences, 16);
        if shares.is_empty() {
            break;
        }
        _ = write!(out, "step {step}:");
        for share in shares {
            _ = write!(out, " {} {}", sequences[share.sequence].name, share.tokens);
        }
        out.push('\n');
    }
    out
}

pub(super) fn pages() -> String {
    let mut pages = Pages::new(16);
    let mut tree = PrefixTree::default();
    let mut out = String::new();
    let system: Vec<u32> = (0..64).collect();
    for (name, question, len) in [("first chat", 1000, 20), ("second chat", 2000, 40)] {
        let prompt: Vec<u32> = system
            .iter()
            .copied()
            .chain(question..question + len)
            .collect();
        let found = tree.find(&prompt, &mut pages);
        let reused = found.len();
        let mut table = Table {
            len: found.len() * crate::pages::PAGE,
            pages: found,
        };
        while table.len < prompt.len() && table.append(&mut pages).is_some() {}
        tree.insert(&prompt, &table.pages, &mut pages);
        let (all, free) = (&table.pages, pages.free());
        _ = writeln!(
            out,
            "{name}: {} tokens in pages {all:?}, {reused} of them found; {free} pages free",
            prompt.len()
        );
        table.release(&mut pages);
    }
    _ = writeln!(
        out,
        "both ended: {} pages free, the rest is remembered",
        pages.free()
    );
    while tree.evict(&mut pages) {}
    _ = writeln!(out, "all evicted: {} pages free", pages.free());
    out
}

pub(super) fn drafts(file: &ModelFile<'_>) -> Result<String, ReadError> {
    let mut decoder = Decoder::load(file)?;
    let mut out = String::new();
    let bpe = Bpe::from_file(file).ok_or_else(|| missing("byte-level vocabulary"))?;
    let repeated = bpe.encode(REPETITIVE);
    for (name, prompt) in [
        ("a fresh prompt", &PROMPT[..]),
        ("a repetitive one", &repeated),
    ] {
        for most in [0, 4] {
            let (tokens, steps) = speculate(&mut decoder, prompt, 24, most);
            let count = tokens.len();
            _ = writeln!(
                out,
                "{name}, drafts of {most}: {count} tokens in {steps} steps"
            );
        }
    }
    Ok(out)
}

pub(super) fn paging() -> String {
    let mut out = String::new();
    for (name, level, size) in [("4 KiB", 1, 4096u64), ("2 MiB", 2, 2 << 20)] {
        let mut tables = Tables::default();
        let gigabyte = 1u64 << 30;
        for page in 0..gigabyte / size {
            tables.map(page * size, page * size, level);
        }
        let (count, kib) = (tables.count(), tables.count() * 4);
        _ = writeln!(
            out,
            "a gigabyte in pages of {name}: {} entries, {count} tables, {kib} KiB",
            gigabyte / size
        );
    }
    out
}

pub(super) fn narrow() -> String {
    let mut out = String::from("quant times byte, 32 times   16-bit sums   32-bit sums\n");
    for (a, b) in [(15u8, 127i8), (15, -127), (31, 127), (32, 127), (255, 127)] {
        // One pair at a time fits; how many can be added up depends on the quants.
        let fits = 2 * i32::from(a) * i32::from(b).abs() * 8 <= 32767;
        let narrow = if fits {
            dot_narrow(&[a; 32], &[b; 32]).to_string()
        } else {
            "overflow".into()
        };
        let wide = dot_wide(&[a; 32], &[b; 32]);
        _ = writeln!(out, "{a:>9} times {b:>4} {narrow:>22} {wide:>13}");
    }
    out
}
