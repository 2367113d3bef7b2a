// Calls to the server, with the key if it asks for one.

import { $ } from './dom.js';

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The model that calls are about. */
export const model = () => $('#model').value;

let key = sessionStorage.getItem('strata.key') ?? '';
let asking = null;

/** Asks for a key; calls that need one meanwhile wait for the same answer. */
export function askKey(reason) {
  asking ??= new Promise((resolve) => {
    const dialog = $('#key-dialog');
    $('#key-reason').textContent = reason;
    $('#key').value = key;
    $('#key-button').hidden = false;
    dialog.returnValue = '';
    dialog.addEventListener('close', () => {
      const given = dialog.returnValue === 'use' && $('#key').value !== '';
      if (given) {
        key = $('#key').value;
        sessionStorage.setItem('strata.key', key);
      }
      asking = null;
      resolve(given);
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** A response that is well; `ask` says whether a person may be asked for a key. */
export async function call(path, { body, signal, ask = true } = {}) {
  for (;;) {
    const headers = {};
    if (key) headers.authorization = `Bearer ${key}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    let response;
    try {
      response = await fetch(path, {
        method: body === undefined ? 'GET' : 'POST',
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal,
        cache: 'no-store',
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ApiError('The server cannot be reached.', 0);
    }
    if (response.ok) return response;
    const message = await problem(response);
    if (response.status === 401) {
      $('#key-button').hidden = false;
      if (ask && (await askKey(message))) continue;
    }
    throw new ApiError(message, response.status);
  }
}

export const json = async (path, options) => (await call(path, options)).json();

async function problem(response) {
  const text = await response.text();
  let message = text.slice(0, 300);
  try {
    message = told(JSON.parse(text)) ?? message;
  } catch { /* It is not JSON: the text itself is the message. */ }
  const wait = response.headers.get('retry-after');
  return `${message || response.statusText || response.status}${wait ? ` (again in ${wait} s)` : ''}`;
}

const told = (document) => document?.error?.message ?? (typeof document?.error === 'string' ? document.error : undefined);

/** The documents of a stream of server-sent events. */
export async function* events(path, body, signal) {
  const response = await call(path, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? '\n\n' : value;
      const parts = rest.split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const lines = part.split(/\r?\n/).filter((line) => line.startsWith('data:'));
        if (lines.length === 0) continue;
        const data = lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
        if (data === '[DONE]') return;
        const document = JSON.parse(data);
        if (told(document)) throw new ApiError(told(document), document.error.code);
        yield document;
      }
      if (done) return;
    }
  } finally {
    // Leaving early frees the server's work; an aborted stream has nothing left to cancel.
    reader.cancel().catch(() => {});
  }
}
