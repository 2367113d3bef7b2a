'use strict';
// Streams of JSON documents: nothing waits on the event loop, the engine wakes it.

const native = require('./native.js');
const { call } = require('./errors.js');

/** Those that wait, by number. */
const waiting = new Map();
let last = 0;
/** One timer for all: it costs less to hold it or let it go than to make another for each token. */
let keepAlive;
let listener;

function wake(number) {
  const resolve = waiting.get(number);
  waiting.delete(number);
  if (waiting.size === 0) keepAlive.unref();
  resolve?.();
}

/** Resolves when the stream of this number has something. The process stays alive meanwhile. */
function ready(number) {
  keepAlive ??= setInterval(() => {}, 1 << 30);
  if (waiting.size === 0) keepAlive.ref();
  return new Promise((resolve) => waiting.set(number, resolve));
}

/** The documents of a request: `for await (const document of …)`. Leaving the loop cancels the request. */
class Documents {
  constructor(raw, signal) {
    this._raw = raw;
    this._signal = signal;
    this._abort = () => raw.cancel();
    if (signal?.aborted) raw.cancel();
    signal?.addEventListener('abort', this._abort, { once: true });
  }

  /** The next document; undefined after the last. */
  async next() {
    const text = await this.nextText();
    return text === undefined
      ? { done: true, value: undefined }
      : { done: false, value: JSON.parse(text) };
  }

  async nextText() {
    try {
      for (;;) {
        listener ??= new native.Listener(wake);
        const number = (last = (last + 1) >>> 0);
        const got = call(() => this._raw.poll(listener, number));
        if (typeof got === 'string') return got;
        if (got) {
          this._release();
          return undefined;
        }
        await ready(number);
      }
    } catch (error) {
      this._release();
      if (error.code === 'canceled' && this._signal?.aborted) throw this._signal.reason;
      throw error;
    }
  }

  _release() {
    this._signal?.removeEventListener('abort', this._abort);
  }

  /** Cancels the request. */
  cancel() {
    this._raw.cancel();
  }

  /** Gives the result of a tool call. */
  toolResult(id, text) {
    call(() => this._raw.toolResult(id, text));
  }

  async return(value) {
    this._release();
    this._raw.cancel();
    return { done: true, value };
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

module.exports = { Documents };
