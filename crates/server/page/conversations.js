// Conversations as they are kept in this browser: the newest first, and no more than fit.

import { keep, recall } from './dom.js';

const MOST = 50;

const fresh = () => ({ id: crypto.getRandomValues(new Uint32Array(2)).join(''), system: '', messages: [] });

let all = recall('chats', []);
if (!Array.isArray(all) || all.length === 0) all = [fresh()];
let current = all[0];

export const list = () => all;
export const chat = () => current;

export const title = ({ messages }) => {
  const first = messages.find((message) => message.role === 'user')?.content.trim() ?? '';
  return first.slice(0, 60) || 'New chat';
};

export function begin() {
  // An empty conversation is new already.
  const empty = all.find(({ messages }) => messages.length === 0);
  const system = current.system;
  current = empty ?? { ...fresh(), system };
  if (!empty) all.unshift(current);
  save();
}

export const open = (id) => {
  current = all.find((one) => one.id === id) ?? current;
};

export function remove() {
  const rest = all.filter((one) => one !== current);
  keep('chats', rest);
  current = rest[0] ?? fresh();
  save();
}

/** Keeps a conversation; the others are as any tab kept them last. */
export function save(changed = current) {
  const others = recall('chats', []).filter(({ id }) => id !== changed.id);
  all = [changed, ...others].slice(0, MOST).map((one) => (one.id === current.id ? current : one));
  // The oldest go first when the browser gives no more room.
  let kept = all;
  while (!keep('chats', kept) && kept.length > 1) kept = kept.slice(0, -1);
}

/** Makes a file of the conversation. */
export function download() {
  const { system, messages } = current;
  const text = JSON.stringify({ title: title(current), system, messages }, null, 2);
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${title(current).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '') || 'chat'}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
