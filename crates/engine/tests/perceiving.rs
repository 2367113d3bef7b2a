//! Images and audio through the whole engine: what embeds them, how a prompt with them is cut, who runs beside it, whether it
//! is displaced, found again or restored never shows in an answer.

use crate::recurrent::{LOOKUP, alone, assert_all_same};
use crate::recurrent_cache::assert_same;
use crate::stateful::{Machine, Shape, Stateful, assert_no_leak};
use std::path::Path;
use strata_engine::{ModelDigest, Request, Session, Speculation};
use strata_kernels::Kernels;
use strata_model::{
    AudioTower, Compute, EmbeddedRun, Grid, PAGE, Tower, TowerConfig, TowerImage, TowerRows,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// Height and width of an image; none for sound.
type Size = Option<(usize, usize)>;

/// Positions that see each other; plain ones; axes of positions; something for the first layers too; sound.
const KINDS: [(&str, Size); 6] = [
    ("gemma3", Some((24, 24))),
    ("llava", Some((12, 12))),
    ("qwen2vl", Some((18, 30))),
    ("qwen3vl", Some((18, 30))),
    ("qwen2audio", None),
    ("voxtral", None),
];

enum Embedder {
    Image(Box<Tower>, usize, usize),
    Sound(Box<AudioTower>),
}

/// A model and what embeds for it.
struct Perceiving {
    name: &'static str,
    text: Stateful,
    embedder: Embedder,
}

impl Perceiving {
    fn load((name, size): (&'static str, Size)) -> Self {
        let folder = if size.is_some() {
            "golden_vision"
        } else {
            "golden_audio"
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../model/tests")
            .join(folder);
        let projector = std::fs::read(folder.join(format!("{name}.mmproj.gguf"))).unwrap();
        let set = GgufSet::new(vec![Gguf::parse(&projector).unwrap()]).unwrap();
        let embedder = match size {
            Some((height, width)) => {
                let tower = Tower::load(&set, &SystemMemory, &Inline).unwrap();
                Embedder::Image(Box::new(tower), height, width)
            }
            None => {
                let tower = AudioTower::load(&set, &SystemMemory, &Inline).unwrap();
                Embedder::Sound(Box::new(tower))
            }
        };
        Self {
            name,
            text: Stateful::of_file(&folder.join(format!("{name}.gguf"))),
            embedder,
        }
    }

    /// What a machine makes of an image or a sound that a number stands for.
    fn run(&self, machine: Machine, number: u8) -> EmbeddedRun {
        let pool = machine.pool();
        let compute = Compute {
            kernels: Kernels::for_isa(machine.isa).unwrap(),
            pool: &*pool,
        };
        let noise = |len: usize| -> Vec<f32> {
            let wave = |i: usize| ((i * i * 7 + i * usize::from(number) * 13) % 97) as f32;
            (0..len).map(|i| wave(i) / 48.0 - 1.0).collect()
        };
        let mut run = EmbeddedRun {
            start: 0,
            len: 0,
            rows: [].into(),
            digest: [number; 32],
            mutual: false,
            grid: None,
        };
        let mut width = self.text.model.config().width;
        match &self.embedder {
            Embedder::Image(tower, height, columns) => {
                let pixels = noise(3 * height * columns);
                let image = TowerImage {
                    pixels: &pixels,
                    height: *height,
                    width: *columns,
                };
                let TowerRows { rows, grid } = tower.embed(&compute, image).unwrap();
                let config: &TowerConfig = tower.config();
                width = config.row();
                run.mutual = config.mutual_in(self.text.model.config());
                run.grid = config.axes.then_some::<Grid>(grid);
                run.rows = rows.into();
            }
            Embedder::Sound(tower) => {
                let config = tower.config();
                let frames = config.frames();
                let mut rows = Vec::new();
                for sound in [frames, frames - 9] {
                    let window = noise(frames * config.bands);
                    rows.extend(tower.hear(&compute, &window, sound).unwrap());
                }
                run.rows = rows.into();
            }
        }
        run.len = run.rows.len() / width;
        run
    }

    /// A prompt of text, an image or sound, text, another one, text; greedy if the seed is even, else sampled.
    fn request(&self, machine: Machine, seed: u64, before: usize, more: usize) -> Request {
        let mut request = self.text.request(seed, before, more);
        for number in [2 * seed as u8, 2 * seed as u8 + 1] {
            let mut run = self.run(machine, number);
            run.start = request.prompt.len();
            let placeholders = std::iter::repeat_n(7, run.len);
            request.prompt.extend(placeholders);
            request.images.push(run);
            request.prompt.extend(self.text.prompt(seed + 50, 5));
        }
        request
    }

    /// Batches that have room for positions that see each other.
    fn batches(&self) -> [usize; 3] {
        if self.name == "gemma3" {
            [24, 40, 512]
        } else {
            [7, 33, 512]
        }
    }

    /// Batches and chunks of several sizes, with and without drafts, on these machines in turn.
    fn assert_no_difference(&self, machines: &[Machine]) {
        let first = Machine::all()[0];
        let plain: Vec<Request> = (0..4)
            .map(|seed| self.request(first, seed, 1 + 17 * seed as usize, 20))
            .collect();
        let alone = alone(&self.text, &plain);
        let shapes = self.batches().into_iter().zip([3, 4, 1]);
        for ((batch, slots), machine) in shapes.zip(machines.iter().cycle()) {
            let shape = Shape {
                batch,
                requests: slots,
                max_draft: 8,
                machine: *machine,
                states: Some(0),
                ..Shape::default()
            };
            let mut here = plain.clone();
            for (seed, request) in here.iter_mut().enumerate() {
                *request = self.request(*machine, seed as u64, 1 + 17 * seed, 20);
                let bits = |request: &Request| -> Vec<u32> {
                    let rows = request.images.iter().flat_map(|run| run.rows.iter());
                    rows.map(|x| x.to_bits()).collect()
                };
                assert!(bits(request) == bits(&plain[seed]), "{}", self.name);
            }
            assert_all_same(&self.text, shape, &here, &alone);
            for request in &mut here {
                request.speculation = LOOKUP;
            }
            assert_all_same(&self.text, shape, &here, &alone);
        }
    }

    /// More requests than there are pages for.
    fn displace(&self, machine: Machine) {
        let requests: Vec<Request> = (0..4)
            .map(|seed| self.request(machine, seed, 3 + 9 * seed as usize, 40))
            .collect();
        let alone = alone(&self.text, &requests);
        let shape = Shape {
            pages: 6,
            batch: 64,
            requests: 4,
            machine,
            states: Some(0),
            ..Shape::default()
        };
        assert_all_same(&self.text, shape, &requests, &alone);
    }

    /// The same beginning again, with other pixels or samples, and a turn after it; then a session, saved and restored.
    fn go_on(&self, machine: Machine) {
        let shape = Shape {
            batch: 64,
            max_draft: 6,
            machine,
            states: Some(0),
            ..Shape::default()
        };
        let name = self.name;
        let digest = ModelDigest([7; 32]);
        let mut engine = self.text.engine(shape).with_digest(digest);
        let first = self.request(machine, 2, PAGE + 8, 10);
        assert_eq!(assert_same(&self.text, &mut engine, &first), 0, "{name}");
        let mut other = first.clone();
        let number = 90;
        let run = self.run(machine, number);
        other.images[0] = EmbeddedRun {
            start: first.images[0].start,
            ..run
        };
        let cached = assert_same(&self.text, &mut engine, &other);
        assert_eq!(cached, PAGE + 8, "{name}: the text before is the same");
        let mut turn = first.clone();
        turn.prompt.extend(self.text.alone(&first).tokens);
        turn.prompt.extend([3, 4, 5]);
        turn.speculation = Speculation::PromptLookup { max_draft: 6 };
        let cached = assert_same(&self.text, &mut engine, &turn);
        assert_eq!(cached, first.prompt.len() + 9, "{name}");

        let settings = self.request(machine, 3, PAGE + 3, 8);
        let mut session = Session::open(settings.clone());
        session.run(&mut engine, &mut |_| {}).unwrap();
        session.append(&[4, 5]);
        let saved = session.save(&mut engine);
        let expected = self.text.alone(&session.request()).tokens;
        let here = session.run(&mut engine, &mut |_| {}).unwrap();
        assert_eq!(here.tokens, expected, "{name}");
        let mut there = self.text.engine(shape).with_digest(digest);
        let mut restored = Session::restore(&mut there, settings, &saved).unwrap();
        let same = restored.run(&mut there, &mut |_| {}).unwrap();
        assert_eq!(same.tokens, expected, "{name}");
        // Pages with images and sound stay behind.
        assert_eq!(same.usage.cached_tokens, PAGE, "{name}");
        restored.forget(&mut there);
        assert_no_leak(&mut there, shape);
        assert_no_leak(&mut engine, shape);
    }
}

#[test]
fn how_images_and_sound_are_computed_never_shows() {
    let machines = Machine::all();
    for (index, kind) in KINDS.into_iter().enumerate() {
        let model = Perceiving::load(kind);
        let mut turned = machines.clone();
        turned.rotate_left(3 * index % machines.len());
        model.assert_no_difference(&turned);
        model.displace(turned[0]);
        model.go_on(turned[machines.len() - 1]);
    }
}

/// `cargo test -p strata-engine --release --test engine -- --ignored every_machine`.
#[test]
#[ignore = "takes a minute"]
fn every_machine_perceives_the_same() {
    for kind in KINDS {
        let model = Perceiving::load(kind);
        for machine in Machine::all() {
            model.assert_no_difference(&[machine]);
            model.displace(machine);
            model.go_on(machine);
        }
    }
}
