//! Models of the Hugging Face hub and of plain addresses, from a server on loopback that looks like them.

use crate::loopback;

use crate::loopback::{Manners, Registry, network};
use strata_store::{Digest, Network, Store, StoreError, media_type, quietly};
use strata_weights::GgmlType;
use strata_weights::gguf::Builder;

fn gguf(architecture: &str, weights: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    builder.set("general.architecture", architecture).unwrap();
    builder
        .tensor("output_norm.weight", GgmlType::F32, &[weights])
        .unwrap();
    let layout = builder.finish().unwrap();
    let mut file = layout.header.clone();
    file.resize(layout.total_len as usize, 0);
    file
}

/// A hub with one repository of these files.
fn hub(files: &[(&str, Vec<u8>)]) -> (Registry, Network) {
    let server = Registry::start();
    let mut served = server.state.files.lock().unwrap();
    let siblings: Vec<String> = files
        .iter()
        .map(|(path, bytes)| {
            served.insert(format!("/u/r-GGUF/resolve/abc123/{path}"), bytes.clone());
            let (digest, size) = (Digest::of(bytes).hex(), bytes.len());
            // Small texts are not in the hub's store of large files.
            let lfs = if path.ends_with(".json") {
                String::new()
            } else {
                format!(",\"lfs\":{{\"sha256\":\"{digest}\",\"size\":{size}}}")
            };
            format!("{{\"rfilename\":\"{path}\",\"size\":{size}{lfs}}}")
        })
        .collect();
    let listing = format!(
        "{{\"sha\":\"abc123\",\"siblings\":[{}]}}",
        siblings.join(",")
    );
    served.insert(
        "/api/models/u/r-GGUF/revision/main".into(),
        listing.into_bytes(),
    );
    drop(served);
    let network = Network {
        hub: Some(format!("http://{}", server.host)),
        hub_token: Some("hf_secret".into()),
        ..network()
    };
    (server, network)
}

#[test]
fn a_quantization_of_a_repository_is_pulled_with_its_projector() {
    let (q8, q4, eyes) = (gguf("llama", 9000), gguf("llama", 5000), gguf("clip", 100));
    let (server, network) = hub(&[
        ("r-Q8_0.gguf", q8.clone()),
        ("r-Q4_K_M.gguf", q4.clone()),
        ("mmproj-F16.gguf", eyes.clone()),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    for (name, weights) in [("hf.co/u/r-GGUF", q4), ("hf.co/u/r-GGUF:q8_0", q8)] {
        let pulled = store.pull(name, &network, &mut quietly).unwrap();
        let model = store.find(&pulled).unwrap();
        let on_disk = std::fs::read(&model.weights().unwrap()[0]).unwrap();
        assert_eq!(Digest::of(&on_disk), Digest::of(&weights));
        let projector = model.manifest.layer(media_type::PROJECTOR).unwrap();
        assert_eq!(projector.digest, Digest::of(&eyes));
    }
    let told = |asked: &loopback::Asked| asked.headers.get("authorization").cloned();
    assert!(
        server
            .requests()
            .iter()
            .all(|asked| told(asked).as_deref() == Some("Bearer hf_secret"))
    );
    let error = store
        .pull("hf.co/u/r-GGUF:Q2_K", &network, &mut quietly)
        .unwrap_err();
    assert!(error.to_string().contains("r-Q8_0, r-Q4_K_M"), "{error}");
    let error = store
        .pull("hf.co/u/none", &network, &mut quietly)
        .unwrap_err();
    assert!(matches!(error, StoreError::NotInRegistry(_)), "{error}");
}

#[test]
fn the_hubs_token_is_for_the_hub_alone() {
    let weights = gguf("llama", 700);
    let (server, network) = hub(&[("r-Q4_K_M.gguf", weights.clone())]);
    let storage = Registry::start();
    let path = "/u/r-GGUF/resolve/abc123/r-Q4_K_M.gguf";
    storage
        .state
        .files
        .lock()
        .unwrap()
        .insert(path.into(), weights);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    server.state.files.lock().unwrap().remove(path);
    let missing = store
        .pull("hf.co/u/r-GGUF", &network, &mut quietly)
        .unwrap_err();
    assert!(missing.to_string().contains("404"), "{missing}");
    server
        .state
        .moved
        .lock()
        .unwrap()
        .insert(path.into(), format!("http://{}{path}", storage.host));
    store
        .pull("hf.co/u/r-GGUF", &network, &mut quietly)
        .unwrap();
    assert!(
        storage
            .requests()
            .iter()
            .all(|asked| !asked.headers.contains_key("authorization"))
    );
    assert!(!storage.requests().is_empty());
}

#[test]
fn a_file_at_an_address_becomes_a_model() {
    let server = Registry::start();
    let weights = gguf("llama", 800);
    server
        .state
        .files
        .lock()
        .unwrap()
        .insert("/a/b/small.gguf".into(), weights.clone());
    server
        .state
        .files
        .lock()
        .unwrap()
        .insert("/bad.gguf".into(), b"<html>no model</html>".to_vec());
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let url = format!("http://{}/a/b/small.gguf?download=true", server.host);
    for manners in [Manners::Faithful, Manners::IgnoresRanges] {
        server.behave(manners);
        let name = store.pull(&url, &network(), &mut quietly).unwrap();
        assert_eq!(name.to_string(), server.name("files/small:latest"));
        let model = store.find(&name).unwrap();
        assert_eq!(
            std::fs::read(&model.weights().unwrap()[0]).unwrap(),
            weights
        );
        store.remove(&name).unwrap();
    }
    let bad = format!("http://{}/bad.gguf", server.host);
    let error = store.pull(&bad, &network(), &mut quietly).unwrap_err();
    assert!(error.to_string().contains("not a GGUF file"), "{error}");
    let error = store
        .pull(&bad, &Network::default(), &mut quietly)
        .unwrap_err();
    assert!(error.to_string().contains("without TLS"), "{error}");
    assert!(store.list().unwrap().models.is_empty());
}

#[test]
fn a_checkpoint_of_the_hub_is_fetched_for_whoever_converts_it() {
    let shard = |number: u8| vec![number; 70_000];
    let files = [
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", b"{\"model\":{}}".to_vec()),
        ("model-00001-of-00002.safetensors", shard(1)),
        ("model-00002-of-00002.safetensors", shard(2)),
        ("model.safetensors.index.json", b"{}".to_vec()),
        ("pytorch_model.bin", shard(3)),
        ("onnx/model.onnx", shard(4)),
        ("README.md", b"# Hi".to_vec()),
    ];
    let (server, network) = hub(&files);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path());
    let name = "hf.co/u/r-GGUF";
    let refused = store.pull(name, &network, &mut quietly).unwrap_err();
    assert!(
        matches!(refused, StoreError::OnlyCheckpoint(_)),
        "{refused}"
    );
    let (_, checkpoint) = store.pull_checkpoint(name, &network, &mut quietly).unwrap();
    let names: Vec<&str> = checkpoint.files.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        names,
        [
            "config.json",
            "tokenizer.json",
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        ]
    );
    for (name, path) in &checkpoint.files {
        let (_, bytes) = files.iter().find(|(known, _)| known == name).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), *bytes, "{name}");
    }
    // What nothing needs goes when it is done with.
    let path = checkpoint.files[2].1.clone();
    drop(checkpoint);
    assert!(!path.exists());
    assert!(store.list().unwrap().models.is_empty());
    drop(server);
}
