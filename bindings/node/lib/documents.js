'use strict';
// Streams of JSON documents: nothing waits on the event loop, the engine wakes it.

const native = require('./native.js');
const { call } = require('./errors.js');

/** Those that wait to be told, by their stream's number. */
const waiting = new Map();
let last = 0;
/** One timer for all: it costs less to hold it or let it go than to make another for each token. */
let keepAlive;
let listener;

function tell(number) {
  const wait = waiting.get(number);
  waiting.delete(number);
  if (waiting.size === 0) keepAlive.unref();
  wait?.resolve();
}

/** Resolves when the stream of this number tells that it has something. The process stays alive meanwhile. */
function told(number) {
  let wait = waiting.get(number);
  if (wait === undefined) {
    keepAlive ??= setInterval(() => {}, 1 << 30);
    if (waiting.size === 0) keepAlive.ref();
    wait = {};
    wait.promise = new Promise((resolve) => (wait.resolve = resolve));
    waiting.set(number, wait);
  }
  return wait.promise;
}

/** The documents of a request: `for await (const document of …)`. Leaving the loop cancels the request. */
class Documents {
  constructor(raw, signal) {
    this._raw = raw;
    this._number = last = (last + 1) >>> 0;
    this._texts = [];
    this._read = 0;
    this._signal = signal;
    this._abort = () => this.cancel();
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
    listener ??= new native.Listener(tell);
    try {
      for (;;) {
        if (this._read < this._texts.length) return this._texts[this._read++];
        const got = call(() => this._raw.take(listener, this._number));
        if (got === null) {
          this._release();
          return undefined;
        }
        if (typeof got === 'number') {
          // Where documents come fast they gather: waking the loop for each would keep the engine from computing.
          if (got > 0) setTimeout(tell, got, this._number);
          await told(this._number);
        } else {
          this._texts = got;
          this._read = 0;
        }
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

  /** Cancels the request. What came before is not given any more. */
  cancel() {
    this._raw.cancel();
    this._texts = [];
  }

  /** Gives the result of a tool call. */
  toolResult(id, text) {
    call(() => this._raw.toolResult(id, text));
  }

  async return(value) {
    this._release();
    this.cancel();
    return { done: true, value };
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

module.exports = { Documents };
