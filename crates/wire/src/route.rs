//! A route: a path, what is asked there, and who reads it.

use crate::answer::Framing;
use crate::call::{Call, Recall};
use crate::stamp::Stamp;
use strata_chat::{Fault, FaultKind};

/// Reads a request of one route.
pub(crate) type Open = fn(&mut RouteRequest<'_>) -> Result<Call, Fault>;

/// A request as a route sees it.
pub(crate) struct RouteRequest<'r> {
    /// What stands for `{id}` in the path.
    pub(crate) id: &'r str,
    /// What stands after `?`.
    pub(crate) query: &'r str,
    /// The body, whole.
    pub(crate) body: &'r [u8],
    /// What tells its answer from others.
    pub(crate) stamp: &'r Stamp,
    /// The answers that are kept.
    pub(crate) recall: &'r mut dyn Recall,
}

/// One route of a dialect: a row of its table.
#[derive(Copy, Clone, Debug)]
pub struct Route {
    /// `GET`, `POST`, … What is asked with `GET` can be asked with `HEAD`.
    pub method: &'static str,
    /// The path; `{id}` stands for a name.
    pub path: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// How an answer is sent that comes piece by piece.
    pub streams: Option<Framing>,
    /// What the request's body is.
    pub body: RequestBody,
    /// Who may ask.
    pub role: Role,
    /// Whether it is listed in the OpenAPI document and in `Allow` headers.
    pub listed: bool,
    /// Whether the name that ends the path may have slashes in it.
    slashes: bool,
    pub(crate) open: Open,
}

/// Who may use a route, where a server has keys.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Anyone who reaches the port.
    Anyone,
    /// A client, with a key, for the models that its key allows.
    Client,
    /// An administrator, whose key may change the server and its store.
    Administrator,
}

/// What the body of a request is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// There is none.
    None,
    /// A JSON document.
    Json,
    /// A form with a file.
    Form,
    /// Bytes, perhaps more than memory holds.
    Bytes,
}

impl Route {
    const fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        body: RequestBody,
        open: Open,
    ) -> Self {
        Self {
            method,
            path,
            summary,
            streams: None,
            body,
            role: Role::Client,
            listed: true,
            slashes: false,
            open,
        }
    }

    pub(crate) const fn get(path: &'static str, summary: &'static str, open: Open) -> Self {
        Self::new("GET", path, summary, RequestBody::None, open)
    }

    pub(crate) const fn head(path: &'static str, summary: &'static str, open: Open) -> Self {
        Self::new("HEAD", path, summary, RequestBody::None, open)
    }

    pub(crate) const fn post(path: &'static str, summary: &'static str, open: Open) -> Self {
        Self::new("POST", path, summary, RequestBody::Json, open)
    }

    pub(crate) const fn delete(path: &'static str, summary: &'static str, open: Open) -> Self {
        Self::new("DELETE", path, summary, RequestBody::None, open)
    }

    /// The route, whose answers may come piece by piece.
    pub(crate) const fn streams(self, framing: Framing) -> Self {
        Self {
            streams: Some(framing),
            ..self
        }
    }

    /// The route with another kind of body.
    pub(crate) const fn takes(self, body: RequestBody) -> Self {
        Self { body, ..self }
    }

    /// The route, open to those who have no key.
    pub(crate) const fn keyless(self) -> Self {
        Self {
            role: Role::Anyone,
            ..self
        }
    }

    /// The route, for administrators: it changes the server or its store.
    pub(crate) const fn administrative(self) -> Self {
        Self {
            role: Role::Administrator,
            ..self
        }
    }

    /// The route, left out of what is told of the server.
    pub(crate) const fn unlisted(self) -> Self {
        Self {
            listed: false,
            ..self
        }
    }

    /// The route, whose `{id}` at the end takes the rest of a path.
    pub(crate) const fn with_slashes(self) -> Self {
        Self {
            slashes: true,
            ..self
        }
    }

    /// What stands for `{id}` if a path is this route's; empty if the route has no such part.
    pub(crate) fn id_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        let Some((before, after)) = self.path.split_once("{id}") else {
            return (self.path == path).then_some("");
        };
        let id = path.strip_prefix(before)?.strip_suffix(after)?;
        let whole = self.slashes || !id.contains('/');
        (!id.is_empty() && whole).then_some(id)
    }
}

/// A path that is there, but not with this method.
pub(crate) fn wrong_method(method: &str, path: &str) -> Fault {
    let problem = format_args!("{path} is not asked with {method}");
    Fault::new(FaultKind::Method, problem)
}
