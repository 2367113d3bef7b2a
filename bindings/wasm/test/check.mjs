// The engine in WebAssembly, under Node: the bytes of `strata run`, cancel, errors, a worker, threads.
// node check.mjs strata.wasm model.gguf [strata-threads.wasm]
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { load, plan, StrataError } from '../js/strata.mjs';
import { loadInWorker } from '../js/worker.mjs';

const STORY = process.env.STRATA_STORY;
const ASKED = 'Tell me a story about a fox.';
const SETTINGS = { temperature: 0, max_tokens: 32 };
const SECONDS = Number(process.env.STRATA_STRESS_SECONDS ?? 3);
const [module, file, threaded] = await Promise.all(process.argv.slice(2, 5).map((path) => readFile(path)));

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

// The server writes as few digits as give the same 32 bits again.
const vector = await model.embed('a fox and an owl');
assert.deepEqual(vector, Float32Array.from(JSON.parse(process.env.STRATA_EMBEDDING)));
feature('embeddings');

// Three answers at once, two of them with adapters of their own.
const { STRATA_ADAPTER_ONE: one, STRATA_ADAPTER_TWO: two } = process.env;
const adapters = [await readFile(one), { file: await readFile(two), scale: 0 }];
const adapted = await load({ module, file, context: 512, adapters });
const ask = async (chosen) => (await all(adapted.chat(ASKED, { ...SETTINGS, max_tokens: 16, adapters: chosen }))).join('');
const each = [await ask(), await ask({ 0: 1 }), await ask({ 1: 1 })];
assert.equal(new Set(each).size, 3);
assert.deepEqual(await Promise.all([ask(), ask({ 0: 1 }), ask({ 1: 1 })]), each);
await assert.rejects(ask({ 2: 1 }), failsWith('invalid_argument'));
adapted.close();
await assert.rejects(load({ module, file, adapters: [file] }), failsWith('invalid_model'));
feature('adapters');

const hero = {
  type: 'object',
  properties: { animal: { enum: ['fox', 'owl'] }, age: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['animal', 'age'],
  additionalProperties: false,
};
const { animal, age } = await model.parsed('Who?', { schema: hero, temperature: 0 });
assert.ok(['fox', 'owl'].includes(animal) && age >= 1 && age <= 9);
const bad = { schema: { type: 'object', properties: { a: { type: 'nothing' } } } };
await assert.rejects(model.parsed('Who?', bad), failsWith('invalid_argument'));
feature('schema');

const cities = [];
const weather = {
  name: 'weather',
  description: 'Tells the weather in a city.',
  parameters: {
    type: 'object',
    properties: { city: { enum: ['Bern', 'Oslo'] } },
    required: ['city'],
    additionalProperties: false,
  },
  async run({ city }) {
    cities.push(city);
    return { degrees: 18 };
  },
};
const forced = { tools: [weather], tool_choice: 'required', temperature: 0, max_tokens: 60 };
assert.ok((await all(model.chat('Is it warm in Oslo?', forced))).join(''));
assert.ok(cities.length >= 1 && cities.every((city) => ['Bern', 'Oslo'].includes(city)));
feature('tools');

const few = { temperature: 0, max_tokens: 6 };
const session = await model.session().append('Once upon a time');
const fork = session.fork();
const said = (await all(session.run(few))).join('');
assert.equal(await session.text(), `Once upon a time${said}`);
assert.equal((await all(fork.run(few))).join(''), said);
for await (const piece of session.run({ max_tokens: 100, ignore_eos: true })) {
  assert.ok(piece);
  await assert.rejects(session.append('x'), { code: 'invalid_argument' });
  break;
}
const restored = model.restore(fork.save());
assert.equal(await session.text(), await restored.text());
assert.equal((await all(session.run(few))).join(''), (await all(restored.run(few))).join(''));
assert.throws(() => model.restore(new Uint8Array(7)), { code: 'invalid_argument' });
feature('sessions');

const planned = await plan({ module, file, context: 512 });
assert.ok(planned.fits && planned.total > planned.weights && planned.context === 512 && planned.limit === 2 ** 32);
assert.ok((await plan({ module, file, context: 1024 })).kv > planned.kv);
await assert.rejects(plan({ module, file: new Uint8Array(100) }), failsWith('invalid_model'));
feature('plan');

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

/** 64 streams at once, canceled at random by themselves and by each other. */
async function stress(options) {
  const asked = await load({ ...options, file, context: 512, requests: 16 });
  const end = performance.now() + SECONDS * 1000;
  const dice = (sides) => Math.floor(Math.random() * sides);
  const counts = { ended: 0, canceled: 0 };
  const shared = [];
  const work = async () => {
    while (performance.now() < end) {
      const own = (shared[dice(64)] = new AbortController());
      const body = { prompt: `Once upon a time ${dice(50)}`, max_tokens: 1 + dice(24), stream: true };
      try {
        for await (const _ of asked.request('/v1/completions', body, { signal: own.signal })) {
          if (dice(16) === 0) shared[dice(64)]?.abort();
          if (dice(64) === 0) break;
        }
        counts.ended++;
      } catch (error) {
        assert.equal(error.name, 'AbortError', error);
        counts.canceled++;
      }
    }
  };
  const workers = Array.from({ length: 64 }, work);
  await new Promise((resolve) => setTimeout(resolve, (SECONDS * 1000) / 3));
  const early = asked.memory;
  await Promise.all(workers);
  assert.ok(counts.ended > 0 && counts.canceled > 0, JSON.stringify(counts));
  assert.ok(asked.memory < early + 4e6, `${early}, then ${asked.memory} bytes`);
  console.error(counts, early, 'bytes, then', asked.memory);
  const said = (await all(asked.chat(ASKED, SETTINGS))).join('');
  assert.equal(said, STORY);
  asked.close();
}

await stress({ module });
if (threaded) {
  // More threads than there are processors, too.
  for (const threads of [2, 3]) {
    const many = await load({ module, threaded, threads, file, context: 512 });
    assert.equal(many.info.threads, threads);
    const from = performance.now();
    assert.equal((await all(many.chat(ASKED, SETTINGS))).join(''), STORY);
    console.error(`${threads} threads: 32 tokens in ${((performance.now() - from) / 1000).toFixed(2)} s`);
    many.close();
  }
  await stress({ module, threaded, threads: 2 });
  const remote = await loadInWorker({ module, threaded, threads: 2, file, context: 512 });
  assert.equal(remote.info.threads, 2);
  assert.equal((await all(remote.chat(ASKED, SETTINGS))).join(''), STORY);
  await remote.close();
}
feature('stress');
