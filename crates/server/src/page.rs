//! The page for browsers: a chat, a live view of the engine, a look inside with its lessons, as files in the program.
//!
//! They are plain modules and styles, served as they are in `crates/server/page`.

use std::borrow::Cow;
use strata_wire::url::{queried, unescape};

/// What a browser may do for the page: talk to this server, and nothing else. Images and audio that were attached are its own
/// bytes. Nobody may frame it.
const POLICY: &str = "default-src 'self'; img-src 'self' blob:; media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The worker that talks to one MCP server.
const MCP_WORKER: &str = "/mcp_worker.js";

/// The policy that a file is sent with. The page itself talks to this server only. A worker for an MCP server may talk to the
/// one origin that its address names, and sees nothing of the page but what it is sent.
pub(crate) fn policy(path: &str, query: Option<&str>) -> Cow<'static, str> {
    if path != MCP_WORKER {
        return POLICY.into();
    }
    let named = query.and_then(|query| queried(query, "connect"));
    let named = named.and_then(|origin| unescape(origin).ok());
    let origin = named.filter(|origin| is_origin(origin));
    let origin = origin.as_deref().unwrap_or("'none'");
    format!("default-src 'none'; script-src 'self'; connect-src {origin}").into()
}

/// Whether a text is an origin that can stand in a policy: scheme, host and perhaps a port, and nothing that a policy reads
/// otherwise.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("http://");
    let Some(rest) = rest.or_else(|| text.strip_prefix("https://")) else {
        return false;
    };
    let (host, port) = rest.split_once(':').unwrap_or((rest, "0"));
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    !host.is_empty() && host.chars().all(in_name) && port.parse::<u16>().is_ok()
}

/// A file of the page.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal: $kind:ident),* $(,)?) => {
        &[$(($path, Asset {
            content_type: $kind,
            bytes: include_bytes!(concat!("../page", $path)),
        })),*]
    };
}

/// `/index.html` is asked for as `/`.
const FILES: &[(&str, Asset)] = files![
    "/index.html": HTML,
    "/answer.js": SCRIPT,
    "/api.js": SCRIPT,
    "/app.js": SCRIPT,
    "/branches.js": SCRIPT,
    "/chat.js": SCRIPT,
    "/chat_list.js": SCRIPT,
    "/conversations.js": SCRIPT,
    "/dom.js": SCRIPT,
    "/files.js": SCRIPT,
    "/highlight.js": SCRIPT,
    "/inside.js": SCRIPT,
    "/lesson_chats.js": SCRIPT,
    "/lessons.js": SCRIPT,
    "/live.js": SCRIPT,
    "/markdown.js": SCRIPT,
    "/math.js": SCRIPT,
    "/math_symbols.js": SCRIPT,
    "/mcp.js": SCRIPT,
    "/media.js": SCRIPT,
    "/mcp_worker.js": SCRIPT,
    "/message.js": SCRIPT,
    "/microphone.js": SCRIPT,
    "/metrics.js": SCRIPT,
    "/models.js": SCRIPT,
    "/parameters.js": SCRIPT,
    "/recorder.js": SCRIPT,
    "/settings.js": SCRIPT,
    "/sse.js": SCRIPT,
    "/tools.js": SCRIPT,
    "/words.js": SCRIPT,
    "/words/ar.js": SCRIPT,
    "/words/de.js": SCRIPT,
    "/words/en.js": SCRIPT,
    "/words/es.js": SCRIPT,
    "/words/fr.js": SCRIPT,
    "/words/ja.js": SCRIPT,
    "/words/zh.js": SCRIPT,
    "/chat.css": STYLE,
    "/lessons.css": STYLE,
    "/style.css": STYLE,
    "/views.css": STYLE,
    "/icon.svg": PICTURE,
];

/// The page itself.
pub(crate) fn index() -> Asset {
    FILES[0].1
}

/// A file that the page asks for.
pub(crate) fn asset(path: &str) -> Option<Asset> {
    let found = FILES.iter().skip(1).find(|(known, _)| *known == path);
    found.map(|&(_, asset)| asset)
}

/// Whether whoever asks for `/` with this `Accept` reads pages. Clients of Ollama send none, or `*/*`.
pub(crate) fn is_wanted(accept: Option<&str>) -> bool {
    accept.is_some_and(|accept| {
        let mut kinds = accept.split(',');
        kinds.any(|kind| {
            let name = kind.split_once(';').map_or(kind, |(name, _)| name);
            name.trim().eq_ignore_ascii_case("text/html")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What stands between quotes after each `mark`.
    fn quoted<'a>(text: &'a str, mark: &str, quote: char) -> Vec<&'a str> {
        let rest = text.split(mark).skip(1);
        rest.filter_map(|rest| rest.strip_prefix(quote)?.split(quote).next())
            .collect()
    }

    fn text(asset: Asset) -> &'static str {
        str::from_utf8(asset.bytes).unwrap()
    }

    #[test]
    fn everything_that_the_page_asks_for_is_here() {
        let html = text(index());
        let mut asked: Vec<String> = quoted(html, "href=", '"')
            .into_iter()
            .chain(quoted(html, " src=", '"'))
            .map(String::from)
            .collect();
        assert!(asked.len() >= 3, "{asked:?}");
        for (path, asset) in FILES.iter().filter(|(path, _)| path.ends_with(".js")) {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            for module in quoted(text(*asset), " from ", '\'') {
                let name = module.strip_prefix('.').unwrap_or_else(|| panic!("{path}"));
                asked.push(format!("{folder}{name}"));
            }
            let worklets = quoted(text(*asset), "addModule(", '\'');
            asked.extend(worklets.into_iter().map(String::from));
        }
        // These are named at run time.
        asked.push(MCP_WORKER.into());
        asked.extend(languages().map(|(path, _)| path.into()));
        for path in &asked {
            assert!(asset(path).is_some(), "{path}");
        }
        for (path, _) in &FILES[1..] {
            assert!(asked.iter().any(|asked| asked == path), "{path} is unused");
        }
    }

    /// The policy forbids scripts and styles inside the markup, so there must be none.
    #[test]
    fn the_markup_has_no_code_and_no_style() {
        let html = text(index());
        assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains("://"));
        assert_eq!(
            html.matches("<script").count(),
            html.matches("<script type=\"module\" src=").count()
        );
        for event in [" onclick=", " onload=", " onsubmit=", " onerror="] {
            assert!(!html.contains(event), "{event}");
        }
    }

    #[test]
    fn text_of_models_is_never_parsed_as_markup() {
        for (path, asset) in FILES.iter().filter(|(path, _)| path.ends_with(".js")) {
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text(*asset).contains(way), "{path} uses {way}");
            }
        }
    }

    /// The tables of words.
    fn languages() -> impl Iterator<Item = (&'static str, &'static str)> {
        let files = FILES.iter().filter(|(path, _)| path.starts_with("/words/"));
        files.map(|&(path, asset)| (path, text(asset)))
    }

    /// The keys of a table of words, in order, each with the names of its values.
    fn keys(table: &str) -> Vec<(&str, BTreeSet<&str>)> {
        let lines = table.lines().filter_map(|line| line.strip_prefix("  "));
        let entries = lines.filter_map(|line| line.split_once(':'));
        entries
            .filter(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
            .map(|(key, words)| {
                let values = words.split('{').skip(1);
                let values = values.filter_map(|rest| rest.split_once('}'));
                let named = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase());
                (key, values.map(|(name, _)| name).filter(named).collect())
            })
            .collect()
    }

    #[test]
    fn every_language_has_every_word() {
        let english = keys(text(asset("/words/en.js").unwrap()));
        assert!(english.len() > 200, "{}", english.len());
        assert_eq!(languages().count(), 7);
        for (path, table) in languages() {
            assert_eq!(keys(table), english, "{path}");
        }
        let listed = text(asset("/words.js").unwrap());
        for (path, _) in languages() {
            let code = path.trim_start_matches("/words/").trim_end_matches(".js");
            assert!(listed.contains(&format!("{code}: '")), "{code}");
        }
    }

    #[test]
    fn a_worker_may_talk_to_the_origin_it_names_and_to_no_other() {
        let worker = |query: Option<&str>| policy(MCP_WORKER, query);
        let open = "default-src 'none'; script-src 'self'; connect-src ";
        for origin in ["http://127.0.0.1:8000", "https://mcp.example.org"] {
            let query = format!("connect={}", origin.replace(':', "%3A").replace('/', "%2F"));
            assert_eq!(worker(Some(&query)), format!("{open}{origin}"));
        }
        for bad in [
            None,
            Some(""),
            Some("connect="),
            Some("connect=*"),
            Some("connect=https:"),
            Some("connect=https://"),
            Some("connect=http://a;script-src *"),
            Some("connect=http://a%3Bscript-src%20*"),
            Some("connect=http://a%20http://b"),
            Some("connect=http://*.example.org"),
            Some("connect=http://a:99999"),
            Some("connect=http://a/b"),
            Some("connect=ws://a"),
            Some("connect=%zz"),
        ] {
            assert_eq!(worker(bad), format!("{open}'none'"), "{bad:?}");
        }
        for path in ["/", "/app.js", "/words/ar.js"] {
            assert_eq!(policy(path, Some("connect=http://a")), POLICY);
        }
    }

    #[test]
    fn browsers_want_the_page_and_clients_do_not() {
        assert!(is_wanted(Some("text/html,application/xhtml+xml,*/*;q=0.8")));
        assert!(is_wanted(Some("application/json, Text/HTML;q=0.1")));
        for other in [None, Some("*/*"), Some("application/json"), Some("")] {
            assert!(!is_wanted(other), "{other:?}");
        }
    }

    #[test]
    fn other_paths_are_not_ours() {
        for path in ["/", "/index.html", "/app.js/", "/../Cargo.toml", "app.js"] {
            assert!(asset(path).is_none(), "{path}");
        }
    }
}
