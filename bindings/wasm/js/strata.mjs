// A model in WebAssembly, in this thread. Use worker.mjs in pages: a step takes a while.
//
//   const model = await load({ module, file });
//   for await (const document of model.request('/v1/chat/completions', { messages, stream: true })) …

import { Requests } from './requests.mjs';

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

/** Pages of 64 KiB: what the module for threads is linked with, and 4 GiB. */
const FIRST_PAGES = 1024;
const MOST_PAGES = 65536;
/** Bytes of a thread's stack. */
const STACK = 1 << 20;

/** Whether threads can share memory: in cross-origin-isolated pages, and outside browsers. */
export function canShare() {
  return typeof SharedArrayBuffer !== 'undefined' && (globalThis.crossOriginIsolated ?? true);
}

async function processors() {
  if (globalThis.navigator?.hardwareConcurrency) return navigator.hardwareConcurrency;
  return (await import('node:os')).availableParallelism();
}

/** A module from where it is: an address, a response, bytes, or the module itself. */
async function compile(module) {
  const given = await (typeof module === 'string' || module instanceof URL ? fetch(module) : module);
  if (given instanceof WebAssembly.Module) return given;
  if (typeof Response !== 'undefined' && given instanceof Response) return WebAssembly.compileStreaming(given);
  return WebAssembly.compile(given);
}

/**
 * Opens a model. `module` is the address of a WebAssembly module, a Response, bytes or a WebAssembly.Module; `threaded` is the
 * one for threads, which is used where they can share memory, with as many `threads` as there are processors; `file` is the
 * bytes of a GGUF file, and `adapters` those of LoRA adapters, or `{ file, scale }`s, whose scale is their strength in requests
 * that name none. `progress` hears of bytes loaded and bytes in all.
 */
export async function load({ module, threaded, threads, file, adapters = [], context = 0, requests = 4, progress }) {
  const model = new Model(progress);
  const count = threaded !== undefined && canShare() ? (threads ?? (await processors())) : 1;
  await model._start(count > 1 ? threaded : module, count);
  for (const adapter of adapters) model._adapt(adapter);
  model.info = model._open(new Uint8Array(file), context, requests);
  return model;
}

/**
 * What a model would take in bytes, without loading it: weights, kv, activations, program, total, against the limit of a
 * module's memory. Takes what `load` takes.
 */
export async function plan({ module, file, context = 0, requests = 4 }) {
  const model = new Model();
  await model._start(module, 1);
  const planned = model._wasm.plan(...model._write(new Uint8Array(file)), context, requests);
  const said = JSON.parse(model._output());
  if (planned !== 1) throw new StrataError(said);
  return said;
}

/** A thread's life: computes for the instance that has asked for it. `ready` is called before it begins. */
export async function compute({ compiled, memory, stack, own, number }, ready) {
  const say = (pointer, length) => console.error(text(memory, pointer, length));
  const host = { now: () => performance.now(), unix: () => Date.now(), random: () => 0, progress() {}, say };
  const { exports } = await WebAssembly.instantiate(compiled, { host, env: { memory, now: host.now } });
  exports.__stack_pointer.value = stack;
  exports.__wasm_init_tls?.(own);
  ready();
  exports.work(number);
}

/** Starts a thread, and waits until it can compute. */
async function startThread(parts) {
  const script = new URL('worker.mjs', import.meta.url);
  const inBrowser = typeof Worker !== 'undefined';
  const made = inBrowser ? new Worker(script, { type: 'module' }) : new (await import('node:worker_threads')).Worker(script);
  await new Promise((resolve, reject) => {
    if (inBrowser) {
      made.onmessage = resolve;
      made.onerror = (problem) => reject(new Error(`a thread failed: ${problem.message}`));
    } else made.once('message', resolve).once('error', reject);
    made.postMessage({ thread: parts });
  });
  // A thread that waits for tasks keeps no process alive.
  made.unref?.();
  return made;
}

/** A text in a module's memory. */
function text(memory, pointer, length) {
  // A view would be cut off where memory grows, and decoders take no memory that is shared.
  return new TextDecoder().decode(new Uint8Array(memory.buffer, pointer >>> 0, length).slice());
}

class Model extends Requests {
  constructor(progress) {
    super();
    this._progress = progress;
    this._computing = undefined;
    this._threads = [];
  }

  async _start(module, threads) {
    const compiled = await compile(module);
    const host = {
      now: () => performance.now(),
      unix: () => Date.now(),
      random: () => Math.random(),
      progress: (loaded, total) => this._progress?.(loaded, total),
      say: (pointer, length) => console.error(text(this._memory, pointer, length)),
    };
    const limits = { initial: FIRST_PAGES, maximum: MOST_PAGES, shared: true };
    const memory = threads > 1 ? new WebAssembly.Memory(limits) : undefined;
    this._wasm = (await WebAssembly.instantiate(compiled, { host, env: { memory, now: host.now } })).exports;
    this._memory = memory ?? this._wasm.memory;
    for (let number = 1; number < threads; number++) {
      const stack = ((this._wasm.allocate(STACK) + STACK) & ~15) >>> 0;
      // What the standard library keeps for each thread.
      const own = ((this._wasm.allocate((this._wasm.__tls_size?.value ?? 0) + 16) + 15) & ~15) >>> 0;
      this._threads.push(await startThread({ compiled, memory, stack, own, number }));
    }
    if (threads > 1) this._wasm.set_threads(threads);
  }

  _output() {
    return text(this._memory, this._wasm.output(), this._wasm.output_len());
  }

  _write(bytes) {
    const pointer = this._wasm.allocate(bytes.length) >>> 0;
    new Uint8Array(this._memory.buffer, pointer, bytes.length).set(bytes);
    return [pointer, bytes.length];
  }

  _adapt(adapter) {
    const { file, scale = 0 } = adapter.file ? adapter : { file: adapter };
    this._wasm.adapter(...this._write(new Uint8Array(file)), scale);
  }

  _open(file, context, requests) {
    const opened = this._wasm.open(...this._write(file), context, requests);
    const said = JSON.parse(this._output());
    if (opened !== 1) throw new StrataError(said);
    return said;
  }

  /** Asks what `strata serve` is asked at a path. Leaving the loop cancels, and so does the signal, between two steps. */
  async *request(path, body, { signal } = {}) {
    const written = (given) => this._write(new TextEncoder().encode(given));
    const [where, whereLength] = written(path);
    const [what, whatLength] = written(body === undefined ? '' : JSON.stringify(body));
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

  /** Bytes of memory that the module has taken. */
  get memory() {
    return this._memory.buffer.byteLength;
  }

  /** Lets go of the model, and of its threads. */
  close() {
    this._wasm.close();
    for (const thread of this._threads.splice(0)) thread.terminate();
  }
}
