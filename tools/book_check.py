"""Compares the pages of `strata learn` with another renderer of Markdown: the same words, in the same elements.

    pip install markdown-it-py
    python tools/book_check.py http://127.0.0.1:11435/
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse
import urllib.request

import markdown_it

BOOK = pathlib.Path(__file__).parent.parent / "learn/book/src"

# Marks of code, which only ours has, and pictures, which both pass on as they are.
INLINE = {"code", "em", "strong", "a"}
BLOCKS = {"h1", "h2", "h3", "p", "li", "pre"}


def included(chapter):
    """A chapter with what it includes, and without pictures."""
    lines = []
    for line in chapter.read_text().splitlines():
        include = re.fullmatch(r"\{\{#include (.*?)(?::(\w+))?\}\}", line)
        if not include:
            lines.append(line)
            continue
        path, anchor = include.groups()
        if path.endswith(".svg"):
            continue
        inside = anchor is None
        for part in (chapter.parent / path).read_text().splitlines():
            mark = part.strip()
            inside = inside and mark != f"// ANCHOR_END: {anchor}"
            if inside and not mark.startswith("// ANCHOR"):
                lines.append(part)
            inside = inside or mark == f"// ANCHOR: {anchor}"
    return "\n".join(lines) + "\n"


class Reader(html.parser.HTMLParser):
    """The blocks of a page, each with its words and the marks in them."""

    def __init__(self):
        super().__init__()
        self.blocks, self.current, self.skipped, self.code = [], None, 0, False

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if self.skipped or tag in ("figure", "nav") or attributes.get("class") == "kind":
            self.skipped += 1
        elif tag in BLOCKS:
            self.current = [tag, ""]
            self.blocks.append(self.current)
            self.code = tag == "pre"
        elif tag in INLINE and self.current and not self.code:
            target = urllib.parse.unquote(attributes.get("href", ""))
            self.current[1] += f"<{tag} {re.sub(r'[.]md', '.html', target)}>"

    def handle_endtag(self, tag):
        if self.skipped:
            self.skipped -= 1
        elif tag in INLINE and self.current and not self.code:
            self.current[1] += f"</{tag}>"
        elif tag in BLOCKS:
            self.code = False

    def handle_data(self, data):
        if self.current and not self.skipped:
            self.current[1] += data


def blocks(text):
    reader = Reader()
    reader.feed(text)
    # A tight list has no paragraphs inside of its items, a loose one has: only the words count.
    return [(tag, " ".join(words.split())) for tag, words in reader.blocks if words.strip()]


def compare(address):
    """Compares every chapter; raises where one differs."""
    renderer = markdown_it.MarkdownIt("commonmark")
    names = re.findall(r"\]\((.*?)\)", (BOOK / "SUMMARY.md").read_text())
    for name in names:
        place = "" if name == "introduction.md" else name.replace(".md", ".html")
        with urllib.request.urlopen(urllib.parse.urljoin(address, "/" + place)) as reply:
            page = reply.read().decode()
        ours = blocks(page[page.index("<main>") : page.index("</main>")])
        theirs = blocks(renderer.render(included(BOOK / name)))
        for at, (one, other) in enumerate(zip(ours, theirs)):
            if one != other:
                raise SystemExit(f"{name}, block {at}:\n{one}\n{other}")
        if len(ours) != len(theirs):
            raise SystemExit(f"{name}: {len(ours)} blocks, and {len(theirs)}")
    print(f"{len(names)} pages are those of markdown-it")


if __name__ == "__main__":
    compare(sys.argv[1])
