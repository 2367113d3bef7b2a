// Images and audio of messages. Conversations have their names; the bytes are in a store of this browser beside them, or
// in memory where that is forbidden.

import { json, model } from './api.js';

const PICTURE = /\.(png|jpe?g|webp|gif|bmp)$/i;
const SOUND = /\.(wav|flac|mp3|ogg|oga)$/i;
const FORMATS = { oga: 'ogg' };
/** Bytes that no conversation mentions are forgotten after so many milliseconds: another tab may be writing. */
const DAY = 86_400_000;

/** By key: {bytes, url}. */
const held = new Map();
const abilities = new Map();

const store = new Promise((resolve) => {
  try {
    const opening = indexedDB.open('strata', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('media');
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => resolve(null);
  } catch {
    resolve(null);
  }
});

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

const objects = async (mode) => (await store)?.transaction('media', mode).objectStore('media');

/** What a file is by its name: 'image', 'audio' or nothing. */
export const kind = ({ name, type }) => (PICTURE.test(name) || type?.startsWith('image/') ? 'image' : SOUND.test(name) ? 'audio' : undefined);

/** Whether the selected model can do something: 'vision', 'audio'. */
export async function can(what) {
  const name = model();
  if (!abilities.has(name)) {
    abilities.set(name, json('/api/show', { body: { model: name } }).then(({ capabilities }) => capabilities ?? [], () => {
      abilities.delete(name);
      return [];
    }));
  }
  return (await abilities.get(name)).includes(what);
}

/** Keeps a file; gives what a message says of it. */
export async function put(file) {
  const key = `${Date.now()}-${crypto.getRandomValues(new Uint32Array(2)).join('')}`;
  const bytes = new Uint8Array(await file.arrayBuffer());
  hold(key, bytes, file.type);
  try {
    const all = await objects('readwrite');
    if (all) await done(all.put({ bytes, type: file.type }, key));
  } catch { /* It is in memory. */ }
  return { name: file.name, media: kind(file), key, size: bytes.length };
}

function hold(key, bytes, type) {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  held.set(key, { bytes, type, url });
  return held.get(key);
}

/** A file's bytes and address; null if they are not here any more. */
export async function get({ key }) {
  if (held.has(key)) return held.get(key);
  try {
    const all = await objects('readonly');
    const found = all && await done(all.get(key));
    return found ? hold(key, found.bytes, found.type) : null;
  } catch {
    return null;
  }
}

/** Forgets what no message mentions. */
export async function sweep(mentioned) {
  try {
    const all = await objects('readwrite');
    if (!all) return;
    const keys = new Set(mentioned);
    for (const key of await done(all.getAllKeys())) {
      if (!keys.has(key) && Date.now() - Number.parseInt(key, 10) > DAY) all.delete(key);
    }
  } catch { /* The next visit tries again. */ }
}

function base64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** A file as a part of a message, in the words of the API; text in its place if its bytes are gone. */
export async function part(file) {
  const found = await get(file);
  if (!found) return { type: 'text', text: `[${file.name}]` };
  const data = base64(found.bytes);
  if (file.media === 'image') return { type: 'image_url', image_url: { url: `data:${found.type || 'image/png'};base64,${data}` } };
  const ending = file.name.split('.').at(-1).toLowerCase();
  return { type: 'input_audio', input_audio: { data, format: FORMATS[ending] ?? ending } };
}
