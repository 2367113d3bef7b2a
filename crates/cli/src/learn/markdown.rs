//! Markdown to HTML: as much of it as the book is written in.
//!
//! Headings, paragraphs, lists of one level, code blocks, pictures that are SVG already; and in a line: code, emphasis and
//! links. A link to a chapter's file leads to its page.

use std::fmt::Write;

/// The HTML of a text.
pub(super) fn html(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            block(language, &code, &mut out);
        } else if line.starts_with("<svg") {
            let mut picture = String::from(line);
            while !picture.ends_with("</svg>") {
                let Some(line) = lines.next() else { break };
                picture.push('\n');
                picture.push_str(line);
            }
            _ = writeln!(out, "<figure>{}</figure>", unstyled(&picture));
        } else if let Some((level, title)) = heading(line) {
            let id = identifier(title);
            _ = writeln!(out, "<h{level} id=\"{id}\">{}</h{level}>", inline(title));
        } else if line.chars().all(|c| c == '-') && line.len() >= 3 {
            out.push_str("<hr>\n");
        } else if let Some((ordered, first)) = item(line) {
            let name = if ordered { "ol" } else { "ul" };
            _ = writeln!(out, "<{name}>");
            let mut words = String::from(first);
            loop {
                match lines.peek() {
                    Some(next) if item(next).is_some_and(|(kind, _)| kind == ordered) => {
                        _ = writeln!(out, "<li>{}</li>", inline(&words));
                        words = item(next).map_or("", |(_, first)| first).into();
                    }
                    Some(next) if next.starts_with(' ') => {
                        words.push('\n');
                        words.push_str(next.trim());
                    }
                    _ => break,
                }
                lines.next();
            }
            _ = writeln!(out, "<li>{}</li>\n</{name}>", inline(&words));
        } else {
            let mut words = String::from(line);
            while let Some(next) = lines.next_if(|next| goes_on(next)) {
                words.push('\n');
                words.push_str(next);
            }
            _ = writeln!(out, "<p>{}</p>", inline(&words));
        }
    }
    out
}

/// Whether a line belongs to the paragraph before it.
fn goes_on(line: &str) -> bool {
    let begins = heading(line).is_some() || item(line).is_some();
    !line.trim().is_empty() && !line.starts_with("```") && !line.starts_with("<svg") && !begins
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|&c| c == b'#').count();
    let title = line.get(level..)?.strip_prefix(' ')?;
    (1..=6).contains(&level).then_some((level, title))
}

/// Whether an item's list is ordered, and the item's words.
fn item(line: &str) -> Option<(bool, &str)> {
    if let Some(words) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some((false, words));
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let words = line.get(digits..)?.strip_prefix(". ")?;
    (digits > 0).then_some((true, words))
}

/// The identifier that mdbook gives a heading.
pub(super) fn identifier(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}

/// A text in which nothing is markup.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A picture without its own style: the page's does, and the page allows no other.
fn unstyled(picture: &str) -> String {
    let Some((before, rest)) = picture.split_once(" style=\"") else {
        return picture.into();
    };
    let (_, after) = rest.split_once('"').unwrap_or(("", rest));
    format!("{before}{after}")
}

/// The words of a paragraph, a heading or an item.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[', '<', '\\']) {
        out.push_str(&escape(&rest[..at]));
        rest = &rest[at..];
        let (made, after) = span(rest);
        out.push_str(&made);
        rest = after;
    }
    out.push_str(&escape(rest));
    out
}

/// What begins with a mark, and what comes after it. A mark that begins nothing stands for itself.
fn span(text: &str) -> (String, &str) {
    let enclosed = |mark: &str| text.strip_prefix(mark)?.split_once(mark);
    if text.starts_with('`') {
        if let Some((code, after)) = enclosed("`") {
            return (format!("<code>{}</code>", escape(code)), after);
        }
    } else if let Some((words, after)) = enclosed("**") {
        return (format!("<strong>{}</strong>", inline(words)), after);
    } else if text.starts_with('*') && !text.starts_with("* ") {
        if let Some((words, after)) = enclosed("*") {
            return (format!("<em>{}</em>", inline(words)), after);
        }
    } else if let Some((label, rest)) = text.strip_prefix('[').and_then(|t| t.split_once("]("))
        && let Some((target, after)) = rest.split_once(')')
    {
        let (target, label) = (escape(&page_of(target)), inline(label));
        return (format!("<a href=\"{target}\">{label}</a>"), after);
    } else if text.starts_with("<https://")
        && let Some((address, after)) = text[1..].split_once('>')
    {
        let address = escape(address);
        return (format!("<a href=\"{address}\">{address}</a>"), after);
    } else if let Some(rest) = text.strip_prefix('\\')
        && let Some(c) = rest.chars().next().filter(char::is_ascii_punctuation)
    {
        return (escape(&rest[..c.len_utf8()]), &rest[c.len_utf8()..]);
    }
    let first = text.chars().next().map_or(0, char::len_utf8);
    (escape(&text[..first]), &text[first..])
}

/// Where a link leads: chapters are pages.
fn page_of(target: &str) -> String {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let mark = if heading.is_empty() { "" } else { "#" };
    match file.strip_suffix(".md") {
        Some(name) if !file.contains("://") => match name.rsplit('/').next() {
            Some("introduction") => format!("/{mark}{heading}"),
            _ => format!("{name}.html{mark}{heading}"),
        },
        _ => target.into(),
    }
}

/// A block of code.
fn block(language: &str, code: &[&str], out: &mut String) {
    let (language, kind) = language.split_once(',').unwrap_or((language, ""));
    if kind == "excerpt" {
        out.push_str("<p class=\"kind\">Excerpt</p>");
    }
    let class = if language.is_empty() {
        "text"
    } else {
        language
    };
    _ = write!(out, "<pre tabindex=\"0\"><code class=\"{class}\">");
    for line in code {
        match language {
            "rust" => rust(line, out),
            _ => out.push_str(&escape(line)),
        }
        out.push('\n');
    }
    out.push_str("</code></pre>\n");
}

const KEYWORDS: [&str; 28] = [
    "as", "break", "const", "continue", "else", "enum", "fn", "for", "if", "impl", "in", "let",
    "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "self", "Self", "static",
    "struct", "trait", "type", "use", "while",
];

/// A line of Rust, with its keywords and comments marked.
fn rust(line: &str, out: &mut String) {
    // Not inside of a text.
    let outside = |at: &usize| line[..*at].matches('"').count().is_multiple_of(2);
    let comment = line.match_indices("//").map(|(at, _)| at).find(outside);
    let (code, comment) = line.split_at(comment.unwrap_or(line.len()));
    let mut rest = code;
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(c) = rest.chars().next() {
        let end = if c == '"' {
            rest[1..].find('"').map_or(rest.len(), |at| at + 2)
        } else if in_word(c) {
            rest.find(|c| !in_word(c)).unwrap_or(rest.len())
        } else {
            c.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        let marked = escape(word);
        _ = match c {
            '"' => write!(out, "<i>{marked}</i>"),
            _ if KEYWORDS.contains(&word) => write!(out, "<b>{marked}</b>"),
            _ => write!(out, "{marked}"),
        };
    }
    if !comment.is_empty() {
        _ = write!(out, "<em>{}</em>", escape(comment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_spans() {
        let text = "# A `b` & c\n\nOne *two*\n**three** `<4>` [five](../x/y.md#z).\n\n- a\n  b\n- c\n\n1. d\n2. e\n";
        assert_eq!(
            html(text),
            "<h1 id=\"a-b--c\">A <code>b</code> &amp; c</h1>\n\
             <p>One <em>two</em>\n<strong>three</strong> <code>&lt;4&gt;</code> \
             <a href=\"../x/y.html#z\">five</a>.</p>\n\
             <ul>\n<li>a\nb</li>\n<li>c</li>\n</ul>\n<ol>\n<li>d</li>\n<li>e</li>\n</ol>\n"
        );
    }

    #[test]
    fn code_is_shown_as_it_is() {
        let text = "```rust\nlet x = \"a // b\"; // c\n```\n\n```text\n# 1 * 2 * 3\n```\n";
        assert_eq!(
            html(text),
            "<pre tabindex=\"0\"><code class=\"rust\"><b>let</b> x = <i>&quot;a // b&quot;</i>; <em>// c</em>\n\
             </code></pre>\n<pre tabindex=\"0\"><code class=\"text\"># 1 * 2 * 3\n</code></pre>\n"
        );
    }

    #[test]
    fn marks_that_begin_nothing_stand_for_themselves() {
        assert_eq!(
            html("<https://a.b>\n"),
            "<p><a href=\"https://a.b\">https://a.b</a></p>\n"
        );
        assert_eq!(html("2 * 3 < 7 and [x]\n"), "<p>2 * 3 &lt; 7 and [x]</p>\n");
        assert_eq!(
            html("<svg style=\"a\" fill=\"b\">\n</svg>\n"),
            "<figure><svg fill=\"b\">\n</svg></figure>\n"
        );
    }
}
