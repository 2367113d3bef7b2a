//! The store itself: names, copies, removal, checks, and models made of files.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use strata_store::{
    Base, Digest, Finding, Modelfile, Name, Recipe, Repair, Store, StoreError, media_type, quietly,
};
use strata_weights::GgmlType;
use strata_weights::gguf::Builder;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// A GGUF file of some weights.
fn gguf(path: &Path, weights: u64) {
    let mut builder = Builder::new();
    builder.set("general.architecture", "llama").unwrap();
    builder.set("general.file_type", 0u32).unwrap();
    builder
        .tensor("output_norm.weight", GgmlType::F32, &[weights])
        .unwrap();
    let layout = builder.finish().unwrap();
    let mut file = layout.header.clone();
    file.resize(layout.total_len as usize, 0);
    fs::write(path, file).unwrap();
}

fn created() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    gguf(&folder.path().join("w.gguf"), 1500);
    let store = Store::open(folder.path().join("models"));
    let file: Modelfile =
        "FROM ./w.gguf\nSYSTEM Be brief.\nPARAMETER stop <end>\nPARAMETER temperature 0.5\n\
                           LICENSE MIT\nMESSAGE user hi\nTEMPLATE {{ .Prompt }}"
            .parse()
            .unwrap();
    let recipe = Recipe::from_modelfile(&file, folder.path()).unwrap();
    store
        .create(&name("me/made"), &recipe, &mut quietly)
        .unwrap();
    (folder, store)
}

fn blobs(store: &Store) -> Vec<String> {
    let entries = fs::read_dir(store.root().join("blobs")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_created_model_has_the_bytes_that_ollama_would_write() {
    let (folder, store) = created();
    let digest = |bytes: &[u8]| (Digest::of(bytes), bytes.len());
    let weights = fs::read(folder.path().join("w.gguf")).unwrap();
    let kind = |kind: &str| format!("application/vnd.ollama.image.{kind}");
    let layers = [
        (kind("model"), digest(&weights)),
        (kind("template"), digest(b"{{ .Prompt }}")),
        (kind("system"), digest(b"Be brief.")),
        (kind("license"), digest(b"MIT")),
        (
            kind("params"),
            digest(b"{\"stop\":[\"\\u003cend\\u003e\"],\"temperature\":0.5}\n"),
        ),
        (
            kind("messages"),
            digest(b"[{\"role\":\"user\",\"content\":\"hi\"}]\n"),
        ),
    ];
    let ids: Vec<String> = layers
        .iter()
        .map(|(_, (digest, _))| format!("\"{digest}\""))
        .collect();
    let config = format!(
        "{{\"model_format\":\"gguf\",\"model_family\":\"llama\",\"model_families\":[\"llama\"],\"model_type\":\"2K\",\
         \"file_type\":\"F32\",\"architecture\":\"amd64\",\"os\":\"linux\",\
         \"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[{}]}}}}\n",
        ids.join(",")
    );
    let layer = |(kind, (digest, size)): &(String, (Digest, usize))| {
        format!("{{\"mediaType\":\"{kind}\",\"digest\":\"{digest}\",\"size\":{size}}}")
    };
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\
         \"config\":{},\"layers\":[{}]}}\n",
        layer(&(
            "application/vnd.docker.container.image.v1+json".into(),
            digest(config.as_bytes())
        )),
        layers.iter().map(layer).collect::<Vec<_>>().join(",")
    );
    let path = store
        .root()
        .join("manifests/registry.ollama.ai/me/made/latest");
    assert_eq!(fs::read_to_string(path).unwrap(), manifest);
    let mut expected: Vec<String> = layers
        .iter()
        .map(|(_, (digest, _))| digest.file_name())
        .collect();
    expected.push(digest(config.as_bytes()).0.file_name());
    expected.sort();
    assert_eq!(blobs(&store), expected);
    for blob in expected {
        let bytes = fs::read(store.root().join("blobs").join(&blob)).unwrap();
        assert_eq!(Digest::of(&bytes).file_name(), blob);
    }
}

#[test]
fn a_model_made_of_another_shares_its_layers_and_overrides_them() {
    let (_folder, store) = created();
    let recipe = Recipe {
        bases: vec![Base::Model(name("me/made"))],
        system: Some("Be long.".into()),
        parameters: serde_json::from_str("{\"temperature\":1,\"top_k\":5}").unwrap(),
        ..Recipe::default()
    };
    store
        .create(&name("child:v2"), &recipe, &mut quietly)
        .unwrap();
    let (parent, child) = (
        store.find(&name("me/made")).unwrap(),
        store.find(&name("child:v2")).unwrap(),
    );
    assert_eq!(child.weights().unwrap(), parent.weights().unwrap());
    assert_eq!(child.system().unwrap().as_deref(), Some("Be long."));
    assert_eq!(child.template().unwrap().as_deref(), Some("{{ .Prompt }}"));
    assert_eq!(child.messages().unwrap().len(), 1);
    assert_eq!(child.config().unwrap().family, "llama");
    let parameters = serde_json::to_string(&child.parameters().unwrap()).unwrap();
    assert_eq!(
        parameters,
        "{\"stop\":[\"<end>\"],\"temperature\":1,\"top_k\":5}"
    );
    assert_eq!(
        child.manifest.layers[0].from.as_deref(),
        Some("me/made:latest")
    );
    let shown = child.modelfile().unwrap().to_string();
    assert_eq!(shown.parse::<Modelfile>().unwrap().to_string(), shown);
}

#[test]
fn removal_takes_only_what_nobody_else_needs() {
    let (_folder, store) = created();
    store.copy(&name("me/made"), &name("other:x")).unwrap();
    let before = blobs(&store);
    // Upper and lower case make no difference.
    store.remove(&name("ME/Made")).unwrap();
    assert_eq!(blobs(&store), before);
    let names: Vec<String> = store
        .list()
        .unwrap()
        .models
        .iter()
        .map(|m| m.name.to_string())
        .collect();
    assert_eq!(names, ["other:x"]);
    store.remove(&name("other:x")).unwrap();
    assert!(blobs(&store).is_empty());
    assert_eq!(
        fs::read_dir(store.root().join("manifests"))
            .unwrap()
            .count(),
        0
    );
    let error = store.remove(&name("other:x")).unwrap_err();
    assert!(matches!(error, StoreError::NoSuchModel(_)));
}

#[test]
fn nothing_is_collected_while_a_manifest_cannot_be_read() {
    let (_folder, store) = created();
    let path = store
        .root()
        .join("manifests/registry.ollama.ai/library/torn/latest");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "{\"schemaVersion\":2,\"lay").unwrap();
    let before = blobs(&store);
    store.remove(&name("me/made")).unwrap();
    assert_eq!(blobs(&store), before, "the torn one might need them");
    assert_eq!(store.list().unwrap().faults.len(), 1);
}

#[test]
fn a_check_finds_damage_and_repairs_what_it_can() {
    let (_folder, store) = created();
    assert_eq!(store.check(Repair::No, &mut quietly).unwrap(), []);
    let model = store.find(&name("me/made")).unwrap();
    let weights = model.weights().unwrap().remove(0);
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&weights, bytes).unwrap();
    let mut stray = store.blob_writer().unwrap();
    stray.write(b"stray").unwrap();
    let (stray, _) = stray.finish(None).unwrap();
    let old = SystemTime::now() - Duration::from_secs(7200);
    fs::File::options()
        .write(true)
        .open(store.blob_path(&stray))
        .unwrap()
        .set_modified(old)
        .unwrap();

    let damaged = model.manifest.layers[0].digest;
    let expected = [
        Finding::Damaged(damaged),
        Finding::Incomplete(name("me/made"), damaged),
        Finding::Unneeded(stray, 5),
    ];
    assert_eq!(store.check(Repair::No, &mut quietly).unwrap(), expected);
    assert_eq!(store.check(Repair::Yes, &mut quietly).unwrap(), expected);
    assert!(!store.has_blob(&damaged) && !store.has_blob(&stray));
    let left = [Finding::Incomplete(name("me/made"), damaged)];
    assert_eq!(store.check(Repair::No, &mut quietly).unwrap(), left);
}

#[test]
fn uploads_must_be_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let mut blob = store.blob_writer().unwrap();
    blob.write(b"other").unwrap();
    let expected = Digest::of(b"bytes");
    let error = blob.finish(Some(expected)).unwrap_err();
    assert!(matches!(error, StoreError::WrongDigest { .. }), "{error}");
    assert!(!store.has_blob(&expected));
    assert_eq!(
        fs::read_dir(folder.path().join(".strata/tmp"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn what_is_no_model_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("models"));
    fs::write(folder.path().join("text.gguf"), "no model").unwrap();
    fs::create_dir(folder.path().join("hf")).unwrap();
    let missing = fs::read("./none.gguf").unwrap_err().to_string();
    for (from, expected) in [
        ("./text.gguf", "not a GGUF file"),
        ("./none.gguf", missing.as_str()),
        ("./hf", "is a folder"),
        ("missing-model", "no model missing-model:latest"),
        (
            "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "no blob",
        ),
        ("a b", "cannot have"),
    ] {
        let file: Modelfile = format!("FROM {from}").parse().unwrap();
        let made = Recipe::from_modelfile(&file, folder.path())
            .and_then(|recipe| store.create(&name("x"), &recipe, &mut quietly));
        let error = made.unwrap_err().to_string();
        assert!(error.contains(expected), "{from}: {error}");
        assert!(store.list().unwrap().models.is_empty());
    }
}

#[test]
#[cfg(unix)]
fn links_out_of_the_store_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (folder, store) = created();
    let secret = folder.path().join("secret");
    fs::write(&secret, "do not show").unwrap();
    let model = store.find(&name("me/made")).unwrap();
    let replaced = |kind: &str| {
        let blob = store.blob_path(&model.manifest.layer(kind).unwrap().digest);
        let kept = blob.with_extension("kept");
        fs::rename(&blob, &kept).unwrap();
        symlink(&secret, &blob).unwrap();
        (blob, kept)
    };
    for kind in [
        media_type::MODEL,
        media_type::TEMPLATE,
        media_type::SYSTEM,
        media_type::LICENSE,
        media_type::PARAMS,
        media_type::MESSAGES,
    ] {
        let (blob, kept) = replaced(kind);
        let error = match kind {
            media_type::MODEL => model.weights().unwrap_err(),
            media_type::TEMPLATE => model.template().unwrap_err(),
            media_type::SYSTEM => model.system().unwrap_err(),
            media_type::LICENSE => model.licenses().unwrap_err(),
            media_type::PARAMS => model.parameters().unwrap_err(),
            _ => model.messages().unwrap_err(),
        };
        assert!(matches!(error, StoreError::NotAFile(_)), "{kind}: {error}");
        let copied = store.copy(&name("me/made"), &name("copy")).unwrap_err();
        assert!(matches!(copied, StoreError::MissingBlob { .. }), "{copied}");
        let found = store.check(Repair::No, &mut quietly).unwrap();
        assert!(
            found.contains(&Finding::NotAFile(blob.clone())),
            "{found:?}"
        );
        fs::rename(kept, blob).unwrap();
    }
    let manifest = store.root().join("manifests/registry.ollama.ai/me/made");
    fs::copy(manifest.join("latest"), &secret).unwrap();
    symlink(&secret, manifest.join("linked")).unwrap();
    let error = store.find(&name("me/made:linked")).unwrap_err();
    assert!(matches!(error, StoreError::NotAFile(_)), "{error}");
}

#[test]
fn a_manifest_without_weights_is_no_model_but_can_be_removed() {
    let (_folder, store) = created();
    let path = store.root().join("manifests/registry.ollama.ai/me/cloud");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("latest"), "{\"schemaVersion\":2,\"layers\":[]}").unwrap();
    let listing = store.list().unwrap();
    assert_eq!(listing.models.len(), 1);
    assert!(matches!(listing.faults[..], [StoreError::NoWeights(_)]));
    let error = store.find(&name("me/cloud")).unwrap_err();
    assert!(matches!(error, StoreError::NoWeights(_)), "{error}");
    // It is known what it needs, so the others' blobs can be collected.
    store.remove(&name("me/made")).unwrap();
    assert!(blobs(&store).is_empty());
    store.remove(&name("me/cloud")).unwrap();
    assert!(store.list().unwrap().faults.is_empty());
}
