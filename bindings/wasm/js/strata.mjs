// A model in WebAssembly, in this thread. Use worker.mjs in pages: a step takes a while.
//
//   const model = await load({ module, file });
//   for await (const document of model.request('/v1/chat/completions', { messages, stream: true })) …

/** What went wrong: a sentence and a code that stays the same from version to version. */
export class StrataError extends Error {
  constructor({ message, code }) {
    super(message);
    this.name = 'StrataError';
    this.code = code;
  }
}

/** Lets others have their turn: messages, timers, drawing. */
function turn() {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(0);
  });
}

/**
 * Opens a model. `module` is a WebAssembly.Module, a Response or bytes; `file` the bytes of a GGUF file. `progress` hears of
 * bytes loaded and bytes in all.
 */
export async function load({ module, file, context = 0, requests = 4, progress }) {
  const model = new Model(progress);
  await model._start(module);
  model.info = model._open(new Uint8Array(file), context, requests);
  return model;
}

class Model {
  constructor(progress) {
    this._progress = progress;
    this._computing = undefined;
  }

  async _start(module) {
    const host = {
      now: () => performance.now(),
      unix: () => Date.now(),
      random: () => Math.random(),
      progress: (loaded, total) => this._progress?.(loaded, total),
      say: (pointer, length) => console.error(this._read(pointer, length)),
    };
    const isResponse = typeof Response !== 'undefined' && module instanceof Response;
    const made = isResponse
      ? await WebAssembly.instantiateStreaming(module, { host })
      : await WebAssembly.instantiate(module, { host });
    this._wasm = (made.instance ?? made).exports;
  }

  _read(pointer, length) {
    // A view would be cut off where memory grows.
    return new TextDecoder().decode(new Uint8Array(this._wasm.memory.buffer, pointer, length).slice());
  }

  _output() {
    return this._read(this._wasm.output(), this._wasm.output_len());
  }

  _write(bytes) {
    const pointer = this._wasm.allocate(bytes.length);
    new Uint8Array(this._wasm.memory.buffer, pointer, bytes.length).set(bytes);
    return [pointer, bytes.length];
  }

  _open(file, context, requests) {
    const opened = this._wasm.open(...this._write(file), context, requests);
    const said = JSON.parse(this._output());
    if (opened !== 1) throw new StrataError(said);
    return said;
  }

  /** Asks what `strata serve` is asked at a path. Leaving the loop cancels, and so does the signal, between two steps. */
  async *request(path, body, { signal } = {}) {
    const text = (given) => this._write(new TextEncoder().encode(given));
    const [where, whereLength] = text(path);
    const [what, whatLength] = text(body === undefined ? '' : JSON.stringify(body));
    const number = this._wasm.request(where, whereLength, what, whatLength);
    if (number === 0) throw new StrataError(JSON.parse(this._output()));
    try {
      for (;;) {
        signal?.throwIfAborted();
        const status = this._wasm.next(number);
        if (status === 0) return;
        if (status === -1) throw new StrataError(JSON.parse(this._output()));
        if (status === 1) yield JSON.parse(this._output());
        else await this._step();
      }
    } finally {
      this._wasm.cancel(number);
    }
  }

  /** Computes a step for all requests; those that wait share it. */
  _step() {
    this._computing ??= turn().then(() => {
      this._computing = undefined;
      this._wasm.step();
    });
    return this._computing;
  }

  /** The text of an answer, piece by piece. */
  async *chat(messages, { signal, ...fields } = {}) {
    const list = typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages;
    const body = { messages: list, stream: true, ...fields };
    for await (const { choices } of this.request('/v1/chat/completions', body, { signal })) {
      const piece = choices[0]?.delta?.content;
      if (piece) yield piece;
    }
  }

  /** Lets go of the model. */
  close() {
    this._wasm.close();
  }
}
