//! What a program is made of, as CycloneDX 1.6 in JSON: every package that is compiled into it, with its licence and the
//! digest that the lock file pins, and the built-in model.

use super::archive::sha256;
use crate::command::{cargo, root};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const PROGRAM: &str = "strata-cli";
const TALE: &str = "models/tale/tale-q4_k_m.gguf";

pub(super) fn write(target: &str, path: &Path) -> Result<()> {
    let mut command = cargo("metadata --locked --format-version 1 --filter-platform");
    let output = command.arg(target).current_dir(root()).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {error}");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let lock = std::fs::read_to_string(root().join("Cargo.lock"))?;
    let tale = sha256(&root().join(TALE))?;
    let document = document(&metadata, &checksums(&lock), &tale)?;
    let text = serde_json::to_string_pretty(&document)? + "\n";
    Ok(std::fs::write(path, text)?)
}

/// The digests of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |key: &str| {
            let mut lines = package.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
            value.strip_suffix('"').map(String::from)
        };
        if let (Some(name), Some(version), Some(sum)) =
            (field("name"), field("version"), field("checksum"))
        {
            sums.insert((name, version), sum);
        }
    }
    sums
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key]
        .as_str()
        .with_context(|| format!("cargo's metadata has no {key}"))
}

/// What is linked into the program: what packages depend on when they are neither built nor tested.
fn linked<'a>(metadata: &'a Value, program: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut found = BTreeMap::new();
    let mut next = vec![program];
    while let Some(id) = next.pop() {
        if found.contains_key(id) {
            continue;
        }
        let normal = |dep: &&Value| {
            let mut kinds = list(&dep["dep_kinds"]).iter();
            kinds.any(|kind| kind["kind"].is_null())
        };
        let deps = nodes.get(id).map_or(&[][..], |node| list(&node["deps"]));
        let deps: BTreeSet<&str> = deps
            .iter()
            .filter(normal)
            .filter_map(|dep| dep["pkg"].as_str())
            .collect();
        next.extend(&deps);
        found.insert(id, deps.into_iter().collect());
    }
    found
}

fn document(
    metadata: &Value,
    sums: &BTreeMap<(String, String), String>,
    tale: &str,
) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let program = packages
        .iter()
        .find(|(_, package)| package["name"] == PROGRAM);
    let (program, _) = program.context("the program is no package of the workspace")?;
    let linked = linked(metadata, program);
    let reference = |id: &str| -> Result<String> {
        let package = packages.get(id).context("a package is missing")?;
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        Ok(format!("pkg:cargo/{name}@{version}"))
    };
    let mut components = Vec::new();
    for id in linked.keys().filter(|id| *id != program) {
        let package = packages[id];
        let (name, version) = (text(package, "name")?, text(package, "version")?);
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(id)?,
            "name": name,
            "version": version,
            "purl": reference(id)?,
        });
        if let Some(license) = package["license"].as_str() {
            // The slash is cargo's spelling of long ago.
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(sum) = sums.get(&(name.into(), version.into())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        components.push(component);
    }
    components.push(json!({
        "type": "machine-learning-model",
        "bom-ref": "tale",
        "name": "tale",
        "hashes": [{ "alg": "SHA-256", "content": tale }],
    }));
    let mut dependencies = Vec::new();
    for (id, deps) in &linked {
        let deps = deps.iter().map(|dep| reference(dep));
        let mut deps = deps.collect::<Result<Vec<_>>>()?;
        if id == program {
            deps.push("tale".into());
        }
        dependencies.push(json!({ "ref": reference(id)?, "dependsOn": deps }));
    }
    dependencies.push(json!({ "ref": "tale" }));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": reference(program)?,
            "name": "strata",
            "version": packages[program]["version"],
            "licenses": [{ "expression": packages[program]["license"] }],
        } },
        "components": components,
        "dependencies": dependencies,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_is_not_is_left_out() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let node = |id: &str, deps: &[(&str, Value)]| {
            let deps: Vec<Value> = deps
                .iter()
                .map(|(id, kind)| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] }))
                .collect();
            json!({ "id": id, "deps": deps })
        };
        let metadata = json!({
            "packages": [package(PROGRAM), package("used"), package("deep"), package("tested"), package("builds")],
            "resolve": { "nodes": [
                node(PROGRAM, &[("used", Value::Null), ("tested", json!("dev")), ("builds", json!("build"))]),
                node("used", &[("deep", Value::Null)]),
                node("deep", &[]),
                node("tested", &[]),
                node("builds", &[]),
            ] },
        });
        let lock =
            "version = 4\n[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let document = document(&metadata, &checksums(lock), "cd").unwrap();
        let components = list(&document["components"]);
        let names: Vec<_> = components.iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, ["deep", "used", "tale"]);
        assert_eq!(components[0]["hashes"][0]["content"], "ab");
        assert_eq!(
            components[0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        let used = list(&document["dependencies"]);
        let used = used.iter().find(|d| d["ref"] == "pkg:cargo/used@1.0.0");
        assert_eq!(used.unwrap()["dependsOn"], json!(["pkg:cargo/deep@1.0.0"]));
    }
}
