//! Pushing: the blobs that the registry lacks, and then the manifest.

use super::Repository;
use crate::digest::Digest;
use crate::error::{At, StoreError};
use crate::fetch::again_while;
use crate::manifest::MANIFEST_TYPE;
use crate::model::StoredModel;
use crate::net::{Answer, Method, NetError, Url};
use crate::own_file;
use crate::progress::{OnProgress, Progress};
use crate::store::Store;
use crate::transfer::ContainerImage;
use std::io::Read;
use std::path::Path;

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
            if store.blob_len(&layer.digest) != Some(layer.size) {
                return Err(StoreError::MissingBlob {
                    name: Box::new(model.name.clone()),
                    digest: layer.digest,
                    media_type: layer.media_type.clone(),
                });
            }
            let path = store.blob_path(&layer.digest);
            let open = || own_file::open(&path);
            self.send_blob(layer.digest, layer.size, &path, open, progress)?;
        }
        let body = store.manifest_bytes(&model.name)?;
        self.send_manifest(MANIFEST_TYPE, &body, progress)
    }

    /// Sends a container image there.
    pub(crate) fn push_image(
        &self,
        image: &ContainerImage<'_>,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        for (digest, blob) in &image.blobs {
            let size = blob.len() as u64;
            self.send_blob(*digest, size, Path::new(""), || Ok(*blob), progress)?;
        }
        self.send_manifest(image.media_type, image.manifest, progress)
    }

    fn send_manifest(
        &self,
        media_type: &str,
        body: &[u8],
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        Progress::status("pushing manifest").tell(progress)?;
        let url = self.url(&format!("manifests/{}", self.name.tag()))?;
        let headers = [("content-type", media_type)];
        self.send(&Method::PUT, &url, &headers, body)?.ok()?;
        Progress::status("success").tell(progress)
    }

    /// Sends a blob, unless it is there already.
    fn send_blob<R: Read>(
        &self,
        digest: Digest,
        size: u64,
        path: &Path,
        open: impl FnOnce() -> Result<R, StoreError>,
        progress: &mut OnProgress<'_>,
    ) -> Result<(), StoreError> {
        let step = |completed| Progress {
            digest: Some(digest.to_string()),
            ..Progress::of(format!("pushing {}", &digest.hex()[..12]), completed, size)
        };
        step(0).tell(progress)?;
        let there = self.ask(&Method::HEAD, &format!("blobs/{digest}"), &[])?;
        if there.status().is_success() {
            return step(size).tell(progress);
        }
        let start = self.url("blobs/uploads/")?;
        let mut answer = self.send(&Method::POST, &start, &[], &[])?.ok()?;
        let mut file = open()?;
        let mut done = 0;
        while done < size {
            let mut chunk = Vec::new();
            (&mut file).take(CHUNK).read_to_end(&mut chunk).at(path)?;
            if chunk.is_empty() {
                return Err(StoreError::NoSuchBlob(digest));
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
        let url = upload_location(&answer)?.query("digest", &digest.to_string())?;
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
