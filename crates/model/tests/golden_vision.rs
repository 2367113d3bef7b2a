//! Towers, projectors and whole models that see, against Hugging Face `transformers`: tiny random models, f32 weights.
//!
//! `tests/golden_vision/README.md` says how the files were made.

use crate::running::{Runner, base64, check_page, page_row, read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{
    BatchError, BatchLimits, Compute, EmbeddedRun, Grid, KvPages, KvType, LoadError, LoadOptions,
    Model, Output, Sequence, Span, Tiling, Tower, TowerError, TowerImage, TowerRows, TowerSpec,
    Workspace,
};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 1e-3;

struct Case {
    name: String,
    tower: Tower,
    model: Model,
    pixels: Vec<f32>,
    height: usize,
    width: usize,
    grid: Grid,
    /// How the pixels, which are several images', are tiles of one.
    tiling: Option<Tiling>,
    start: usize,
    tokens: Vec<u32>,
    embedded: Vec<f32>,
    logits: Vec<f32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_vision")
}

fn floats(json: &serde_json::Value, name: &str) -> Vec<f32> {
    let bytes = base64(json[name].as_str().unwrap());
    let floats = bytes.chunks_exact(4);
    floats
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn tower(file: &[u8]) -> Result<Tower, LoadError> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    Tower::load(&set, &SystemMemory, &Inline)
}

impl Case {
    fn read(path: &Path) -> Self {
        let json: serde_json::Value = serde_json::from_slice(&read(path)).unwrap();
        let number = |name: &str| json[name].as_u64().unwrap() as usize;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let file = read(&folder().join(format!("{name}.mmproj.gguf")));
        let text = read(&folder().join(format!("{name}.gguf")));
        let set = GgufSet::new(vec![Gguf::parse(&text).unwrap()]).unwrap();
        let model = Model::load(
            &set,
            LoadOptions::default(),
            &SystemMemory,
            &Inline,
            &mut |_, _| {},
        );
        let tokens = json["tokens"].as_array().unwrap().iter();
        Self {
            tower: tower(&file).unwrap_or_else(|error| panic!("{name}: {error}")),
            model: model.unwrap_or_else(|error| panic!("{name}: {error}")),
            pixels: floats(&json, "pixels_f32_le_base64"),
            height: number("height"),
            width: number("width"),
            grid: Grid {
                rows: number("rows"),
                columns: number("columns"),
            },
            tiling: json.get("tiling").map(|tiling| {
                let number = |name: &str| tiling[name].as_u64().unwrap() as usize;
                Tiling {
                    tiles: Grid {
                        rows: number("rows"),
                        columns: number("columns"),
                    },
                    height: number("height"),
                    width: number("width"),
                }
            }),
            start: number("start"),
            tokens: tokens.map(|t| t.as_u64().unwrap() as u32).collect(),
            embedded: floats(&json, "embedded_f32_le_base64"),
            logits: floats(&json, "logits_f32_le_base64"),
            name,
        }
    }

    fn all() -> Vec<Self> {
        let entries = std::fs::read_dir(folder()).unwrap();
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn images(&self) -> impl Iterator<Item = TowerImage<'_>> {
        let one = 3 * self.height * self.width;
        self.pixels.chunks_exact(one).map(|pixels| TowerImage {
            pixels,
            height: self.height,
            width: self.width,
        })
    }

    fn image(&self) -> TowerImage<'_> {
        self.images().next().unwrap()
    }

    fn embed(&self, kernels: &'static Kernels, pool: &dyn Pool) -> Vec<f32> {
        let images = self.images();
        let images = images.map(|image| {
            let rows = self.tower.embed(&Compute { kernels, pool }, image).unwrap();
            assert_eq!(rows.grid, self.grid, "{}", self.name);
            rows
        });
        let mut images: Vec<TowerRows> = images.collect();
        match self.tiling {
            Some(tiling) => self.tower.join(&images, tiling).unwrap(),
            None => images.remove(0).rows,
        }
    }

    /// The image among the tokens.
    fn run(&self, rows: &[f32]) -> EmbeddedRun {
        let config = self.tower.config();
        EmbeddedRun {
            start: self.start,
            len: rows.len() / config.row(),
            rows: rows.into(),
            digest: [1; 32],
            mutual: config.mutual_in(self.model.config()),
            grid: config.axes.then_some(self.grid),
        }
    }

    fn logits(&self, kernels: &'static Kernels, pool: &dyn Pool, cuts: &[usize]) -> Vec<f32> {
        let runs = [self.run(&self.embedded)];
        let mut runner = Runner::new(&self.model, kernels, pool, KvType::F32, 96);
        let mut logits = Vec::new();
        let mut from = 0;
        for &to in cuts.iter().chain([&self.tokens.len()]) {
            let tokens = &self.tokens[from..to];
            logits.extend(runner.feed_embedded(tokens, &runs, Output::AllLogits));
            from = to;
        }
        logits
    }
}

fn bits(floats: &[f32]) -> Vec<u32> {
    assert!(floats.iter().all(|x| x.is_finite()));
    floats.iter().map(|x| x.to_bits()).collect()
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn embeddings_and_logits_are_those_of_transformers() {
    let cases = Case::all();
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for name in TowerSpec::names() {
        let of_family = |case: &&Case| case.tower.config().family == name;
        let mut largest = 0.0f32;
        assert!(cases.iter().any(|case| of_family(&case)), "{name}");
        for case in cases.iter().filter(of_family) {
            let embedded = case.embed(Kernels::detect(), &Inline);
            let logits = case.logits(Kernels::detect(), &Inline, &[]);
            for (what, found, expected) in [
                ("embeddings", &embedded, &case.embedded),
                ("logits", &logits, &case.logits),
            ] {
                let worst = worst(found, expected);
                let name = &case.name;
                if worst.is_nan() || worst > TOLERANCE {
                    wrong.push(format!("{name}: {what} differ by {worst}"));
                }
                largest = largest.max(worst);
            }
        }
        let reference = match name {
            "resampler" => "transformers; queries in PyTorch",
            _ => "transformers",
        };
        rows.push(page_row(name, &[reference.into()], largest));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    check_page("towers", &rows);
}

#[test]
fn threads_and_instruction_sets_give_the_same_bits() {
    let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
    let pool = ThreadPool::new(Some(3)).unwrap();
    for case in Case::all() {
        let expected = bits(&case.embed(scalar, &Inline));
        assert!(bits(&case.embed(Kernels::detect(), &pool)) == expected);
        let expected = bits(&case.logits(scalar, &Inline, &[]));
        assert!(bits(&case.logits(Kernels::detect(), &pool, &[])) == expected);
    }
}

#[test]
fn a_prompt_with_an_image_gives_the_same_bits_however_it_is_cut() {
    for case in Case::all() {
        let kernels = Kernels::detect();
        let whole = bits(&case.logits(kernels, &Inline, &[]));
        let run = case.run(&case.embedded);
        let (start, end) = (run.start, run.range().end);
        let mut cuts = vec![
            vec![2],
            vec![start],
            vec![start, end],
            vec![2, end, end + 1],
        ];
        if !run.mutual {
            cuts.push(vec![start + 1, start + 3, end - 1]);
        }
        for cuts in cuts {
            let found = bits(&case.logits(kernels, &Inline, &cuts));
            assert!(found == whole, "{}: {cuts:?}", case.name);
        }
    }
}

#[test]
fn another_image_gives_other_logits() {
    for case in Case::all() {
        let other: Vec<f32> = case.embedded.iter().map(|x| x + 0.5).collect();
        let width = case.model.config().vocabulary;
        let runs = [case.run(&other)];
        let kernels = Kernels::detect();
        let mut runner = Runner::new(&case.model, kernels, &Inline, KvType::F32, 96);
        let logits = runner.feed_embedded(&case.tokens, &runs, Output::AllLogits);
        let before = case.start * width;
        let same = worst(&logits[..before], &case.logits[..before]);
        let moved = worst(&logits[before..], &case.logits[before..]);
        assert!(same <= TOLERANCE, "{}: {same}", case.name);
        assert!(moved > 10.0 * TOLERANCE, "{}: {moved}", case.name);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = Case::read(&folder().join("gemma3.json"));
    let limits = BatchLimits {
        tokens: 64,
        logits: 1,
    };
    let refused = |tokens: &[u32], runs: &[EmbeddedRun]| {
        let config = case.model.config();
        let mut kv = KvPages::new(config, KvType::F32, 96, &SystemMemory).unwrap();
        let mut work = Workspace::new(&case.model, limits, 1);
        let mut sequence = Sequence::default();
        kv.reserve(&mut sequence, tokens.len()).unwrap();
        let span = Span {
            sequence: &mut sequence,
            tokens,
            output: Output::LastLogits,
            adapter: None,
            embedded: runs,
        };
        let compute = Compute {
            kernels: Kernels::detect(),
            pool: &Inline,
        };
        let outputs = case
            .model
            .forward(&compute, &mut kv, &mut work, &mut [span]);
        outputs.map(|_| ()).unwrap_err()
    };
    let run = case.run(&case.embedded);
    let cut = refused(&case.tokens[..case.start + 3], std::slice::from_ref(&run));
    assert!(matches!(cut, BatchError::CutRun { .. }), "{cut}");
    let short = EmbeddedRun {
        rows: Arc::from(&case.embedded[1..]),
        ..run
    };
    let short = refused(&case.tokens, &[short]);
    assert!(matches!(short, BatchError::Embedded { .. }), "{short}");

    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    let narrow = TowerImage {
        width: case.width - 3,
        ..case.image()
    };
    let refused = case.tower.embed(&compute, narrow).unwrap_err();
    assert!(matches!(refused, TowerError::Size { .. }), "{refused}");
    let pixels = TowerImage {
        pixels: &case.pixels[1..],
        ..case.image()
    };
    let refused = case.tower.embed(&compute, pixels).unwrap_err();
    assert!(matches!(refused, TowerError::Pixels { .. }), "{refused}");
    let tiled = Case::read(&folder().join("llava-next.json"));
    let tile = tiled.tower.embed(&compute, tiled.image()).unwrap();
    let two = [tile.clone(), tile];
    let refused = tiled.tower.join(&two, tiled.tiling.unwrap()).unwrap_err();
    assert!(matches!(refused, TowerError::Tiles { .. }), "{refused}");
    let free = Case::read(&folder().join("qwen2vl.json"));
    let crooked = TowerImage {
        width: free.width - 3,
        ..free.image()
    };
    let refused = free.tower.embed(&compute, crooked).unwrap_err();
    assert!(matches!(refused, TowerError::Patches { .. }), "{refused}");
}

#[test]
fn pictures_that_are_not_of_whole_tiles_are_refused() {
    let file = read(&folder().join("llava-next.mmproj.gguf"));
    let key = b"clip.vision.image_grid_pinpoints";
    let at = file.windows(key.len()).position(|w| w == key).unwrap();
    // Behind the key: the types of the array and its elements, and their number.
    let first = at + key.len() + 4 + 4 + 8;
    for side in [0u8, 13, 24] {
        let mut file = file.clone();
        file[first] = side;
        let loaded = tower(&file).map(|_| ());
        match side {
            24 => assert_eq!(loaded, Ok(())),
            _ => {
                let refused = loaded.unwrap_err().to_string();
                assert!(refused.contains("whole tiles"), "{refused}");
            }
        }
    }
}

#[test]
fn files_that_are_no_towers_are_refused_by_name() {
    let text = read(&folder().join("llava.gguf"));
    let refused = tower(&text).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("\"llama\""), "{refused}");
    let mut file = read(&folder().join("idefics3.mmproj.gguf"));
    let at = file.windows(8).rposition(|w| w == b"idefics3").unwrap();
    file[at..at + 8].copy_from_slice(b"ideficsX");
    let refused = tower(&file).map(|_| ()).unwrap_err().to_string();
    let says = ["ideficsX", "gemma3", "qwen2.5vl_merger"];
    assert!(says.iter().all(|name| refused.contains(name)), "{refused}");
}
