//! The page for browsers: a chat, a live view of the engine and a look inside, as files in the program.
//!
//! They are plain modules and styles, served as they are in `crates/server/page`.

/// What a browser may do for the page: talk to this server, and nothing else. Nobody may frame it.
pub(crate) const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
    "/api.js": SCRIPT,
    "/app.js": SCRIPT,
    "/branches.js": SCRIPT,
    "/chat.js": SCRIPT,
    "/conversations.js": SCRIPT,
    "/dom.js": SCRIPT,
    "/inside.js": SCRIPT,
    "/live.js": SCRIPT,
    "/markdown.js": SCRIPT,
    "/metrics.js": SCRIPT,
    "/style.css": STYLE,
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
            for module in quoted(text(*asset), " from ", '\'') {
                let name = module.strip_prefix('.').unwrap_or_else(|| panic!("{path}"));
                asked.push(name.into());
            }
        }
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
