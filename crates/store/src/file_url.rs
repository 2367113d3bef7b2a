//! Models at plain addresses: `https://host/path/model.gguf`.

use crate::create::{Base, Recipe};
use crate::error::StoreError;
use crate::fetch::{Fetch, again};
use crate::name::Name;
use crate::net::{Client, Method, NetError, Url};
use crate::progress::{OnProgress, Progress};
use crate::store::Store;

/// Whose models of plain addresses are.
const NAMESPACE: &str = "files";

/// The address, if a text is one of a file rather than a name in a registry.
pub(crate) fn parse(text: &str) -> Option<Result<Url, NetError>> {
    let lower = text.to_ascii_lowercase();
    let path = lower.split(['?', '#']).next().unwrap_or_default();
    let web = lower.starts_with("https://") || lower.starts_with("http://");
    (web && path.ends_with(".gguf")).then(|| Url::parse(text))
}

/// Fetches the file, and calls it `host/files/name:latest`.
pub(crate) fn pull(
    client: &Client,
    store: &Store,
    url: &Url,
    progress: &mut OnProgress<'_>,
) -> Result<Name, StoreError> {
    client.permit(url)?;
    let name = name(url)?;
    Progress::status("pulling manifest").tell(progress)?;
    let (size, version) = look(client, url)?;
    let fetch = Fetch {
        client,
        url: url.clone(),
        credential: None,
        digest: None,
        size,
        version,
        status: format!("pulling {}", name.model()),
    };
    let digest = fetch.run(store, progress)?;
    let recipe = Recipe {
        bases: vec![Base::Blob(digest)],
        ..Recipe::default()
    };
    let made = store.create(&name, &recipe, progress);
    if made.is_err() {
        // What turned out to be no model is not worth its space.
        let lock = store.lock()?;
        store.collect(std::iter::once(digest), &lock)?;
    }
    made.map(|()| name)
}

fn name(url: &Url) -> Result<Name, StoreError> {
    let path = url.path().split('?').next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    let stem = file.get(..file.len().saturating_sub(".gguf".len()));
    Ok(Name::new(
        url.authority(),
        NAMESPACE,
        stem.unwrap_or_default(),
        "latest",
    )?)
}

/// How long the file is, and which version of it is there.
fn look(client: &Client, url: &Url) -> Result<(u64, String), NetError> {
    let answer = again(client, |by| {
        client
            .ask(&Method::GET, url, &[("range", "bytes=0-0")], None, Some(by))?
            .ok()
    })?;
    answer.plain()?;
    let length = match answer.status().as_u16() {
        206 => answer
            .header("content-range")
            .and_then(|range| range.rsplit_once('/'))
            .map(|(_, length)| length),
        _ => answer.header("content-length"),
    };
    let length = length
        .and_then(|length| length.parse::<u64>().ok())
        .filter(|&length| i64::try_from(length).is_ok());
    let version = answer.header("etag").or(answer.header("last-modified"));
    let version = version.unwrap_or_default().to_string();
    match length {
        Some(length) => Ok((length, version)),
        None => Err(NetError::Answer {
            host: answer.host(),
            what: "how long the file is",
        }),
    }
}
