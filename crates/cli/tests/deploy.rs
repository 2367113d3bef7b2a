//! What is deployed names flags, routes and variables that there are.

use crate::program::strata;
use std::path::{Path, PathBuf};
use std::process::Command;

fn deployed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The words of a file that are flags or variables of the program.
fn named(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split([' ', '"', '=', ',']));
    let own = |word: &&str| {
        word.starts_with("--") && !word.starts_with("---")
            || word.starts_with("STRATA_")
            || word.starts_with("OLLAMA_") && *word != "OLLAMA_MODELS"
    };
    words.filter(own).map(str::to_owned).collect()
}

#[test]
fn flags_and_variables_exist() {
    let help = strata(&["serve", "--help"]).text();
    for file in ["strata.service", "kubernetes.yaml", "kubernetes-fleet.yaml"] {
        let names = named(&deployed(file));
        assert!(names.len() > 3, "{file}: {names:?}");
        for name in names {
            assert!(help.contains(&name), "{file} names {name}");
        }
    }
}

#[test]
fn probes_ask_for_routes_that_need_no_key() {
    let text = deployed("kubernetes.yaml");
    let paths = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("path: "));
    let paths: Vec<&str> = paths.collect();
    assert_eq!(paths.len(), 3);
    for path in paths {
        assert!(strata_wire::dialect::needs_no_key("GET", path), "{path}");
    }
    for file in ["strata.service", "kubernetes.yaml"] {
        assert!(deployed(file).contains("11434"), "{file}");
    }
}

/// The unit as systemd reads it, where systemd is at hand.
#[test]
fn systemd_understands_the_unit() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    }
    let folder = std::env::temp_dir().join(format!("strata-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file: PathBuf = folder.join("strata.service");
    let unit = deployed("strata.service");
    let unit = unit.replace("/usr/local/bin/strata", env!("CARGO_BIN_EXE_strata"));
    std::fs::write(&file, unit).unwrap();
    let socket = folder.join("strata.socket");
    std::fs::write(&socket, deployed("strata.socket")).unwrap();
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args([&file, &socket])
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    let about_it: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("strata"))
        .collect();
    assert!(verify.status.success() && about_it.is_empty(), "{said}");
}
