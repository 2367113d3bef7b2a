//! The dialects, each a table of its routes, and the way from a path to the one that it belongs to.

use crate::answer::Reply;
use crate::call::{Call, Recall};
use crate::route::{Role, Route, RouteRequest, wrong_method};
use crate::stamp::Stamp;
use crate::url::path_of;
use crate::{anthropic, llama_server, ollama, openai, server_routes, sessions};
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::{Fault, FaultKind};

/// An API that clients know: its routes, and the words in which it says what is wrong.
#[derive(Debug)]
pub struct Dialect {
    /// What it is called.
    pub name: &'static str,
    /// Its routes.
    pub routes: &'static [Route],
    /// What paths begin with that nobody has and its clients would ask for.
    pub(crate) prefix: Option<&'static str>,
    /// The header that its clients find a request's name in.
    pub(crate) request_id: &'static str,
    pub(crate) fault: fn(&Fault, &Stamp) -> Reply,
}

/// All dialects. A new one is a folder with its table, and a line here.
pub static DIALECTS: [&Dialect; 6] = [
    &server_routes::DIALECT,
    &sessions::DIALECT,
    &openai::DIALECT,
    &anthropic::DIALECT,
    &ollama::DIALECT,
    &llama_server::DIALECT,
];

/// A request as it came over the wire.
#[derive(Copy, Clone, Debug)]
pub struct HttpRequest<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The path, with its query.
    pub target: &'a str,
    /// The body, whole.
    pub body: &'a [u8],
    /// Whether the client speaks Anthropic's dialect: it names a version of that API in a header.
    pub anthropic: bool,
}

impl Dialect {
    /// The dialect that a path belongs to; for unknown paths the one whose clients would ask for it.
    fn of_path(target: &str) -> &'static Self {
        let path = path_of(target);
        let known = DIALECTS.iter().find(|dialect| dialect.knows(path));
        known.copied().unwrap_or_else(|| {
            let begins = |dialect: &&&Self| dialect.prefix.is_some_and(|p| target.starts_with(p));
            let nearest = DIALECTS.iter().filter(begins);
            let nearest = nearest.max_by_key(|dialect| dialect.prefix.map_or(0, str::len));
            nearest.copied().unwrap_or(&llama_server::DIALECT)
        })
    }

    /// The dialect in which a client wants to hear what is wrong. Anthropic's clients, which say so in a header, share
    /// the path of models with OpenAI's, and ask for paths that nobody has.
    pub fn of(target: &str, anthropic: bool) -> &'static Self {
        let path = path_of(target);
        let known = DIALECTS.iter().any(|dialect| dialect.knows(path));
        if anthropic && (!known || path.starts_with("/v1/models")) {
            &anthropic::DIALECT
        } else {
            Self::of_path(target)
        }
    }

    /// The header that names a request in every reply, and the name.
    pub fn request_id(&self, stamp: &Stamp) -> (&'static str, String) {
        (self.request_id, alloc::format!("req_{}", stamp.id))
    }

    /// A fault in this dialect's words.
    pub fn fault(&self, fault: &Fault, stamp: &Stamp) -> Reply {
        (self.fault)(fault, stamp)
    }

    /// Whether a server of one model may answer with it whatever model is asked for. Ollama's clients learn from an
    /// unknown name that they must pull the model.
    pub fn allows_any_model(&self) -> bool {
        !core::ptr::eq(self, &ollama::DIALECT)
    }

    /// Reads a request; `None` if the path is not one of this dialect's.
    pub fn open(
        &self,
        request: &HttpRequest<'_>,
        stamp: &Stamp,
        recall: &mut dyn Recall,
    ) -> Option<Result<Call, Fault>> {
        let (path, query) = request
            .target
            .split_once('?')
            .unwrap_or((request.target, ""));
        if !self.knows(path) {
            return None;
        }
        // The head of what can be got; the server leaves the body out.
        let method = match request.method {
            "HEAD" if self.methods(path).any(|method| method == "GET") => "GET",
            method => method,
        };
        let mut routes = self.routes.iter().filter(|route| route.method == method);
        let found = routes.find_map(|route| Some((route, route.id_in(path)?)));
        Some(match found {
            Some((route, id)) => (route.open)(&mut RouteRequest {
                id,
                query,
                body: request.body,
                stamp,
                recall,
            }),
            None => Err(wrong_method(method, path)),
        })
    }

    fn knows(&self, path: &str) -> bool {
        self.routes.iter().any(|route| route.id_in(path).is_some())
    }

    /// The methods of a path.
    fn methods<'s>(&'s self, path: &'s str) -> impl Iterator<Item = &'static str> + 's {
        let listed = self.routes.iter().filter(|route| route.listed);
        let of_path = listed.filter(move |route| route.id_in(path).is_some());
        of_path.map(|route| route.method)
    }
}

/// All routes, with the dialects that they belong to.
pub fn routes() -> impl Iterator<Item = (&'static Dialect, &'static Route)> {
    DIALECTS
        .iter()
        .flat_map(|dialect| dialect.routes.iter().map(|route| (*dialect, route)))
}

/// The route that a request belongs to.
pub fn route(method: &str, path: &str) -> Option<&'static Route> {
    let mut routes = routes().filter(|(_, route)| route.method == method);
    let found = routes.find(|(_, route)| route.id_in(path).is_some());
    found.map(|(_, route)| route)
}

/// The path of the table that a path belongs to, whatever the method.
pub fn pattern(path: &str) -> Option<&'static str> {
    let found = routes().find(|(_, route)| route.id_in(path).is_some());
    found.map(|(_, route)| route.path)
}

/// Whether anyone may ask without a key: only whether the server lives, and what a browser asks before a page's call,
/// which never brings one.
pub fn needs_no_key(method: &str, path: &str) -> bool {
    method == "OPTIONS"
        || routes().any(|(_, route)| route.role == Role::Anyone && route.id_in(path).is_some())
}

/// Reads a request; what cannot be read is a reply already.
pub fn open(
    request: &HttpRequest<'_>,
    stamp: &Stamp,
    recall: &mut dyn Recall,
) -> Result<Call, Reply> {
    let path = path_of(request.target);
    let dialect = Dialect::of_path(request.target);
    let call = dialect.open(request, stamp, recall).unwrap_or_else(|| {
        let problem = format_args!("there is nothing at {path}");
        Err(Fault::new(FaultKind::NotFound, problem))
    });
    call.map_err(|fault| {
        let words = Dialect::of(request.target, request.anthropic);
        let mut reply = words.fault(&fault, stamp);
        if fault.kind == FaultKind::Method {
            reply.headers.push(("allow", allowed(dialect, path)));
        }
        reply
    })
}

/// The methods of a path, for the `Allow` header.
fn allowed(dialect: &Dialect, path: &str) -> String {
    let mut methods: Vec<&str> = dialect.methods(path).collect();
    methods.dedup();
    methods.join(", ")
}

#[cfg(test)]
mod tests;
