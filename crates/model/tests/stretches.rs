//! Layers on several machines: every model that can be cut gives the bits of the whole one, wherever it is cut.

use crate::running::{Runner, read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, Blueprint, CpuStretch, KvType, LoadError, LoadOptions, Model, Output, PAGE,
    PageCopy, PageId, PageLayout, PageStorage, PageTable, Placement, Reach, Sequence, Span,
    StateId, Stretch,
};
use strata_platform::{Inline, Resident, SystemMemory};
use strata_weights::{Gguf, GgufSet};

const PAGES: usize = 4;
const STATES: usize = 3;
const LIMITS: BatchLimits = BatchLimits {
    tokens: 40,
    logits: 40,
};

fn golden() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "gguf"));
    files.sort();
    files
}

fn set(bytes: &[u8]) -> GgufSet<'_> {
    GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap()
}

fn stretch(bytes: &[u8], stretch: Stretch) -> Result<CpuStretch, LoadError> {
    let options = LoadOptions {
        stretch: Some(stretch),
        ..LoadOptions::default()
    };
    let blueprint = Blueprint::new(&set(bytes), options)?;
    let layout = blueprint.layout(KvType::F16);
    let storage = PageStorage::new(layout, PAGES * PAGE, STATES, &SystemMemory).unwrap();
    let model = blueprint.build(
        Placement::Packed,
        &SystemMemory,
        Arc::new(Resident(&[])),
        &Inline,
        &mut |_, _| {},
    )?;
    let model = Arc::new(model);
    let kernels = Kernels::detect();
    Ok(CpuStretch::new(
        model,
        kernels,
        Arc::new(Inline),
        storage,
        LIMITS,
    ))
}

/// Machines that each have some of the layers; each but the first with a table that mirrors the first one's.
struct Machines {
    stretches: Vec<CpuStretch>,
    table: PageTable,
    mirrors: Vec<PageTable>,
    sequence: Sequence,
}

impl Machines {
    fn new(bytes: &[u8], starts: &[usize]) -> Result<Self, LoadError> {
        let config = Blueprint::new(&set(bytes), LoadOptions::default())?
            .config()
            .clone();
        let mut ends: Vec<usize> = starts.to_vec();
        ends.push(config.layers.len());
        let mut first = 0;
        let mut stretches = Vec::new();
        for end in ends {
            let ends = stretches.is_empty();
            stretches.push(stretch(bytes, Stretch { first, end, ends })?);
            first = end;
        }
        let layout = PageLayout::of_machines(&config, KvType::F16, starts);
        let mirrors = stretches[1..].iter().map(|s| s.storage().table());
        Ok(Self {
            mirrors: mirrors.collect(),
            table: PageTable::new(layout, PAGES, STATES),
            stretches,
            sequence: Sequence::default(),
        })
    }

    fn mirror(&mut self, page: PageId) {
        for (stretch, mirror) in self.stretches[1..].iter().zip(&mut self.mirrors) {
            let layers = stretch.stretch().layers();
            let own = layers.filter(|&layer| self.table.layout().blocks(layer).is_some());
            let blocks: Vec<u32> = own.map(|l| self.table.layer(l)[page.index()]).collect();
            assert!(mirror.mirror(page, &blocks));
        }
    }

    fn feed(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.table
            .reserve(&mut self.sequence, tokens.len())
            .unwrap();
        for &page in &self.sequence.pages().to_vec() {
            self.mirror(page);
        }
        let (pages, state) = (self.sequence.pages().to_vec(), self.sequence.state());
        let (len, forgotten) = (self.sequence.len(), self.sequence.forgotten());
        let batch = [Span {
            sequence: &mut self.sequence,
            tokens,
            output: Output::AllLogits,
            adapter: None,
            embedded: &[],
        }];
        let head = &mut self.stretches[0];
        head.check(&self.table, &batch).unwrap();
        head.embed(&batch);
        head.run(&self.table, &batch).unwrap();
        let mut stream = Vec::new();
        head.write_stream(tokens.len(), &mut stream);
        for (stretch, mirror) in self.stretches[1..].iter_mut().zip(&self.mirrors) {
            let mut there = Sequence::mirrored(pages.clone(), len, forgotten, state);
            let nothing = vec![0; tokens.len()];
            let span = Span {
                sequence: &mut there,
                tokens: &nothing,
                output: Output::None,
                adapter: None,
                embedded: &[],
            };
            stretch.check(mirror, &[]).unwrap();
            assert!(!stretch.read_stream(1, tokens.len(), &stream[1..]));
            assert!(stretch.read_stream(0, tokens.len(), &stream));
            stretch.run(mirror, &[span]).unwrap();
            stream.clear();
            stretch.write_stream(tokens.len(), &mut stream);
        }
        let head = &mut self.stretches[0];
        assert!(head.read_stream(0, tokens.len(), &stream));
        let logits = head.outputs(&batch).logits.to_vec();
        batch[0].sequence.advance(tokens.len());
        logits
    }
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn every_model_gives_the_same_logits_on_several_machines() {
    let (mut cut, mut whole) = (0, Vec::new());
    for path in golden() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = read(&path);
        let options = LoadOptions::default();
        let model = Model::load(
            &set(&bytes),
            options,
            &SystemMemory,
            &Inline,
            &mut |_, _| {},
        )
        .unwrap();
        let config = model.config();
        let layers = config.layers.len();
        let positions = 70.min(config.context) as u32;
        let tokens: Vec<u32> = (0..positions).map(|i| (i * 17 + 3) % 40).collect();
        let cuts: Vec<usize> = (0..layers).filter(|&at| config.can_cut(at)).collect();
        let mut all: Vec<Vec<usize>> = cuts.iter().map(|&at| vec![at]).collect();
        if let [.., first, second] = cuts[..] {
            all.push(vec![first, second]);
        }
        let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 96);
        let mut expected = Vec::new();
        if config.source.is_none() {
            for chunk in [&tokens[..33], &tokens[33..34], &tokens[34..]] {
                expected.extend(runner.feed(chunk, Output::AllLogits));
            }
        }
        for starts in all {
            let mut machines = match Machines::new(&bytes, &starts) {
                Ok(machines) => machines,
                Err(error) => {
                    assert!(config.source.is_some(), "{name}: {error}");
                    whole.push(name.clone());
                    break;
                }
            };
            let mut logits = Vec::new();
            for chunk in [&tokens[..33], &tokens[33..34], &tokens[34..]] {
                logits.extend(machines.feed(chunk));
            }
            assert!(
                bits(&logits) == bits(&expected),
                "{name}, cut at {starts:?}"
            );
            cut += 1;
        }
    }
    assert!(cut > 250, "{cut}");
    whole.dedup();
    assert_eq!(whole, ["t5-gated", "t5"]);
}

#[test]
fn a_machine_loads_its_own_layers_and_nothing_else() {
    let bytes = read(
        &golden()
            .into_iter()
            .find(|p| p.ends_with("llama.gguf"))
            .unwrap(),
    );
    let whole = Blueprint::new(&set(&bytes), LoadOptions::default()).unwrap();
    let layers = whole.config().layers.len();
    let part = |first, end, ends| {
        let options = LoadOptions {
            stretch: Some(Stretch { first, end, ends }),
            ..LoadOptions::default()
        };
        Blueprint::new(&set(&bytes), options)
    };
    let parts = [part(0, 1, true).unwrap(), part(1, layers, false).unwrap()];
    let sum = |of: &dyn Fn(&Blueprint<'_>) -> usize| parts.iter().map(of).sum::<usize>();
    assert_eq!(sum(&|part| part.packed_bytes()), whole.packed_bytes());
    let kv = |blueprint: &Blueprint<'_>| blueprint.kv_bytes(KvType::F16, 64, 0);
    assert_eq!(sum(&kv), kv(&whole));
    let refused = part(1, layers + 1, false).err().unwrap().to_string();
    assert!(refused.contains("there are no such layers"), "{refused}");
}

#[test]
fn layers_that_read_others_keys_are_not_cut_off_from_them() {
    let bytes = read(
        &golden()
            .into_iter()
            .find(|p| p.ends_with("gemma3n.gguf"))
            .unwrap(),
    );
    let blueprint = Blueprint::new(&set(&bytes), LoadOptions::default()).unwrap();
    let config = blueprint.config();
    let bad = (1..config.layers.len()).find(|&layer| !config.can_cut(layer));
    let first = bad.expect("some layers share keys");
    let end = config.layers.len();
    let refused = stretch(
        &bytes,
        Stretch {
            first,
            end,
            ends: false,
        },
    )
    .err()
    .unwrap();
    assert!(
        refused.to_string().contains("read keys and values"),
        "{refused}"
    );
}

#[test]
fn blocks_of_another_machine_are_checked() {
    let bytes = read(
        &golden()
            .into_iter()
            .find(|p| p.ends_with("lfm2.gguf"))
            .unwrap(),
    );
    let blueprint = Blueprint::new(&set(&bytes), LoadOptions::default()).unwrap();
    let layers = blueprint.config().layers.len();
    let mut stretch = stretch(
        &bytes,
        Stretch {
            first: 0,
            end: layers,
            ends: true,
        },
    )
    .unwrap();
    let mut table = stretch.storage().table();
    let own = (0..layers)
        .filter(|&l| table.layout().blocks(l).is_some())
        .count();
    let page = PageId::new(1);
    assert!(!table.holds(page, Reach::Everything));
    assert!(
        !table.mirror(page, &vec![u32::MAX - 1; own]),
        "no such block"
    );
    assert!(!table.mirror(page, &vec![0; own + 1]), "no such layer");
    assert!(
        !table.mirror(PageId::new(u32::MAX), &vec![0; own]),
        "no such page"
    );
    assert!(table.mirror(page, &(0..own as u32).collect::<Vec<_>>()));
    assert!(table.holds(page, Reach::Everything));
    assert!(table.mirror(page, &vec![u32::MAX; own]));
    assert!(!table.holds(page, Reach::Everything));
    // A copy within the machine's own storage, and its states.
    let second: Vec<u32> = (own as u32..2 * own as u32).collect();
    assert!(table.mirror(page, &(0..own as u32).collect::<Vec<_>>()));
    assert!(table.mirror(PageId::new(2), &second));
    let layout = table.layout().clone();
    let bytes: Vec<u8> = (0..layout.page_bytes()).map(|i| i as u8).collect();
    let storage = stretch.storage_mut();
    storage.write(&table, page, &bytes);
    let copy = PageCopy {
        from: page,
        to: PageId::new(2),
        windows: true,
    };
    storage.copy(&table, copy);
    let mut read = Vec::new();
    storage.read(&table, PageId::new(2), &mut read);
    assert!(read == bytes);
    storage.state_mut(StateId::new(1)).fill(7);
    storage.copy_state(StateId::new(1), StateId::new(0));
    assert!(storage.state(StateId::new(0)).iter().all(|&byte| byte == 7));
}
