//! Both formats, whole and damaged.

use super::*;

fn sums() -> ImportanceSums {
    let mut sums = ImportanceSums {
        datasets: vec!["story.txt".to_string()],
        chunks: 3,
        chunk_size: 512,
        ..ImportanceSums::default()
    };
    let mut add = |name: &str, squares: &[f32], counts: &[u64]| {
        let columns = ColumnSums {
            squares: squares.to_vec(),
            counts: counts.to_vec(),
        };
        sums.tensors.insert(name.to_string(), columns);
    };
    add("blk.0.attn_q.weight", &[2.0, 4.0], &[2]);
    add("blk.0.ffn_up_exps.weight", &[3.0, 6.0, 0.0, 0.0], &[3, 0]);
    sums
}

/// The older format by hand.
fn list() -> Vec<u8> {
    let mut bytes = Vec::new();
    let number = |bytes: &mut Vec<u8>, n: i32| bytes.extend_from_slice(&n.to_le_bytes());
    number(&mut bytes, 1);
    number(&mut bytes, 19);
    bytes.extend_from_slice(b"blk.0.attn_q.weight");
    number(&mut bytes, 4);
    number(&mut bytes, 2);
    for value in [4.0f32, 8.0] {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    number(&mut bytes, 7);
    number(&mut bytes, 4);
    bytes.extend_from_slice(b"a.md");
    bytes
}

#[test]
fn what_is_written_is_read_as_means() {
    let read = Importance::parse(&sums().file().unwrap()).unwrap();
    assert_eq!(read.get("blk.0.attn_q.weight"), Some(&[1.0, 2.0][..]));
    // The second expert saw nothing.
    let experts = [1.0, 2.0, 1.0, 1.0];
    assert_eq!(read.get("blk.0.ffn_up_exps.weight"), Some(&experts[..]));
    assert_eq!((read.chunks, read.len()), (3, 2));
    assert_eq!(read.datasets, ["story.txt"]);
}

#[test]
fn the_older_format_is_read() {
    let read = Importance::parse(&list()).unwrap();
    assert_eq!(read.get("blk.0.attn_q.weight"), Some(&[1.0, 2.0][..]));
    assert_eq!(read.chunks, 7);
    assert_eq!(read.datasets, ["a.md"]);
}

#[test]
fn damaged_files_are_refused() {
    let whole = list();
    for len in 0..whole.len() {
        // The end is optional, as a whole.
        let without_end = whole.len() - 12;
        let found = Importance::parse(&whole[..len]);
        assert_eq!(found.is_ok(), len == without_end, "{len}: {found:?}");
    }
    for at in 0..whole.len() {
        for byte in [0x7f, 0x80, 0xff] {
            let mut file = whole.clone();
            file[at] = byte;
            let _ = Importance::parse(&file);
        }
    }
    let mut nan = whole;
    nan[35..39].copy_from_slice(&f32::NAN.to_le_bytes());
    let refused = Importance::parse(&nan).unwrap_err();
    assert!(matches!(refused, ImportanceError::Values { .. }));
    let mut model = Builder::new();
    model.set("general.type", "model").unwrap();
    let model = model.finish().unwrap().header;
    let refused = Importance::parse(&model).unwrap_err();
    assert_eq!(refused, ImportanceError::NotImportance);
}
