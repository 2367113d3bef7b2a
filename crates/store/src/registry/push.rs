//! Pushing: the blobs that the registry lacks, and then the manifest.

use super::Repository;
use crate::error::{At, StoreError};
use crate::fetch::again_while;
use crate::manifest::{Layer, MANIFEST_TYPE};
use crate::model::StoredModel;
use crate::net::{Answer, Method, NetError, Url};
use crate::own_file;
use crate::progress::{OnProgress, Progress};
use crate::store::Store;
use std::io::Read;

/// Sent in one request.
const CHUNK: u64 = 16 << 20;

impl Repository<'_> {
    /// Sends a model there.
    pub(crate) fn push(
        &self,
        store: &Store,
        model: &StoredModel,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        Progress::status("retrieving manifest").tell(progress)?;
        let _pins = store.pin(model.manifest.all().map(|layer| &layer.digest))?;
        for layer in model.manifest.all() {
            self.send_blob(store, model, layer, progress)?;
        }
        Progress::status("pushing manifest").tell(progress)?;
        let url = self.url(&format!("manifests/{}", self.name.tag()))?;
        let headers = [("content-type", MANIFEST_TYPE)];
        let body = store.manifest_bytes(&model.name)?;
        self.send(&Method::PUT, &url, &headers, &body)?.ok()?;
        Progress::status("success").tell(progress)
    }

    fn send_blob(
        &self,
        store: &Store,
        model: &StoredModel,
        layer: &Layer,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        if store.blob_len(&layer.digest) != Some(layer.size) {
            return Err(StoreError::MissingBlob {
                name: Box::new(model.name.clone()),
                digest: layer.digest,
                media_type: layer.media_type.clone(),
            });
        }
        let step = |completed| Progress {
            digest: Some(layer.digest.to_string()),
            ..Progress::of(
                format!("pushing {}", &layer.digest.hex()[..12]),
                completed,
                layer.size,
            )
        };
        step(0).tell(progress)?;
        let there = self.ask(&Method::HEAD, &format!("blobs/{}", layer.digest), &[])?;
        if there.status().is_success() {
            return step(layer.size).tell(progress);
        }
        let start = self.url("blobs/uploads/")?;
        let mut answer = self.send(&Method::POST, &start, &[], &[])?.ok()?;
        let path = store.blob_path(&layer.digest);
        let mut file = own_file::open(&path)?;
        let mut done = 0;
        while done < layer.size {
            let mut chunk = Vec::new();
            (&mut file).take(CHUNK).read_to_end(&mut chunk).at(&path)?;
            if chunk.is_empty() {
                return Err(StoreError::NoSuchBlob(layer.digest));
            }
            let end = done + chunk.len() as u64;
            let range = format!("{done}-{}", end - 1);
            let headers = [
                ("content-range", range.as_str()),
                ("content-type", "application/octet-stream"),
            ];
            let url = upload_location(&answer)?;
            answer = self.send(&Method::PATCH, &url, &headers, &chunk)?.ok()?;
            done = end;
            step(done).tell(progress)?;
        }
        let url = upload_location(&answer)?.query("digest", &layer.digest.to_string())?;
        self.send(&Method::PUT, &url, &[], &[])?.ok()?;
        Ok(())
    }

    /// Sends bytes to a place that the registry named; it must be the registry itself or a host on the internet.
    fn send(
        &self,
        method: &Method,
        url: &Url,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, NetError> {
        if self.root.tls && !url.tls {
            return Err(NetError::Downgrade(self.root.authority().into()));
        }
        let origin = if url.same_origin(&self.root) {
            url
        } else {
            &self.root
        };
        again_while(self.client, &|| true, || {
            let places = (origin, url);
            let credential = self.credential();
            let answer =
                self.client
                    .send(method, places, headers, credential.as_ref(), (None, body))?;
            match answer.status().as_u16() {
                401 => {
                    let credential = self.log_in(&answer, None)?;
                    self.client
                        .send(method, places, headers, Some(&credential), (None, body))
                }
                500.. => answer.ok(),
                _ => Ok(answer),
            }
        })
    }
}

/// Where the next piece goes.
fn upload_location(answer: &Answer) -> Result<Url, NetError> {
    let location = answer
        .header("docker-upload-location")
        .or_else(|| answer.header("location"));
    let location = location.ok_or_else(|| NetError::Answer {
        host: answer.host(),
        what: "the place to send a blob to",
    })?;
    answer.url.join(location)
}
