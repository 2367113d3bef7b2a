//! Images that requests name by their addresses: fetched on threads of their own, few at a time, a share for each client.

use crate::http::Caller;
use crate::state::Server;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strata_chat::{ContentPart, Fault, FaultKind, Generate, Image, ImageUrl, Message, Prompt};
use strata_wire::budgets::Budgets;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a request waits for others.
const TURN: Duration = Duration::from_secs(30);

/// Fetches files from the internet, and from nowhere else.
pub trait FetchImages: Send + Sync + Debug {
    /// The bytes of a file, of so many at most, if all of them are here by then; or why not, to follow "cannot be
    /// fetched: ".
    fn fetch(&self, url: &str, longest: u64, by: Instant) -> Result<Vec<u8>, String>;
}

/// Places for requests whose images are fetched.
pub(crate) struct FetchPlaces {
    all: Arc<Semaphore>,
    /// How many of them a client may have.
    share: usize,
    clients: Mutex<HashMap<u64, Arc<Semaphore>>>,
}

/// A place, until it is dropped.
pub(crate) struct FetchPlace(#[expect(dead_code, reason = "held")] [OwnedSemaphorePermit; 2]);

impl FetchPlaces {
    pub(crate) fn new(budgets: &Budgets) -> Self {
        Self {
            all: Arc::new(Semaphore::new(budgets.image_fetches.max(1))),
            share: budgets.client_image_fetches.max(1),
            clients: Mutex::default(),
        }
    }

    async fn take(&self, client: u64) -> Result<FetchPlace, Fault> {
        let own = {
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            // Those whose places are held by nobody are as good as new.
            clients.retain(|_, places| Arc::strong_count(places) > 1);
            let share = || Arc::new(Semaphore::new(self.share));
            Arc::clone(clients.entry(client).or_insert_with(share))
        };
        // Its own first, so that a client who waits for itself holds nobody up.
        let both = async {
            let own = own.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(FetchPlace([own, all]))
        };
        let taken = tokio::time::timeout(TURN, both).await.ok().flatten();
        taken.ok_or_else(|| {
            let retry_after = Duration::from_secs(5);
            let kind = FaultKind::Unavailable { retry_after };
            Fault::new(kind, "images of other requests are being fetched")
        })
    }
}

/// Puts the images that a request names by their addresses into it. The place is to be held until it is made ready: until
/// then all those bytes are in memory.
pub(crate) async fn fetch_images(
    server: &Server,
    caller: &Caller,
    mut request: Box<Generate>,
) -> Result<(Box<Generate>, Option<Arc<FetchPlace>>), Fault> {
    let Some(files) = &server.settings.image_urls else {
        return Ok((request, None));
    };
    let budgets = &server.settings.budgets;
    let (count, last) = urls(&mut request).fold((0, None), |(n, _), part| (n + 1, Some(part)));
    let Some(ContentPart::ImageUrl(last)) = last else {
        return Ok((request, None));
    };
    let most = budgets.image_urls;
    if count > most {
        let problem = format_args!("there are {count} images to fetch, and at most {most} may be");
        return Err(last.refused(problem));
    }
    let place = Arc::new(server.fetches.take(caller.client.number).await?);
    let (files, held) = (Arc::clone(files), Arc::clone(&place));
    let (mut left, by) = (
        budgets.body_bytes as u64,
        Instant::now() + budgets.image_fetch,
    );
    let fetching = tokio::task::spawn_blocking(move || {
        // Whoever still waits for it.
        let _held = held;
        for part in urls(&mut request) {
            if let ContentPart::ImageUrl(wanted) = part {
                let bytes = fetch(&*files, wanted, left, by)?;
                left -= bytes.len() as u64;
                let media_type = None;
                *part = ContentPart::Image(Image { media_type, bytes });
            }
        }
        Ok::<_, Fault>(request)
    });
    let failed = |_| Fault::new(FaultKind::Internal, "the images could not be fetched");
    let request = fetching.await.map_err(failed)??;
    Ok((request, Some(place)))
}

fn fetch(
    files: &dyn FetchImages,
    wanted: &ImageUrl,
    left: u64,
    by: Instant,
) -> Result<Vec<u8>, Fault> {
    let bytes = files
        .fetch(&wanted.url, left, by)
        .map_err(|reason| wanted.refused(format_args!("cannot be fetched: {reason}")))?;
    if bytes.is_empty() {
        return Err(wanted.refused("has no bytes"));
    }
    Ok(bytes)
}

/// The parts of a request that are images elsewhere.
fn urls(request: &mut Generate) -> impl Iterator<Item = &mut ContentPart> {
    let messages = request.prompts.iter_mut().flat_map(|prompt| match prompt {
        Prompt::Chat(messages) => messages.as_mut_slice(),
        _ => &mut [],
    });
    let parts = messages.flat_map(|message: &mut Message| &mut message.parts);
    parts.filter(|part| matches!(part, ContentPart::ImageUrl(_)))
}
