// Markdown as DOM nodes: the part of it that models write. Nothing is ever parsed as HTML, links lead only to web and
// mail addresses, and images are links, so that no text can make the browser fetch anything. Every block finds its own
// direction, so that Arabic and English can follow each other.

import { copy, h } from './dom.js';
import { highlight } from './highlight.js';
import { formula } from './math.js';
import { t } from './words.js';

const DEPTH = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:( +)(.*)|$)/;
const DIVIDER = /^ *\|? *:?-+:? *(\| *:?-+:? *)*\|? *$/;

/** Shows a text in an element. Unchanged blocks stay, so that a selection survives a growing answer. */
export function show(element, text) {
  const parts = blocks(text.split('\n'), 0);
  const known = element.blocks ?? [];
  let same = 0;
  while (same < parts.length && same < known.length && parts[same].source === known[same]) same += 1;
  while (element.children.length > same) element.lastChild.remove();
  for (const part of parts.slice(same)) element.append(part.build());
  element.blocks = parts.map((part) => part.source);
}

function blocks(lines, depth) {
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === '') {
      at += 1;
      continue;
    }
    const [end, build] = block(lines, at, depth);
    found.push({ source: lines.slice(at, end).join('\n'), build });
    at = end;
  }
  return found;
}

const nested = (lines, depth) => blocks(lines, depth + 1).map((part) => part.build());

/** The block that begins at a line: where it ends, and what makes its node. */
function block(lines, at, depth) {
  const line = lines[at];
  let match = FENCE.exec(line);
  if (match) return fence(lines, at, match);
  match = HEADING.exec(line);
  if (match) return [at + 1, () => h(`h${Math.min(match[1].length + 2, 6)}`, { dir: 'auto' }, ...inline(match[2].replace(/\s#+\s*$/, '')))];
  if (RULE.test(line)) return [at + 1, () => h('hr')];
  if (depth < DEPTH && /^ {0,3}>/.test(line)) {
    let end = at;
    while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
    const inner = lines.slice(at, end).map((l) => l.replace(/^ {0,3}> ?/, ''));
    return [end, () => h('blockquote', { dir: 'auto' }, ...nested(inner, depth))];
  }
  if (depth < DEPTH && ITEM.test(line)) return list(lines, at, depth);
  if (line.includes('|') && DIVIDER.test(lines[at + 1] ?? '') && lines[at + 1].includes('-')) return table(lines, at);
  if (/^\s*(\$\$|\\\[)/.test(line)) {
    const found = displayed(lines, at);
    if (found) return found;
  }
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== '' && !begins(lines[end])) end += 1;
  return [end, () => h('p', { dir: 'auto' }, ...inline(lines.slice(at, end).join('\n').trim()))];
}

/** A formula on lines of its own. */
function displayed(lines, at) {
  const close = lines[at].trim().startsWith('$$') ? '$$' : '\\]';
  let end = at;
  while (end < lines.length && end - at < 100 && lines[end].trim() !== '') {
    const source = lines.slice(at, end + 1).join('\n').trim();
    if (source.length >= 4 && source.endsWith(close)) return [end + 1, () => formula(source.slice(2, -2), true, source)];
    end += 1;
  }
  return null;
}

const begins = (line) => FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || ITEM.test(line);

function fence(lines, at, [, mark, language]) {
  let end = at + 1;
  const closes = (line) => line.trim().length >= mark.length && [...line.trim()].every((c) => c === mark[0]);
  while (end < lines.length && !closes(lines[end])) end += 1;
  const indent = /^ */.exec(lines[at])[0].length;
  const code = lines.slice(at + 1, end).map((l) => l.slice(Math.min(indent, /^ */.exec(l)[0].length))).join('\n');
  return [Math.min(end + 1, lines.length), () => {
    const button = h('button', { type: 'button', class: 'quiet', onclick: () => copy(code, button) }, t('copy'));
    return h('figure', { class: 'code' },
      h('figcaption', {}, language || t('code'), button),
      h('pre', { tabindex: 0, dir: 'ltr' }, h('code', {}, ...highlight(code, language))));
  }];
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const match = ITEM.exec(lines[end]);
    if (!match || match[1].length > first[1].length + 1 || /\d/.test(match[2]) !== ordered || RULE.test(lines[end])) break;
    const width = match[1].length + match[2].length + Math.min(match[3]?.length ?? 1, 4);
    const inner = [match[4] ?? ''];
    end += 1;
    while (end < lines.length) {
      const line = lines[end];
      const indent = /^ */.exec(line)[0].length;
      if (line.trim() === '') {
        const next = lines.slice(end).find((l) => l.trim() !== '');
        if (next === undefined || /^ */.exec(next)[0].length <= match[1].length) break;
      } else if (indent <= match[1].length && begins(line)) break;
      inner.push(line.slice(Math.min(indent, width)));
      end += 1;
    }
    items.push(inner);
    while (end < lines.length && lines[end].trim() === '' && ITEM.test(lines[end + 1] ?? '')) end += 1;
  }
  return [end, () => {
    const start = ordered && first[2].slice(0, -1) !== '1' ? Number(first[2].slice(0, -1)) : undefined;
    return h(ordered ? 'ol' : 'ul', { start, dir: 'auto' }, ...items.map((inner) => item(inner, depth)));
  }];
}

function item(lines, depth) {
  const parts = nested(lines, depth);
  // A single paragraph is the item's own text.
  const [only] = parts;
  if (only?.tagName === 'P' && (parts.length === 1 || parts[1].tagName !== 'P')) {
    return h('li', { dir: 'auto' }, ...only.childNodes, ...parts.slice(1));
  }
  return h('li', { dir: 'auto' }, ...parts);
}

function table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|') && lines[end].trim() !== '') end += 1;
  const sides = cells(lines[at + 1]).map((rule) => (rule.endsWith(':') ? (rule.startsWith(':') ? 'center' : 'right') : rule.startsWith(':') ? 'left' : ''));
  return [end, () => {
    const cell = (tag, text, column) => h(tag, { dir: 'auto', class: sides[column] && `to-${sides[column]}` }, ...inline(text));
    // Rows have as many cells as the head.
    const row = (line, tag) => {
      const given = cells(line);
      return h('tr', {}, ...sides.map((_, column) => cell(tag, given[column] ?? '', column)));
    };
    const body = lines.slice(at + 2, end).map((line) => row(line, 'td'));
    return h('div', { class: 'scroll', tabindex: 0 }, h('table', {}, h('thead', {}, row(lines[at], 'th')), h('tbody', {}, ...body)));
  }];
}

/** The cells of a row. A bar that is escaped, or inside code, is text. */
function cells(line) {
  const found = [''];
  let code = false;
  const inner = line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '');
  for (let at = 0; at < inner.length; at += 1) {
    if (inner[at] === '`') code = !code && inner.includes('`', at + 1);
    if (inner[at] === '\\' && inner[at + 1] === '|') {
      found[found.length - 1] += '|';
      at += 1;
    } else if (inner[at] === '|' && !code) found.push('');
    else found[found.length - 1] += inner[at];
  }
  return found.map((text) => text.trim());
}

const MARKS = [['**', 'strong'], ['__', 'strong'], ['~~', 'del'], ['*', 'em'], ['_', 'em']];

/** The nodes of a line of text. */
export function inline(text, depth = 0) {
  const nodes = [];
  // A mark that has no end once has none later: each is looked for at most once in vain.
  const endless = new Set();
  let plain = '';
  let at = 0;
  const flush = () => {
    if (plain) nodes.push(document.createTextNode(plain));
    plain = '';
  };
  while (at < text.length) {
    const found = depth < DEPTH ? span(text, at, endless, depth) : null;
    if (found) {
      flush();
      nodes.push(found.node);
      at = found.end;
    } else if (text[at] === '\n') {
      flush();
      nodes.push(h('br'));
      at += 1;
    } else {
      if (text[at] === '\\' && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? '')) at += 1;
      plain += text[at];
      at += 1;
    }
  }
  flush();
  return nodes;
}

function closing(text, mark, from, endless) {
  if (endless.has(mark)) return -1;
  const end = text.indexOf(mark, from);
  if (end < 0) endless.add(mark);
  return end;
}

function span(text, at, endless, depth) {
  const c = text[at];
  if (c === '`') {
    let ticks = 1;
    while (text[at + ticks] === '`') ticks += 1;
    const mark = '`'.repeat(ticks);
    const end = closing(text, mark, at + ticks, endless);
    if (end < 0) return { node: document.createTextNode(mark), end: at + ticks };
    const code = text.slice(at + ticks, end).replace(/\n/g, ' ').replace(/^ (.+) $/, '$1');
    return { node: h('code', {}, code), end: end + ticks };
  }
  if (c === '$' || (c === '\\' && '(['.includes(text[at + 1] ?? ' '))) return math(text, at, endless);
  if (c === '[' || (c === '!' && text[at + 1] === '[')) return link(text, at, endless, depth);
  if (c === 'h' && /^https?:\/\//.test(text.slice(at, at + 8)) && !/\w/.test(text[at - 1] ?? '')) {
    const url = /^[^\s<>"'`\]]{8,2000}/.exec(text.slice(at, at + 2000))?.[0].replace(/[.,;:!?)*_]+$/, '');
    return url ? { node: anchor(url, [url]), end: at + url.length } : null;
  }
  if (c !== '*' && c !== '_' && c !== '~') return null;
  for (const [mark, tag] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const inner = at + mark.length;
    if (/\s/.test(text[inner] ?? ' ')) return null;
    // Underscores inside words are part of names.
    if (c === '_' && /\w/.test(text[at - 1] ?? '')) return null;
    let end = closing(text, mark, inner, endless);
    if (mark.length === 1) while (end >= 0 && text[end + 1] === c && text[end - 1] !== c) end = closing(text, mark, end + 2, endless);
    if (end <= inner - 1 || end === inner || /\s/.test(text[end - 1])) continue;
    return { node: h(tag, {}, ...inline(text.slice(inner, end), depth + 1)), end: end + mark.length };
  }
  return null;
}

/** A formula between dollars or LaTeX's brackets. A dollar before a number is mostly money. */
function math(text, at, endless) {
  const open = text[at] === '\\' || text.startsWith('$$', at) ? text.slice(at, at + 2) : '$';
  const close = { '\\(': '\\)', '\\[': '\\]' }[open] ?? open;
  const from = at + open.length;
  const end = closing(text, close, from, endless);
  if (end <= from) return null;
  const tex = text.slice(from, end);
  const beside = [text[at - 1], text[end + 1]].some((c) => /[\d\p{L}]/u.test(c ?? ''));
  if (open === '$' && (beside || /^\s|\s$|\n|\\$/.test(tex))) return null;
  return { node: formula(tex, open === '$$' || open === '\\[', text.slice(at, end + close.length)), end: end + close.length };
}

function link(text, at, endless, depth) {
  const open = text[at] === '!' ? at + 2 : at + 1;
  const middle = closing(text, '](', open, endless);
  const end = middle < 0 ? -1 : closing(text, ')', middle + 2, endless);
  if (end < 0 || text.slice(open, middle).includes('\n')) return null;
  const url = text.slice(middle + 2, end).trim().split(/\s/)[0];
  const label = text.slice(open, middle);
  if (!/^(https?:\/\/|mailto:)/i.test(url)) return null;
  return { node: anchor(url, label ? inline(label, depth + 1) : [url]), end: end + 1 };
}

const anchor = (url, children) => h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, ...children);
