// Decodes in Node, for bench/bindings.py: a line of JSON for each line of standard input.
import { createInterface } from 'node:readline';

const [name, tokens] = process.argv.slice(2);
let model;

async function stream(count) {
  let calls = 0;
  let start = 0;
  const fields = { max_tokens: count, ignore_eos: true, temperature: 0 };
  for await (const event of model.complete('Once upon a time', fields)) {
    if (event.text) calls++;
    if (start === 0) start = performance.now();
  }
  const seconds = (performance.now() - start) / 1000;
  return { decode: count > 1 ? (count - 1) / seconds : 0, calls: calls / count };
}

for await (const line of createInterface({ input: process.stdin })) {
  model ??= await (await import('strata-llm')).load(name);
  const result = await stream(line.trim() === 'first' ? 1 : Number(tokens));
  console.log(JSON.stringify({ ...result, memory: process.memoryUsage.rss() / 1024 }));
}
console.log('{}');
await model?.close();
