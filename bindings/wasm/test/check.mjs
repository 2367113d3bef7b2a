// The engine in WebAssembly, under Node: the bytes of `strata run`, cancel, errors, a worker.
// node check.mjs strata.wasm model.gguf
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { load, StrataError } from '../js/strata.mjs';
import { loadInWorker } from '../js/worker.mjs';

const STORY = process.env.STRATA_STORY;
const ASKED = 'Tell me a story about a fox.';
const SETTINGS = { temperature: 0, max_tokens: 32 };
const [module, file] = await Promise.all(process.argv.slice(2, 4).map((path) => readFile(path)));

const feature = (name) => console.log('feature', name);
const failsWith = (code) => (error) => error instanceof StrataError && error.code === code;
const all = async (pieces) => {
  const list = [];
  for await (const piece of pieces) list.push(piece);
  return list;
};

let told = 0;
const begun = performance.now();
const model = await load({ module, file, context: 512, progress: () => told++ });
const loaded = performance.now();
assert.ok(told > 0, 'progress');
const pieces = await all(model.chat(ASKED, SETTINGS));
const seconds = (performance.now() - loaded) / 1000;
assert.equal(pieces.join(''), STORY);
assert.ok(pieces.length > 5);
console.error(`${model.info.isa}: loaded in ${(loaded - begun).toFixed(0)} ms, 32 tokens in ${seconds.toFixed(2)} s`);
feature('greedy');
feature('stream');

const abort = new AbortController();
setTimeout(() => abort.abort(), 30);
await assert.rejects(all(model.chat(ASKED, { ...SETTINGS, max_tokens: 400, signal: abort.signal })), {
  name: 'AbortError',
});
// In a prompt's computation, too: a step computes 16 of its tokens.
const long = { prompt: 'fox owl '.repeat(200), max_tokens: 1 };
await assert.rejects(all(model.request('/v1/completions', long, { signal: AbortSignal.timeout(10) })), {
  name: 'TimeoutError',
});
for await (const piece of model.chat(ASKED, SETTINGS)) {
  assert.ok(piece);
  break;
}
// The next answer is as it was.
assert.equal((await all(model.chat(ASKED, SETTINGS))).join(''), STORY);
feature('cancel');

const [tokens] = await all(model.request('/tokenize', { content: 'Once upon a time' }));
assert.ok(tokens.tokens.length > 3);
feature('tokenize');
await assert.rejects(all(model.chat('a', { tempreature: 1 })), failsWith('invalid_argument'));
await assert.rejects(load({ module, file: new Uint8Array(100) }), failsWith('invalid_model'));
model.close();
await assert.rejects(all(model.chat('a')), failsWith('closed'));
feature('errors');

const other = await loadInWorker({ module, file, context: 512 });
let ticks = 0;
const timer = setInterval(() => ticks++, 5);
assert.equal((await all(other.chat(ASKED, SETTINGS))).join(''), STORY);
clearInterval(timer);
assert.ok(ticks > 3, 'this thread stays free');
await other.close();
