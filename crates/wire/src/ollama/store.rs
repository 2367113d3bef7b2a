//! What changes the models that there are: pull, push, create, copy, delete, blobs.

use super::{chat, errors, model};
use crate::answer::{Framing, Reply};
use crate::call::{Call, Copying, Create, ProgressWriter, Step, Transfer};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Fault, Progress};

pub(super) fn pull(body: &[u8]) -> Result<Call, Fault> {
    let (transfer, report) = transfer(body)?;
    Ok(Call::Pull(transfer, report))
}

pub(super) fn push(body: &[u8]) -> Result<Call, Fault> {
    let (transfer, report) = transfer(body)?;
    Ok(Call::Push(transfer, report))
}

fn transfer(body: &[u8]) -> Result<(Transfer, Box<dyn ProgressWriter>), Fault> {
    let mut fields = Fields::parse(body)?;
    let transfer = Transfer {
        model: model(&mut fields)?,
        insecure: fields.maybe_boolean("insecure")?.unwrap_or(false),
    };
    let report = LineReport::read(&mut fields)?;
    fields.finish()?;
    Ok((transfer, Box::new(report)))
}

pub(super) fn create(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let mut create = Create {
        model: model(&mut fields)?,
        from: given(fields.maybe_string("from")?),
        files: blobs(&mut fields, "files")?,
        adapters: blobs(&mut fields, "adapters")?,
        template: given(fields.maybe_string("template")?),
        licenses: licenses(&mut fields)?,
        system: given(fields.maybe_string("system")?),
        messages: chat::messages(&mut fields)?,
        quantize: given(fields.maybe_string("quantize")?),
        ..Create::default()
    };
    let path = fields.at("parameters");
    create.parameters = match fields.take("parameters") {
        None => Vec::new(),
        Some(Json::Object(pairs)) => pairs,
        Some(other) => return Err(path.expected("an object", &other)),
    };
    let report = LineReport::read(&mut fields)?;
    if create.from.is_none() && create.files.is_empty() {
        let problem = format_args!("or files is required: what the model is made of");
        return Err(Fault::field(&fields.at("from"), problem));
    }
    fields.finish()?;
    Ok(Call::Create(Box::new(create), Box::new(report)))
}

fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Names of files with the digests of their blobs. A name says what a file is; it must not say where to put it.
fn blobs(fields: &mut Fields, name: &str) -> Result<Vec<(String, String)>, Fault> {
    let path = fields.at(name);
    let pairs = match fields.take(name) {
        None => return Ok(Vec::new()),
        Some(Json::Object(pairs)) => pairs,
        Some(other) => return Err(path.expected("an object", &other)),
    };
    let blob = |(file, value): (String, Json)| {
        let at = path.field(&file);
        let outside = |part: &str| matches!(part, "" | "." | "..");
        if file.contains(['\\', '\0', ':']) || file.split('/').any(outside) {
            let problem = format_args!("is not the name of a file inside a folder");
            return Err(Fault::field(&at, problem));
        }
        let text = at.string(value)?;
        let digest = digest(&text, &at)?;
        Ok((file, digest))
    };
    pairs.into_iter().map(blob).collect()
}

/// `sha256:` and 64 hexadecimal digits, of which the digits are given.
fn digest(text: &str, path: &JsonPath) -> Result<String, Fault> {
    let digits = ["sha256:", "sha256-"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix));
    let hexadecimal = |digits: &&str| {
        let lower = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == 64 && digits.bytes().all(lower)
    };
    digits.filter(hexadecimal).map(Into::into).ok_or_else(|| {
        let problem = format_args!("must be sha256: and 64 lower-case hexadecimal digits");
        Fault::field(path, problem)
    })
}

fn licenses(fields: &mut Fields) -> Result<Vec<String>, Fault> {
    let path = fields.at("license");
    match fields.take("license") {
        None => Ok(Vec::new()),
        Some(Json::String(text)) => Ok(given(Some(text)).into_iter().collect()),
        Some(list @ Json::Array(_)) => path.strings(list),
        Some(other) => Err(path.expected("a string or an array of strings", &other)),
    }
}

pub(super) fn copy(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let copying = Copying {
        source: fields.string("source")?,
        destination: fields.string("destination")?,
    };
    fields.finish()?;
    Ok(Call::Copy(copying, Box::new(|()| Reply::text(""))))
}

pub(super) fn delete(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let name = model(&mut fields)?;
    fields.finish()?;
    Ok(Call::Delete(name, Box::new(|()| Reply::text(""))))
}

pub(super) fn blob_exists(name: &str) -> Result<Call, Fault> {
    let digest = digest(name, &JsonPath::root().field("digest"))?;
    let with_status = |status| Reply {
        status,
        ..Reply::text("")
    };
    let write = move |exists: &bool| with_status(if *exists { 200 } else { 404 });
    Ok(Call::BlobExists(digest, Box::new(write)))
}

pub(super) fn blob_upload(name: &str) -> Result<Call, Fault> {
    let digest = digest(name, &JsonPath::root().field("digest"))?;
    let created = |(): &()| Reply {
        status: 201,
        ..Reply::text("")
    };
    Ok(Call::BlobUpload(digest, Box::new(created)))
}

/// `{"status": …}` a line, or only the last.
struct LineReport {
    stream: bool,
}

impl LineReport {
    fn read(fields: &mut Fields) -> Result<Self, Fault> {
        let stream = fields.maybe_boolean("stream")?.unwrap_or(true);
        Ok(Self { stream })
    }
}

impl ProgressWriter for LineReport {
    fn framing(&self) -> Framing {
        if self.stream {
            Framing::Lines
        } else {
            Framing::Whole
        }
    }

    fn step(&mut self, step: &Step, out: &mut Vec<u8>) {
        let line = match step {
            Step::Progress(_) | Step::Failed(_) if !self.stream => return,
            Step::Progress(progress) => told(progress),
            Step::Done => Json::object([("status", "success".into())]),
            Step::Failed(fault) => errors::document(fault),
        };
        line.write(out);
        if self.stream {
            out.push(b'\n');
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }
}

fn told(progress: &Progress) -> Json {
    let mut line = Json::object([("status", progress.status.as_str().into())]);
    if let Some(digest) = &progress.digest {
        line.push("digest", digest.as_str());
    }
    for (key, bytes) in [("total", progress.total), ("completed", progress.completed)] {
        if let Some(bytes) = bytes {
            line.push(key, bytes);
        }
    }
    line
}
