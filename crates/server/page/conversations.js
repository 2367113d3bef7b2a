// Conversations, kept in this browser, the latest first. Each is a tree of messages: another version of a message has
// the same parent, `leaf` ends the branch that is shown, and `chosen` has the version that was last shown after each.

import { keep, recall } from './dom.js';
import { t } from './words.js';

const MOST = 200;
const ROLES = ['user', 'assistant', 'tool'];

const newId = () => crypto.getRandomValues(new Uint32Array(2)).join('');
const fresh = () => ({ id: newId(), title: '', system: '', messages: [], leaf: null, chosen: {} });

const text = (value) => (typeof value === 'string' ? value : '');

/** A conversation from anything that looks like one; null if it does not. */
function read(document) {
  if (document === null || typeof document !== 'object' || !Array.isArray(document.messages)) return null;
  const system = document.messages.find((message) => message?.role === 'system');
  const made = { ...fresh(), id: text(document.id) || newId(), title: text(document.title), system: text(document.system) || text(system?.content) };
  for (const message of document.messages) {
    if (!ROLES.includes(message?.role)) continue;
    const content = Array.isArray(message.content) ? message.content.map((part) => text(part?.text)).join('') : text(message.content);
    const last = made.messages.at(-1)?.id ?? null;
    // Lists without parents are a single branch.
    const parent = message.parent === null || made.messages.some(({ id }) => id === message.parent) ? message.parent : last;
    const own = { ...message, id: text(message.id) || newId(), parent, role: message.role, content };
    own.calls = readCalls(message.calls ?? message.tool_calls);
    own.call = text(message.call ?? message.tool_call_id) || undefined;
    own.files = Array.isArray(message.files) ? message.files.map(readFile) : undefined;
    made.messages.push(own);
  }
  const known = made.messages.some(({ id }) => id === document.leaf);
  if (typeof document.chosen === 'object') made.chosen = { ...document.chosen };
  made.leaf = known ? document.leaf : made.messages.at(-1)?.id ?? null;
  return made;
}

/** A text with its name, or where an image or audio is kept. */
function readFile(file) {
  const name = text(file?.name);
  if (!['image', 'audio'].includes(file?.media)) return { name, text: text(file?.text) };
  return { name, media: file.media, key: text(file.key), size: Number(file.size) || 0 };
}

function readCalls(calls) {
  if (!Array.isArray(calls)) return undefined;
  return calls.map((call) => ({ id: text(call?.id), type: 'function', function: { name: text(call?.function?.name), arguments: text(call?.function?.arguments) } }));
}

const stored = () => {
  const kept = recall('chats', []);
  return Array.isArray(kept) ? kept.map(read).filter(Boolean) : [];
};

let all = stored();
if (all.length === 0) all = [fresh()];
let [current] = all;

export const list = () => all;
export const chat = () => current;

/** What a conversation is called: by its user, or by how it begins. */
export function title({ title: given, messages }) {
  const first = messages.find((message) => message.role === 'user')?.content.trim().replace(/\s+/g, ' ') ?? '';
  return given || first.slice(0, 60) || t('new_chat');
}

/** Begins a conversation, or goes to the one that is still empty. */
export function begin() {
  const empty = all.find(({ messages }) => messages.length === 0);
  const { system } = current;
  current = empty ?? { ...fresh(), system };
  if (!empty) all.unshift(current);
  save();
}

export function open(id) {
  current = all.find((one) => one.id === id) ?? current;
}

export function remove() {
  const rest = all.filter((one) => one !== current);
  keep('chats', rest);
  all = rest.length > 0 ? rest : [fresh()];
  [current] = all;
  save();
}

/** Saves a conversation. The others stay as any tab saved them last; the oldest go when there is no more room. */
export function save(changed = current) {
  const others = stored().filter(({ id }) => id !== changed.id);
  all = [changed, ...others].slice(0, MOST).map((one) => (one.id === current.id ? current : one));
  let kept = all;
  while (!keep('chats', kept) && kept.length > 1) kept = kept.slice(0, -1);
}

/** The messages of the branch that is shown, first to last. */
export function path(of = current, leaf = of.leaf) {
  const byId = new Map(of.messages.map((message) => [message.id, message]));
  const found = [];
  for (let at = byId.get(leaf); at && found.length <= byId.size; at = byId.get(at.parent)) found.unshift(at);
  return found;
}

/** Adds a message after another, and shows its branch. */
export function append(parent, message, to = current) {
  const made = { ...message, id: newId(), parent: parent ?? null };
  to.messages.push(made);
  to.leaf = made.id;
  to.chosen[made.parent] = made.id;
  return made;
}

/** All versions of a message: those with the same parent. */
export const versions = (message, of = current) => of.messages.filter(({ parent }) => parent === message.parent);

/** Shows the branch of a message, as it was last shown. */
export function choose(message, of = current) {
  let at = message;
  of.chosen[message.parent] = message.id;
  for (;;) {
    const after = of.messages.filter(({ parent }) => parent === at.id);
    const next = after.find(({ id }) => id === of.chosen[at.id]) ?? after.at(-1);
    if (!next) break;
    at = next;
  }
  of.leaf = at.id;
  save(of);
}

/** Begins a conversation with a copy of the branch up to a message. */
export function fork(message) {
  const copied = path(current, message.id).map((one) => structuredClone(one));
  current = { ...fresh(), title: current.title, system: current.system, messages: copied, leaf: message.id };
  all.unshift(current);
  save();
}

/** Conversations that contain all words of a query, each with where its first match is. */
export function search(query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const one of all) {
    const texts = [title(one), ...one.messages.map(({ content }) => content)];
    const lower = texts.map((part) => part.toLowerCase());
    if (!wanted.every((word) => lower.some((part) => part.includes(word)))) continue;
    const at = lower.findIndex((part, n) => n > 0 && wanted.some((word) => part.includes(word)));
    const word = at < 0 ? '' : wanted.find((other) => lower[at].includes(other));
    found.push({ one, match: at < 0 ? null : { text: texts[at], from: lower[at].indexOf(word), length: word.length } });
  }
  return found;
}

/** Conversations as a document that `importAll` reads. */
export const exported = (of) => JSON.stringify({ format: 'strata-conversations', version: 1, conversations: of }, null, 2);

/** Adds the conversations of a document: an export, a list of them, or one with `messages`. Gives how many. */
export function importAll(source) {
  const document = JSON.parse(source);
  const listed = Array.isArray(document) && document.every((one) => one?.role) ? [{ messages: document }] : document.conversations ?? document;
  const found = (Array.isArray(listed) ? listed : [listed]).map(read).filter((one) => one?.messages.length > 0);
  if (found.length === 0) throw new Error(t('no_conversation'));
  // A conversation that is here already is replaced only by itself: a second import makes no copies.
  for (const one of found.reverse()) {
    const known = all.find(({ id }) => id === one.id);
    if (known && JSON.stringify(known.messages) !== JSON.stringify(one.messages)) one.id = newId();
    current = one;
    save();
  }
  return found.length;
}
