//! What this machine computes fastest with, found by trying: measured when a model is first loaded, and kept beside the
//! store for as long as the processor stays the same. None of it shows in a result.

use super::machine::Machine;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use strata_host::MonotonicClock;
use strata_kernels::{Choice, Kernels, Tiles};
use strata_model::{Compute, GgmlType, Model, TypeTuning};
use strata_platform::Pool;
use strata_store::Store;

/// A file in the store's folder.
const FILE: &str = "tuning.json";

/// What pays for the weights of a model, and how long it took to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    types: Vec<TypeTuning>,
    measured_in_ms: Option<u128>,
    tiles: Tiles,
}

impl std::fmt::Display for Tuning {
    /// One line; empty where there is nothing to say.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = String::new();
        for found in &self.types {
            let comma = if line.is_empty() { "" } else { "; " };
            write!(line, "{comma}{}: ", found.ty)?;
            let choice = found.choice;
            match choice.distance {
                0 => line += "no prefetch",
                bytes => write!(line, "prefetch {bytes} bytes ahead")?,
            }
            let (pass, kib) = (choice.pass, choice.resident_kib);
            write!(line, ", {pass} tokens a pass over {kib} KiB")?;
            match (self.tiles, choice.tiles_from) {
                (Tiles::Off, _) => {}
                (_, Choice::NEVER) => line += ", no tiles",
                (tiles, from) => write!(line, ", {} tiles from {from} tokens", tiles.name())?,
            }
        }
        if let Some(time) = self.measured_in_ms {
            write!(line, " (measured in {time} ms)")?;
        }
        f.write_str(&line)
    }
}

impl Machine {
    /// What earlier loads on this machine have measured.
    pub fn kept_tuning(&self) -> Tuning {
        let kept = self.kept_file().map(|path| read(&path, &self.key()));
        let kept = kept.unwrap_or_default();
        let all = GgmlType::ALL.iter();
        Tuning {
            types: all.filter_map(|&ty| found(&kept, ty)).collect(),
            measured_in_ms: None,
            tiles: self.kernels.policy().tiles(),
        }
    }

    /// Where measurements are kept.
    fn kept_file(&self) -> Option<PathBuf> {
        let store = Store::open_default().ok()?;
        Some(store.root().join(FILE))
    }

    fn key(&self) -> Value {
        key(self.kernels, self.pool.workers())
    }

    /// Sets the kernels up for a model: as was measured before, or as is measured now; variables of the
    /// environment override it.
    pub fn tune(&self, model: &Model) -> Tuning {
        let types = model.measurable_types();
        let (path, key) = (self.kept_file(), self.key());
        let mut kept = match &path {
            Some(path) if !types.is_empty() => read(path, &key),
            _ => Map::new(),
        };
        let policy = self.kernels.policy();
        let mut tuning = Tuning {
            types: Vec::new(),
            measured_in_ms: None,
            tiles: policy.tiles(),
        };
        let start = Instant::now();
        for ty in types {
            let found = found(&kept, ty).unwrap_or_else(|| {
                let found = self.measure(model, ty);
                kept.insert(ty.name().into(), entry(found.choice));
                tuning.measured_in_ms = Some(start.elapsed().as_millis());
                found
            });
            policy.set(ty, found.choice);
            tuning.types.push(found);
        }
        if let (Some(path), Some(_)) = (path, tuning.measured_in_ms) {
            // Where it cannot be kept it is measured again the next time.
            let _ = write(&path, &key, kept);
        }
        if !self.overrides.is_empty() {
            for &ty in GgmlType::ALL {
                let mut choice = policy.get(ty);
                self.overrides.apply(&mut choice);
                policy.set(ty, choice);
            }
            let found = tuning.types.iter_mut();
            found.for_each(|found| found.choice = policy.get(found.ty));
        }
        tuning
    }

    fn measure(&self, model: &Model, ty: GgmlType) -> TypeTuning {
        let pool = self.pool_in_turns();
        let compute = Compute {
            kernels: self.kernels,
            pool: &*pool,
        };
        model.tune(ty, compute, &MonotonicClock::default())
    }
}

/// What is kept of a type.
fn found(kept: &Map<String, Value>, ty: GgmlType) -> Option<TypeTuning> {
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let kept = kept.get(ty.name())?;
    let choice = Choice {
        distance: number(&kept["prefetch"])?,
        pass: number(&kept["pass"])?,
        resident_kib: number(&kept["resident_kib"])?,
        tiles_from: number(&kept["tiles_from"])?,
    };
    Some(TypeTuning { ty, choice })
}

/// A choice as it is kept.
fn entry(choice: Choice) -> Value {
    json!({
        "prefetch": choice.distance,
        "pass": choice.pass,
        "resident_kib": choice.resident_kib,
        "tiles_from": choice.tiles_from,
    })
}

/// What the measurements hold for.
fn key(kernels: &Kernels, workers: usize) -> Value {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut lines = cpuinfo.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        value.map_or(String::new(), |value| value.trim().into())
    };
    json!({
        "processor": field("model name"),
        "family": field("cpu family"),
        "model": field("model\t"),
        "microcode": field("microcode"),
        "instructions": kernels.isa().name(),
        "tiles": kernels.policy().tiles().name(),
        "workers": workers,
    })
}

/// What was measured on this machine.
fn read(path: &Path, key: &Value) -> Map<String, Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    match serde_json::from_str::<Value>(&text) {
        Ok(mut file) if file["machine"] == *key => match file["types"].take() {
            Value::Object(types) => types,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}

/// Keeps it: in a new file that takes the old one's place, so that nobody reads half of one.
fn write(path: &Path, key: &Value, types: Map<String, Value>) -> std::io::Result<()> {
    let text = format!("{:#}\n", json!({"machine": key, "types": types}));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let new: PathBuf = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_holds_for_the_machine_it_was_measured_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store").join(FILE);
        let key = key(Kernels::detect(), 2);
        assert!(read(&path, &key).is_empty(), "nothing is kept yet");
        let choice = Choice {
            distance: 2304,
            pass: 4,
            resident_kib: 512,
            tiles_from: Choice::NEVER,
        };
        // What an earlier version kept lacks choices.
        let types = json!({"Q4_K": entry(choice), "Q6_K": {"prefetch": 0}});
        write(&path, &key, types.as_object().unwrap().clone()).unwrap();
        let q4_k = TypeTuning {
            ty: GgmlType::Q4_K,
            choice,
        };
        assert_eq!(found(&read(&path, &key), GgmlType::Q4_K), Some(q4_k));
        assert_eq!(found(&read(&path, &key), GgmlType::Q6_K), None);
        let mut other = key.clone();
        other["microcode"] = json!("another");
        assert!(read(&path, &other).is_empty());
        std::fs::write(&path, "{\"machine\"").unwrap();
        assert!(
            read(&path, &key).is_empty(),
            "a damaged file is measured anew"
        );
    }

    #[test]
    fn the_line_names_each_type() {
        let of = |ty, distance, tiles_from| TypeTuning {
            ty,
            choice: Choice {
                distance,
                tiles_from,
                ..Choice::default()
            },
        };
        let mut tuning = Tuning {
            types: vec![
                of(GgmlType::Q4_K, 4608, 32),
                of(GgmlType::Q6_K, 0, Choice::NEVER),
            ],
            measured_in_ms: Some(70),
            tiles: Tiles::Off,
        };
        assert_eq!(
            tuning.to_string(),
            "Q4_K: prefetch 4608 bytes ahead, 8 tokens a pass over 128 KiB; \
             Q6_K: no prefetch, 8 tokens a pass over 128 KiB (measured in 70 ms)"
        );
        tuning.tiles = Tiles::Amx;
        let line = tuning.to_string();
        assert!(line.contains("128 KiB, amx tiles from 32 tokens; Q6_K"));
        assert!(line.contains("128 KiB, no tiles (measured"));
        tuning.types.clear();
        tuning.measured_in_ms = None;
        assert_eq!(tuning.to_string(), "");
    }
}
