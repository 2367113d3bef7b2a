//! The options of a model, as a JSON object.

use strata::chat_types::Fault;
use strata::chat_types::json::{Fields, Json, JsonPath};
use strata::{
    Device, DeviceLost, Drafts, Error, GpuLayers, KvType, Mix, Options, PeerKey, Peers, Stream,
};

const KV: [(&str, KvType); 3] = [
    ("f16", KvType::F16),
    ("q8_0", KvType::Q8_0),
    ("f32", KvType::F32),
];

const STREAM: [(&str, Stream); 3] = [
    ("auto", Stream::Auto),
    ("never", Stream::Never),
    ("always", Stream::Always),
];

const DRAFTS: [(&str, Drafts); 2] = [("mtp", Drafts::Nextn), ("auto", Drafts::Auto)];

const DEVICE_LOST: [(&str, DeviceLost); 2] = [("stop", DeviceLost::Stop), ("cpu", DeviceLost::Cpu)];

/// How a model is opened, and what of it is no option of the library's.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) options: Options,
    /// Where a number is given.
    pub(crate) threads: Option<usize>,
    /// Whether images are fetched from the addresses that requests name.
    pub(crate) image_urls: bool,
}

/// Reads options. Nothing at all is the defaults.
pub(crate) fn options(json: &[u8]) -> Result<Chosen, Error> {
    if json.is_empty() {
        return Ok(Chosen::default());
    }
    let fields = Fields::new(Json::parse(json)?, JsonPath::root());
    Ok(read(fields.map_err(|_| {
        Fault::bad_request("the options must be a JSON object")
    })?)?)
}

fn read(mut fields: Fields) -> Result<Chosen, Fault> {
    let mut options = Options::default();
    match fields.take("memory") {
        None => {}
        Some(Json::Int(bytes)) if bytes > 0 => options = options.memory(&bytes.to_string()),
        Some(value) => options = options.memory(&fields.at("memory").string(value)?),
    }
    if let Some(stream) = fields.maybe_word("stream", &STREAM)? {
        options = options.stream(stream);
    }
    let threads = number(&mut fields, "threads", 1..=1024)?;
    if let Some(threads) = threads {
        options = options.threads(threads);
    }
    if let Some(tokens) = number(&mut fields, "batch", 1..=16_384)? {
        options = options.batch(tokens);
    }
    if let Some(kind) = fields.maybe_word("kv", &KV)? {
        options = options.kv(kind);
    }
    if let Some(tokens) = number(&mut fields, "context", 1..=i64::from(u32::MAX))? {
        options = options.context(tokens);
    }
    if let Some(requests) = number(&mut fields, "requests", 1..=65_536)? {
        options = options.requests(requests);
    }
    let mixes: Vec<(&str, Mix)> = Mix::ALL.iter().map(|mix| (mix.name(), *mix)).collect();
    if let Some(mix) = fields.maybe_word("quantize", &mixes)? {
        options = options.quantize(mix);
    }
    if let Some(tokens) = number(&mut fields, "max_draft", 0..=64)? {
        options = options.max_draft(tokens);
    }
    if let Some(drafts) = fields.maybe_word("drafts", &DRAFTS)? {
        options = options.drafts(drafts);
    }
    if let Some(model) = fields.maybe_string("draft_model")? {
        options = options.draft_model(model);
    }
    if let Some(file) = fields.maybe_string("projector")? {
        options = options.projector(file);
    }
    if let Some(device) = fields.maybe_string("device")? {
        let device = device.parse::<Device>();
        options = options
            .device(device.map_err(|problem| Fault::bad_request(format!("device: {problem}")))?);
    }
    if let Some(layers) = number(&mut fields, "gpu_layers", 1..=i64::from(u32::MAX))? {
        options = options.gpu_layers(GpuLayers::Last(layers));
    }
    if let Some(lost) = fields.maybe_word("device_lost", &DEVICE_LOST)? {
        options = options.device_lost(lost);
    }
    for (path, item) in fields.items("adapters")? {
        options = match item {
            Json::String(file) => options.adapter(file, 0.0),
            item => {
                let mut adapter = path.object(item)?;
                let file = adapter.string("path")?;
                let scale = adapter.maybe_number("scale", f64::MIN..=f64::MAX)?;
                adapter.finish()?;
                options.adapter(file, scale.unwrap_or(0.0) as f32)
            }
        };
    }
    if let Some(mut cache) = fields.maybe_object("cache")? {
        let folder = cache.string("folder")?;
        let bytes = cache.maybe_integer("bytes", 1..=i64::MAX)?;
        let bytes = bytes.ok_or_else(|| cache.missing("bytes"))?;
        cache.finish()?;
        options = options.cache(folder, bytes as u64);
    }
    if let Some(saved) = fields.maybe_boolean("sessions")? {
        options = options.sessions(saved);
    }
    if let Some(peers) = fields.maybe_object("peers")? {
        options = options.peers(read_peers(peers)?);
    }
    let image_urls = fields.maybe_boolean("image_urls")?.unwrap_or(false);
    fields.finish()?;
    Ok(Chosen {
        options,
        threads,
        image_urls,
    })
}

/// The machines that have some of the model's layers.
fn read_peers(mut fields: Fields) -> Result<Peers, Fault> {
    let mut addresses = Vec::new();
    for (path, item) in fields.items("addresses")? {
        addresses.push(path.string(item)?);
    }
    if addresses.is_empty() {
        return Err(fields.missing("addresses"));
    }
    let key = fields.string("key")?;
    let key = PeerKey::new(&key)
        .map_err(|error| Fault::field(&fields.at("key"), format_args!("{error}")))?;
    let mut peers = Peers::new(addresses, key);
    let mut counts = Vec::new();
    for (path, item) in fields.items("layers")? {
        match item {
            Json::Int(count @ 0..=65_535) => counts.push(count as usize),
            _ => {
                return Err(Fault::field(
                    &path,
                    format_args!("must be a number of layers"),
                ));
            }
        }
    }
    if !counts.is_empty() {
        peers = peers.layers(counts);
    }
    fields.finish()?;
    Ok(peers)
}

fn number(
    fields: &mut Fields,
    name: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<Option<usize>, Fault> {
    let value = fields.maybe_integer(name, range)?;
    Ok(value.map(|number| number as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_read() {
        let all = br#"{"memory":"6G","stream":"never","threads":2,"batch":64,"kv":"q8_0","context":512,"requests":3,
            "quantize":"q4_k_m","max_draft":4,"drafts":"auto","draft_model":"small.gguf","projector":"eyes.gguf","device":"cuda:0,1","gpu_layers":7,"device_lost":"cpu","adapters":["a.gguf",{"path":"b.gguf","scale":0.5}],
            "cache":{"folder":"here","bytes":1000},"sessions":true,"image_urls":true,
            "peers":{"addresses":["near:11435","[::1]:1"],"key":"a secret word","layers":[2,1,1]}}"#;
        let Chosen {
            options,
            threads,
            image_urls,
        } = options(all).unwrap();
        assert_eq!((threads, image_urls), (Some(2), true));
        let shown = format!("{options:?}");
        let parts = [
            "Never",
            "Q8_0",
            "512",
            "drafts: Auto",
            "small.gguf",
            "eyes.gguf",
            "Cuda([0, 1])",
            "Last(7)",
            "device_lost: Cpu",
            "b.gguf",
            "here",
            "near:11435",
            "[2, 1, 1]",
        ];
        assert!(!shown.contains("a secret word"), "{shown}");
        for part in parts {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn what_is_no_option_is_named() {
        for (json, part) in [
            (r#"{"memroy":"6G"}"#, "memroy"),
            (r#"{"kv":"f8"}"#, "f16"),
            (r#"{"threads":0}"#, "threads"),
            (r#"{"device":"tpu"}"#, "cuda:N"),
            (r#"{"gpu_layers":0}"#, "gpu_layers"),
            (r#"{"device_lost":"gpu"}"#, "device_lost"),
            (r#"{"adapters":[{"scale":1}]}"#, "adapters[0].path"),
            (r#"{"cache":{"folder":"x"}}"#, "cache.bytes"),
            (r#"{"image_urls":"yes"}"#, "image_urls"),
            (r#"{"peers":{"key":"a secret word"}}"#, "peers.addresses"),
            (
                r#"{"peers":{"addresses":["a:1"],"key":"short"}}"#,
                "peers.key",
            ),
            (
                r#"{"peers":{"addresses":["a:1"],"key":"a secret word","layers":["2"]}}"#,
                "peers.layers[0]",
            ),
            ("[]", "JSON object"),
            ("{", "JSON"),
        ] {
            let error = options(json.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(part), "{json}: {error}");
            assert_eq!(error.code(), "invalid_argument");
        }
    }
}
