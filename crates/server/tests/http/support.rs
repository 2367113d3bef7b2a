//! A server with the built-in model, and the smallest client that can talk to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use strata::worker::LoadedAdapter;
use strata::{Listeners, LoadReport, Parts};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind, Image, KeepAlive, MediaPart, ModelFacts, ModelProfile, Sight};
use strata_engine::{Engine, EngineOptions, ModelDigest};
use strata_host::MonotonicClock;
use strata_kernels::Kernels;
use strata_model::{
    Adapter, AdapterTensor, CpuExecutor, KvType, LoadOptions, Model, PageLayout, PageStorage,
};
use strata_platform::{Inline, SystemMemory};
use strata_quant::GgmlType;
use strata_server::{Access, Bound, Budgets, Listening, Models, Relay, Settings};
use strata_tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};
use tokio::sync::oneshot;

static TALE: &[u8] = include_bytes!("../../../../models/tale/tale-q4_k_m.gguf");

/// The same model under several names, and how often each was loaded.
pub(crate) struct TestModels {
    names: &'static [&'static str],
    limit: u64,
    pub(crate) loads: AtomicUsize,
    /// The images that the model "sees" was shown.
    pub(crate) seen: Seen,
}

/// Notes the images that it is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<Vec<u8>>>>);

impl Seen {
    /// The images since it was last asked.
    pub(crate) fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Sight for Seen {
    fn see(&self, image: &Image) -> Result<Vec<MediaPart>, Fault> {
        self.0.lock().unwrap().push(image.bytes.clone());
        Ok(vec![MediaPart::Text("a picture".into())])
    }

    fn placeholder(&self) -> &str {
        "\u{fdd2}"
    }
}

impl TestModels {
    fn facts(name: &str) -> ModelFacts {
        ModelFacts {
            name: name.into(),
            slots: 8,
            context: 512,
            ..ModelFacts::default()
        }
    }
}

impl Models for TestModels {
    fn list(&self) -> Vec<ModelFacts> {
        self.names.iter().map(|name| Self::facts(name)).collect()
    }

    fn find(&self, name: Option<&str>) -> Result<ModelFacts, Fault> {
        let name = name.unwrap_or(self.names[0]);
        if self.names.contains(&name) {
            Ok(Self::facts(name))
        } else {
            Err(Fault {
                field: Some("model".into()),
                ..Fault::new(FaultKind::NotFound, "there is no such model")
            })
        }
    }

    fn memory(&self, _: &str, context: Option<usize>) -> Result<u64, Fault> {
        // One that is too large for any machine.
        Ok(if context.is_some_and(|n| n > 1 << 20) {
            u64::MAX
        } else {
            1
        })
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn transcriber(&self) -> Option<strata::Transcriber> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_speech");
        let open = |name| strata::Transcriber::open(folder.join(name), Some(1)).unwrap();
        let kinds = [("hears", "whisper.gguf"), ("spells", "hubert.gguf")];
        let found = kinds.iter().find(|(name, _)| self.names.contains(name));
        found.map(|(_, file)| open(file))
    }

    fn open(
        &self,
        name: &str,
        context: Option<usize>,
        mut listening: Listening,
    ) -> Result<strata::Model, Fault> {
        let context = context.unwrap_or(512);
        self.loads.fetch_add(1, Ordering::SeqCst);
        if name.starts_with("slow") {
            (listening.progress)(1, 4);
            std::thread::sleep(Duration::from_millis(800));
        }
        if name.ends_with("broken") {
            return Err(Fault::new(FaultKind::Internal, "the model is broken"));
        }
        let file = GgufSet::new(vec![Gguf::parse(TALE).unwrap()]).unwrap();
        let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata()).unwrap());
        let template = file.metadata().str("tokenizer.chat_template").unwrap();
        let options = LoadOptions {
            context: Some(context),
            ..LoadOptions::default()
        };
        let model = Model::load(&file, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap();
        let options = EngineOptions {
            context,
            batch: 64,
            requests: 8,
            scoring: 16,
            ..EngineOptions::default()
        };
        let adapters = vec![adapter(&model)];
        let layout = PageLayout::new(model.config(), KvType::F16);
        let storage = PageStorage::new(layout, 4096, options.states(), &SystemMemory).unwrap();
        let executor = CpuExecutor::new(
            Arc::new(model),
            Kernels::detect(),
            Arc::new(Inline),
            storage,
            options.limits(),
        );
        let engine = Engine::new(Box::new(executor), Arc::clone(&tokenizer), options)
            .with_clock(Arc::new(MonotonicClock::default()))
            .with_digest(ModelDigest([7; 32]));
        let mut profile = ModelProfile::new(tokenizer, template, context);
        if name == "other" {
            profile.stop.push(" ".into());
        }
        if name == "sees" {
            profile.sight = Some(Arc::new(self.seen.clone()));
        }
        let parts = Parts {
            engine,
            profile: Arc::new(profile),
            facts: Self::facts(name),
            adapters,
            turns: Arc::default(),
            settle: Box::new(|| {}),
            load: LoadReport::default(),
        };
        Ok(strata::Model::from_parts(parts, listeners(listening))?)
    }
}

/// A change to the queries of the first layer, off unless it is asked for.
fn adapter(model: &Model) -> LoadedAdapter {
    let config = model.config();
    let (width, queries) = (
        config.width as u64,
        (config.attention().next().unwrap().q_width()) as u64,
    );
    let bytes = |n: u64| -> Vec<u8> {
        let values = (0..n).map(|i| ((i * 7919) % 13) as f32 / 13.0 - 0.5);
        values.flat_map(f32::to_le_bytes).collect()
    };
    let (a, b) = (bytes(width * 2), bytes(queries * 2));
    let tensors = [
        AdapterTensor {
            name: "blk.0.attn_q.weight.lora_a",
            ty: GgmlType::F32,
            dims: &[width, 2],
            data: &a,
        },
        AdapterTensor {
            name: "blk.0.attn_q.weight.lora_b",
            ty: GgmlType::F32,
            dims: &[2, queries],
            data: &b,
        },
    ];
    LoadedAdapter {
        path: "test.gguf".into(),
        adapter: Arc::new(Adapter::new(32.0, &tensors, model).unwrap()),
        scale: 0.0,
    }
}

fn listeners(listening: Listening) -> Listeners<'static> {
    Listeners {
        monitor: Some(listening.monitor),
        ended: Some(listening.ended),
        progress: None,
    }
}

/// A server that is stopped when it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) models: Arc<TestModels>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with(Access::default(), &["tale"], u64::MAX)
    }

    pub(crate) fn with(access: Access, names: &'static [&'static str], limit: u64) -> Self {
        let settings = Settings {
            access,
            ..Settings::default()
        };
        Self::with_settings(settings, names, limit)
    }

    pub(crate) fn with_settings(
        settings: Settings,
        names: &'static [&'static str],
        limit: u64,
    ) -> Self {
        let models = Arc::new(TestModels {
            names,
            limit,
            loads: AtomicUsize::new(0),
            seen: Seen::default(),
        });
        let budgets = if settings.budgets == Budgets::SERVER {
            Budgets {
                body_bytes: 1 << 20,
                head: Duration::from_secs(2),
                body_grace: Duration::from_secs(2),
                ..Budgets::SERVER
            }
        } else {
            settings.budgets
        };
        let settings = Settings {
            budgets,
            drain: Duration::from_secs(20),
            ..settings
        };
        let keep = KeepAlive::For(Duration::from_secs(60));
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let served: Arc<dyn Models> = models.clone();
        let bound = Bound::new(address, settings, served, keep, None).unwrap();
        Self::run(bound, models)
    }

    /// A relay to replicas at these addresses.
    pub(crate) fn relay(replicas: &[SocketAddr], access: Access) -> Self {
        let urls = replicas.iter().map(|address| format!("http://{address}"));
        let urls = urls.map(|url| url.parse().unwrap()).collect();
        let settings = Settings {
            access,
            drain: Duration::from_secs(20),
            ..Settings::default()
        };
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let bound = Bound::relay(address, settings, Relay::new(urls), None).unwrap();
        let models = Arc::new(TestModels {
            names: &[],
            limit: 0,
            loads: AtomicUsize::new(0),
            seen: Seen::default(),
        });
        Self::run(bound, models)
    }

    fn run(bound: Bound, models: Arc<TestModels>) -> Self {
        let address = bound.address().unwrap();
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            let stopped = async {
                let _ = stopped.await;
            };
            bound.run(stopped).unwrap();
        };
        Self {
            address,
            models,
            stop: Some(stop),
            thread: Some(std::thread::spawn(run)),
        }
    }

    /// Asks the server to stop, without waiting for it.
    pub(crate) fn begin_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// Sends bytes as they are and reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        Answer::parse(&self.raw(request.as_bytes()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, "", body)
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let lines = text
            .lines()
            .filter(|line| line.starts_with(&format!("{name}{{")));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.sum()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.begin_to_stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let chunked = head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked");
        Self {
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: if chunked { unchunk(body) } else { body.into() },
        }
    }

    pub(crate) fn json(&self) -> Json {
        Json::parse(self.body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The text of a chat's answer.
    pub(crate) fn content(&self) -> String {
        let json = self.json();
        let choices = json.get("choices").and_then(Json::as_array);
        let message = choices.and_then(|c| c.first()?.get("message")?.get("content")?.as_str());
        message.unwrap_or_else(|| panic!("{}", self.body)).into()
    }
}

fn unchunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            break;
        };
        // Sizes count bytes, and a chunk may end inside a character only if the server made a mistake.
        let Some(chunk) = rest.get(..size) else { break };
        text.push_str(chunk);
        body = rest.get(size + 2..).unwrap_or("");
    }
    text
}

/// Reads one reply of a connection that stays open, and gives its status.
pub(crate) fn read_reply(stream: &mut TcpStream) -> u16 {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).expect("a reply in time");
        assert!(read > 0, "the server closed the connection");
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
        let whole = match length {
            Some(length) => body.len() >= length,
            None => body.ends_with("0\r\n\r\n"),
        };
        if whole {
            return head
                .split(' ')
                .nth(1)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0);
        }
    }
}
