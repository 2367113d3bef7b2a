//! The seeds of a target: files of its own folder, committed test files of the parsers, and what can be made.

use crate::Target;
use std::fs;
use std::path::{Path, PathBuf};

/// Longer files make slow seeds.
const LONGEST: u64 = 64 << 10;

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of a target's own seeds. Inputs that failed once are kept there too.
pub fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(target.name)
}

/// All seeds of a target, always in the same order.
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let mut seeds = files(&folder(target), "");
    for (folder, ending) in target.more_seeds {
        seeds.extend(files(&repository().join(folder), ending));
    }
    seeds.extend((target.made_seeds)());
    seeds
}

fn files(folder: &Path, ending: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let short = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= LONGEST);
        short && name.ends_with(ending)
    };
    let mut paths: Vec<PathBuf> = paths.filter(wanted).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::ALL;

    #[test]
    fn every_target_has_seeds_and_a_folder_belongs_to_a_target() {
        for target in ALL {
            assert!(!seeds(target).is_empty(), "{} has no seeds", target.name);
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
        for entry in fs::read_dir(root).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(Target::find(&name).is_some(), "{name} is no target");
        }
    }

    #[test]
    fn every_target_is_a_program_for_libfuzzer() {
        let manifest = fs::read_to_string(repository().join("fuzz/Cargo.toml")).unwrap();
        let lines = manifest.split("[[bin]]").skip(1);
        let programs: Vec<&str> = lines.filter_map(|bin| bin.split('"').nth(1)).collect();
        let targets: Vec<&str> = ALL.iter().map(|target| target.name).collect();
        assert_eq!(programs, targets);
    }
}
