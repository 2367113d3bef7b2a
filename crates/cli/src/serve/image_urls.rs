//! `--allow-image-urls`: the store's careful client fetches images for the server.

use std::sync::Arc;
use std::time::Instant;
use strata_server::FetchImages;
use strata_store::WebFiles;

#[derive(Debug, Default)]
struct Internet(WebFiles);

impl FetchImages for Internet {
    fn fetch(&self, url: &str, longest: u64, by: Instant) -> Result<Vec<u8>, String> {
        let fetched = self.0.get(url, longest, by);
        fetched.map_err(|error| error.to_string())
    }
}

/// Images from public addresses, over TLS.
pub(super) fn from_internet() -> Arc<dyn FetchImages> {
    Arc::new(Internet::default())
}
