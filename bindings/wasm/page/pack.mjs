// Packs the page into one file that needs nothing beside it, not even a server of files: open it from a disk.
// node pack.mjs strata.wasm tale.gguf > tale.html
import { readFile } from 'node:fs/promises';

const [module, model] = process.argv.slice(2, 4);
const beside = (name) => readFile(new URL(name, import.meta.url), 'utf8');
const [page, script, requests, strata, worker] = await Promise.all(
  ['index.html', 'page.mjs', '../js/requests.mjs', '../js/strata.mjs', '../js/worker.mjs'].map(beside),
);

/** Sources as one, without what ties files together. */
const joined = (...sources) =>
  sources.map((source) => source.replace(/^import .*;\n/gm, '').replace(/^export /gm, '')).join('\n');

const base64 = (bytes) => Buffer.from(bytes).toString('base64');
const part = (id, content) => `<script type="text/plain" id="${id}">${content}</script>\n`;
// Browsers start no modules as workers from a file, so this one is a plain script.
const plain = `(async () => {\n${joined(requests, strata, worker).replaceAll('import.meta.url', 'location.href')}\n})();\n`;
const parts =
  part('worker', base64(plain)) +
  part('module', base64(await readFile(module))) +
  part('model', base64(await readFile(model)));
const own = `<script type="module">\n${joined(requests, strata, worker, script)}</script>`;
process.stdout.write(page.replace(/<script type="module" src="page.mjs"><\/script>/, () => parts + own));
