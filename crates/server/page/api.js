// Calls to the server, with the key if it asks for one.

import { $ } from './dom.js';
import { serverSentEvents } from './sse.js';
import { t } from './words.js';

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The selected model. */
export const model = () => $('#model').value;

let key = sessionStorage.getItem('strata.key') ?? '';
let asking = null;

/** Asks for a key. Calls that need one meanwhile wait for the same answer. */
export function askKey(reason) {
  asking ??= new Promise((resolve) => {
    const dialog = $('#key-dialog');
    $('#key-reason').textContent = reason;
    $('#key').value = key;
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

/** A successful response. `ask` says whether the user may be asked for a key. */
export async function call(path, { method, body, headers = {}, signal, ask = true } = {}) {
  for (;;) {
    const sent = { ...headers };
    if (key) sent.authorization = `Bearer ${key}`;
    // A browser knows the type of a form itself.
    const form = body instanceof FormData;
    if (body !== undefined && !form) sent['content-type'] = 'application/json';
    let response;
    try {
      response = await fetch(path, {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: sent,
        body: body === undefined || form ? body : JSON.stringify(body),
        signal,
        cache: 'no-store',
      });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ApiError(t('unreachable'), 0);
    }
    if (response.ok) return response;
    const message = await problem(response);
    if (response.status === 401 && ask && (await askKey(message))) continue;
    throw new ApiError(message, response.status);
  }
}

export const json = async (path, options) => (await call(path, options)).json();

async function problem(response) {
  const text = await response.text();
  let message = text.slice(0, 300);
  try {
    message = told(JSON.parse(text)) ?? message;
  } catch { /* Not JSON: the text itself is the message. */ }
  const seconds = response.headers.get('retry-after');
  message ||= response.statusText || String(response.status);
  return seconds ? `${message} (${t('retry_in', { seconds })})` : message;
}

const told = (document) => document?.error?.message ?? (typeof document?.error === 'string' ? document.error : undefined);

/** The documents of a stream. `progress` hears of a request that has not begun to answer: the server tells it in
 *  comments, if it is asked to. */
export async function* events(path, body, signal, progress) {
  const headers = progress ? { 'strata-progress': 'comments' } : {};
  for await (const { data, comment } of serverSentEvents(await call(path, { body, headers, signal }))) {
    if (comment) {
      try {
        progress?.(JSON.parse(comment));
      } catch { /* A comment of another kind. */ }
    } else if (data === '[DONE]') {
      return;
    } else if (data) {
      const document = JSON.parse(data);
      if (told(document)) throw new ApiError(told(document), document.error.code);
      yield document;
    }
  }
}

/** The documents of a stream of lines, as Ollama's routes send them. */
export async function* lines(path, body, signal) {
  const reader = (await call(path, { body, signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    const parts = (rest + (done ? '\n' : value)).split('\n');
    rest = parts.pop();
    for (const part of parts.filter((line) => line.trim() !== '')) {
      const document = JSON.parse(part);
      if (told(document)) throw new ApiError(told(document), 0);
      yield document;
    }
    if (done) return;
  }
}
