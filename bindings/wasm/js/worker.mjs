// The model in a worker, for pages and for Node: the same calls, from a thread that stays free.
//
//   const model = await loadInWorker({ module: 'strata.wasm', file: bytes, progress });
//   for await (const piece of model.chat('Hello', { signal })) …

import { Requests } from './requests.mjs';
import { compute, load, StrataError } from './strata.mjs';

/** Opens a model in a worker. `worker` is one that runs this file; by default it is made here, in browsers and in Node. */
export async function loadInWorker({ progress, worker, ...options }) {
  const model = new RemoteModel(worker ?? (await ownWorker()), progress);
  model.info = await model._ask({ load: options });
  return model;
}

async function ownWorker() {
  const here = new URL(import.meta.url);
  if (typeof Worker !== 'undefined') return new Worker(here, { type: 'module' });
  const { Worker: NodeWorker } = await import('node:worker_threads');
  return new NodeWorker(here);
}

class RemoteModel extends Requests {
  constructor(worker, progress) {
    super();
    this._worker = worker;
    this._progress = progress;
    this._last = 0;
    this._heard = new Map();
    const hear = (message) => this._hear(message);
    if (worker.addEventListener) worker.addEventListener('message', ({ data }) => hear(data));
    else worker.on('message', hear);
  }

  _hear(message) {
    if (message.progress) return this._progress?.(...message.progress);
    this._heard.get(message.number)?.(message);
  }

  _post(message) {
    this._worker.postMessage(message);
  }

  async _ask(message) {
    const number = ++this._last;
    const answer = await new Promise((resolve) => {
      this._heard.set(number, resolve);
      this._post({ number, ...message });
    });
    this._heard.delete(number);
    if (answer.error) throw new StrataError(answer.error);
    return answer.value;
  }

  /** Like the same of a model in this thread. */
  async *request(path, body, { signal } = {}) {
    const number = ++this._last;
    const waiting = [];
    let wake = () => {};
    this._heard.set(number, (message) => {
      waiting.push(message);
      wake();
    });
    const abort = () => wake();
    signal?.addEventListener('abort', abort, { once: true });
    this._post({ number, path, body });
    try {
      for (;;) {
        signal?.throwIfAborted();
        const message = waiting.shift();
        if (message === undefined) {
          await new Promise((resolve) => (wake = resolve));
          continue;
        }
        if (message.error) throw new StrataError(message.error);
        if (message.over) return;
        yield message.document;
      }
    } finally {
      signal?.removeEventListener('abort', abort);
      this._heard.delete(number);
      this._post({ number, cancel: true });
    }
  }

  /** Ends the worker. */
  close() {
    return this._worker.terminate();
  }
}

/** The worker's side: does what messages say. */
function serve(post, listen) {
  let model;
  const running = new Map();
  const said = (error) => ({ message: error.message, code: error.code ?? 'internal' });
  const run = async (number, path, body) => {
    const controller = new AbortController();
    running.set(number, controller);
    try {
      for await (const document of model.request(path, body, { signal: controller.signal })) post({ number, document });
      post({ number, over: true });
    } catch (error) {
      if (!controller.signal.aborted) post({ number, error: said(error) });
    }
    running.delete(number);
  };
  listen(async ({ number, load: options, path, body, cancel, thread }) => {
    if (thread) return compute(thread, () => post({ ready: true }));
    if (cancel) return running.get(number)?.abort();
    if (path) return run(number, path, body);
    try {
      model = await load({ ...options, progress: (...progress) => post({ progress }) });
      post({ number, value: model.info });
    } catch (error) {
      post({ number, error: said(error) });
    }
  });
}

if (typeof WorkerGlobalScope !== 'undefined' && globalThis instanceof WorkerGlobalScope) {
  serve(
    (message) => globalThis.postMessage(message),
    (hear) => globalThis.addEventListener('message', ({ data }) => hear(data)),
  );
} else if (typeof process !== 'undefined' && process.versions?.node) {
  const { parentPort, isMainThread } = await import('node:worker_threads');
  if (!isMainThread && parentPort) {
    serve(
      (message) => parentPort.postMessage(message),
      (hear) => parentPort.on('message', hear),
    );
  }
}
