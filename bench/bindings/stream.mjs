// Decodes in Node, for bench/bindings.py: a line of JSON for each line of standard input.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const [name, tokens] = [process.argv[2], Number(process.argv[3])];
let model;

/** Tokens a second after the first. */
async function stream(count) {
  let start = 0;
  const fields = { max_tokens: count, ignore_eos: true, temperature: 0 };
  for await (const _ of model.complete('Once upon a time', fields)) {
    if (start === 0) start = performance.now();
  }
  return ((count - 1) * 1000) / (performance.now() - start);
}

/** Calls and bytes for a token: every call of the library's streams is counted, and the texts that they give. */
async function counted() {
  const native = fileURLToPath(new URL('node_modules/strata-llm/lib/native.js', import.meta.url));
  const { RawStream } = createRequire(import.meta.url)(native);
  const plain = Object.getOwnPropertyDescriptors(RawStream.prototype);
  let calls = 0;
  let copied = 0;
  for (const [method, { value }] of Object.entries(plain)) {
    if (method === 'constructor' || typeof value !== 'function') continue;
    RawStream.prototype[method] = function (...given) {
      const result = value.apply(this, given);
      calls += 1;
      for (const text of Array.isArray(result) ? result : []) copied += Buffer.byteLength(text);
      return result;
    };
  }
  await stream(tokens);
  Object.defineProperties(RawStream.prototype, plain);
  return { calls: calls / tokens, copied: copied / tokens, memory: process.resourceUsage().maxRSS };
}

for await (const line of createInterface({ input: process.stdin })) {
  model ??= await (await import('strata-llm')).load(name);
  const turn = line.trim();
  const result = turn === 'count' ? await counted() : { decode: await stream(turn === 'first' ? 1 : tokens) };
  console.log(JSON.stringify(result));
}
console.log('{}');
await model?.close();
