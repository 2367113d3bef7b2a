//! Container images as tar archives of the OCI image layout (image-spec 1.1): one layer with one executable, which runs as
//! nobody in particular and writes nothing.

use crate::elf;
use crate::error::PackError;
use crate::hex;
use crate::manifest::Manifest;
use crate::tar::{self, Owner, ROOT, Tar};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::ops::Range;
use strata_image::Layout;

/// Where the executable is.
const PROGRAM: &str = "strata.run";
const USER: u32 = 10001;
const PORT: &str = "11434";
/// The beginning of time: a history entry without one makes umoci fail.
const CREATED: &str = "1970-01-01T00:00:00Z";
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// A blob, and what tells it from others.
struct Blob<'a> {
    layout: Layout<'a>,
    digest: String,
}

impl<'a> Blob<'a> {
    fn new(layout: Layout<'a>) -> Self {
        struct Hasher(Sha256);
        impl Write for Hasher {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.update(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut hasher = Hasher(Sha256::new());
        // A hasher takes everything.
        let _ = layout.write_to(&mut hasher);
        Self {
            layout,
            digest: hex::encode(&hasher.0.finalize()),
        }
    }

    fn json(value: &Value) -> Self {
        let mut layout = Layout::default();
        layout.put(0, value.to_string().into_bytes());
        Self::new(layout)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({
            "mediaType": media_type,
            "digest": format!("sha256:{}", self.digest),
            "size": self.layout.len(),
        })
    }
}

/// The image with the executable in it.
pub(crate) fn wrap<'a>(
    manifest: &Manifest,
    program: &[u8],
    executable: Layout<'a>,
) -> Result<Layout<'a>, PackError> {
    if !elf::is_static(program) {
        return Err(PackError::Dynamic);
    }
    let mut layer = Tar::default();
    layer.folder("tmp/", Owner(USER))?;
    layer.embed(PROGRAM, 0o755, executable)?;
    let layer = Blob::new(layer.finish());
    let config = Blob::json(&config(manifest, &layer.digest)?);
    let image = Blob::json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor(CONFIG),
        "layers": [layer.descriptor(LAYER)],
        "annotations": { "org.opencontainers.image.title": manifest.name },
    }));
    let mut descriptor = image.descriptor(MANIFEST);
    descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": "latest" });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    });
    let mut tar = Tar::default();
    tar.file("oci-layout", 0o644, LAYOUT)?;
    tar.file("index.json", 0o644, index.to_string().into_bytes())?;
    tar.folder("blobs/", ROOT)?;
    tar.folder("blobs/sha256/", ROOT)?;
    for blob in [image, config, layer] {
        tar.embed(&format!("blobs/sha256/{}", blob.digest), 0o644, blob.layout)?;
    }
    Ok(tar.finish())
}

fn config(manifest: &Manifest, layer: &str) -> Result<Value, PackError> {
    let architecture = match manifest.machine.architecture.as_str() {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        _ => return Err(PackError::Program),
    };
    let program = format!("/{PROGRAM}");
    Ok(json!({
        "created": CREATED,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { format!("{PORT}/tcp"): {} },
            "Env": ["PATH=/", "HOME=/tmp", format!("OLLAMA_HOST=0.0.0.0:{PORT}")],
            "Entrypoint": [program],
            "Cmd": ["serve", "--log-format", "json"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            // Docker's and podman's; others pass over it.
            "Healthcheck": {
                "Test": ["CMD", program, "health"],
                "Interval": 30_000_000_000u64,
                "Timeout": 5_000_000_000u64,
                "StartPeriod": 600_000_000_000u64,
                "Retries": 3,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": CREATED, "created_by": "strata pack" }],
    }))
}

/// A container image in an archive, in the pieces that a registry takes.
pub struct OciImage<'a> {
    /// The type of its manifest.
    pub media_type: &'static str,
    /// The manifest.
    pub manifest: &'a [u8],
    /// The SHA-256 of each blob but the manifest, in hexadecimal digits, and its bytes.
    pub blobs: Vec<(String, &'a [u8])>,
}

impl<'a> OciImage<'a> {
    /// Takes an archive apart, of which every blob has its digest for a name.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PackError> {
        if !bytes.starts_with(b"oci-layout\0") {
            return Err(PackError::Unknown);
        }
        let files = tar::files(bytes)?;
        let missing = |name: &str| PackError::Missing(name.into());
        let index = files.iter().find(|(name, _)| name == "index.json");
        let (_, index) = index.ok_or_else(|| missing("index.json"))?;
        let index: Value = serde_json::from_slice(&bytes[index.clone()])
            .map_err(|error| PackError::Manifest(error.to_string()))?;
        let digest = index["manifests"][0]["digest"].as_str().unwrap_or_default();
        let digest = digest.strip_prefix("sha256:").unwrap_or_default();
        let mut manifest = None;
        let mut blobs = Vec::new();
        for (name, range) in files {
            let Some(name) = name.strip_prefix("blobs/sha256/") else {
                continue;
            };
            let blob = &bytes[range];
            let found = hex::sha256(blob);
            if found != name {
                return Err(PackError::Digest {
                    path: "a blob".into(),
                    found,
                    wanted: name.into(),
                });
            }
            if name == digest {
                manifest = Some(blob);
            } else {
                blobs.push((name.into(), blob));
            }
        }
        Ok(Self {
            media_type: MANIFEST,
            manifest: manifest.ok_or_else(|| missing("the image's manifest"))?,
            blobs,
        })
    }
}

/// Where the executable is in an image, if it is one.
pub(crate) fn executable(bytes: &[u8]) -> Option<Result<Range<usize>, PackError>> {
    bytes.starts_with(b"oci-layout\0").then(|| find(bytes))
}

fn find(bytes: &[u8]) -> Result<Range<usize>, PackError> {
    let blobs = tar::files(bytes)?.into_iter();
    let blobs = blobs.filter(|(name, _)| name.starts_with("blobs/"));
    // The layer is the largest of them.
    let layer = blobs.map(|(_, range)| range).max_by_key(Range::len);
    let missing = || PackError::Missing(PROGRAM.into());
    let layer = layer.ok_or_else(missing)?;
    let files = tar::files(&bytes[layer.clone()])?.into_iter();
    let mut files = files.filter(|(name, _)| name == PROGRAM);
    let (_, range) = files.next().ok_or_else(missing)?;
    Ok(layer.start + range.start..layer.start + range.end)
}
