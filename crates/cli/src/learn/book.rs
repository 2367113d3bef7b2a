//! The book as pages of HTML, made from the chapters in the program when they are asked for.

use super::markdown;
use std::fmt::Write;

/// The summary and the chapters, in the book's order.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/book.rs"));

/// What every page looks like.
pub(super) const STYLE: &str = include_str!("book.css");

const TITLE: &str = "From power-on to the next token";

/// A line of the table of contents.
enum Entry {
    /// The name of a part.
    Part(&'static str),
    /// A chapter's title and file.
    Chapter(&'static str, &'static str),
}

fn entries() -> impl Iterator<Item = Entry> {
    let summary = FILES.first().map_or("", |(_, text)| text);
    summary.lines().filter_map(|line| {
        if let Some((_, rest)) = line.split_once('[') {
            let (title, rest) = rest.split_once("](")?;
            return Some(Entry::Chapter(title, rest.split_once(')')?.0));
        }
        let part = line.strip_prefix("# ")?;
        (part != "Summary").then_some(Entry::Part(part))
    })
}

/// Where a chapter is on the server.
fn address(file: &str) -> String {
    match file {
        "introduction.md" => "/".into(),
        file => format!("/{}.html", file.trim_end_matches(".md")),
    }
}

/// The page at a path; `None` if there is none.
pub(super) fn page(path: &str) -> Option<String> {
    if path == "/contents.html" {
        return Some(document("Contents", &contents(""), ""));
    }
    let chapters: Vec<(&str, &str)> = entries()
        .filter_map(|entry| match entry {
            Entry::Chapter(title, file) => Some((title, file)),
            Entry::Part(_) => None,
        })
        .collect();
    let at = chapters
        .iter()
        .position(|(_, file)| address(file) == path)?;
    let (title, file) = chapters[at];
    let (_, text) = FILES.iter().find(|(name, _)| *name == file)?;
    let neighbour = |at: Option<usize>, relation: &str| {
        let Some((title, file)) = at.and_then(|at| chapters.get(at)) else {
            return "<span></span>".into();
        };
        let title = markdown::escape(title);
        format!(
            "<a rel=\"{relation}\" href=\"{}\">{title}</a>",
            address(file)
        )
    };
    let turn = format!(
        "<nav class=\"turn\" aria-label=\"Chapters\">{}{}</nav>",
        neighbour(at.checked_sub(1), "prev"),
        neighbour(Some(at + 1), "next")
    );
    let body = format!("{}{turn}", markdown::html(text));
    Some(document(title, &body, file))
}

/// All paths that there are pages at.
#[cfg(test)]
pub(super) fn paths() -> Vec<String> {
    let files = FILES.iter().skip(1);
    files.map(|(file, _)| address(file)).collect()
}

/// The table of contents; `here` is the file of the chapter that is read.
fn contents(here: &str) -> String {
    let mut out = String::from("<ul class=\"contents\">");
    for entry in entries() {
        _ = match entry {
            Entry::Part(name) => write!(out, "<li class=\"part\">{}</li>", markdown::escape(name)),
            Entry::Chapter(title, file) => {
                let current = if file == here {
                    " aria-current=\"page\""
                } else {
                    ""
                };
                let (title, address) = (markdown::escape(title), address(file));
                write!(out, "<li><a href=\"{address}\"{current}>{title}</a></li>")
            }
        };
    }
    out.push_str("</ul>");
    out
}

fn document(title: &str, body: &str, file: &str) -> String {
    let title = markdown::escape(title);
    let aside = contents(file);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <link rel=\"stylesheet\" href=\"/book.css\">\n</head>\n<body>\n\
         <header><a href=\"/\">{TITLE}</a> <a class=\"small\" href=\"/contents.html\">Contents</a></header>\n\
         <nav class=\"side\" aria-label=\"Contents\">{aside}</nav>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chapter_is_a_page_and_every_link_leads_to_one() {
        let paths = paths();
        assert!(paths.len() >= 26, "{}", paths.len());
        let ids = |page: &str| -> Vec<String> {
            let rest = page.split(" id=\"").skip(1);
            rest.filter_map(|rest| Some(rest.split_once('"')?.0.into()))
                .collect()
        };
        for path in paths.iter().map(String::as_str).chain(["/contents.html"]) {
            let html = page(path).unwrap_or_else(|| panic!("{path}"));
            assert!(!html.contains("{{#include"), "{path}");
            assert!(
                !html.contains(" src=") && !html.contains(" style="),
                "{path}"
            );
            for rest in html.split("href=\"").skip(1) {
                let link = rest.split('"').next().unwrap();
                if ["https://", "data:", "/book.css"]
                    .iter()
                    .any(|start| link.starts_with(start))
                {
                    continue;
                }
                let target = resolve(path, link);
                let (file, id) = target.split_once('#').unwrap_or((&target, ""));
                let found = page(file).unwrap_or_else(|| panic!("{path}: {link}"));
                assert!(
                    id.is_empty() || ids(&found).iter().any(|known| known == id),
                    "{path}: {link}"
                );
            }
        }
        assert!(page("/nothing.html").is_none() && page("/../Cargo.toml").is_none());
    }

    /// A link of a page, from the root.
    fn resolve(page: &str, link: &str) -> String {
        if link.starts_with('/') {
            return link.into();
        }
        if link.starts_with('#') {
            return format!("{page}{link}");
        }
        let mut parts: Vec<&str> = page.split('/').collect();
        parts.pop();
        for part in link.split('/') {
            if part == ".." {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        parts.join("/")
    }

    /// What a browser would show of the page: nothing of the Markdown may be left.
    #[test]
    fn nothing_is_left_of_the_marks() {
        for path in paths() {
            let html = page(&path).unwrap();
            let (_, main) = html.split_once("<main>").unwrap();
            let mut code = false;
            for line in main.lines() {
                code |= line.contains("<pre");
                if !code {
                    let outside: String = line.split("<code>").map(after_code).collect();
                    for mark in ["**", "](", "`", "## "] {
                        assert!(!outside.contains(mark), "{path}: {line}");
                    }
                }
                code &= !line.contains("</pre>");
            }
        }
    }

    fn after_code(part: &str) -> &str {
        part.split_once("</code>").map_or(part, |(_, rest)| rest)
    }
}
