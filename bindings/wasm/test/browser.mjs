// The page in a headless Chromium, from a file, with no server: the story of `strata run`, and a stop in the middle. Then the
// README's example, from a server of files that isolates its pages: with threads.
// node browser.mjs tale.html FOLDER_WITH_START_HTML
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { basename, extname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const STORY = process.env.STRATA_STORY;
const PATIENCE = 120_000;
const profile = mkdtempSync(join(tmpdir(), 'strata-wasm-'));
const browser = spawn(process.env.CHROMIUM ?? 'chromium', [
  '--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

/** A server of one folder's files. Pages from it are cross-origin isolated, so their threads may share memory. */
const TYPES = { '.html': 'text/html', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };
const files = createServer((request, answer) => {
  const name = basename(request.url);
  try {
    const bytes = readFileSync(join(process.argv[3], name));
    answer.writeHead(200, {
      'content-type': TYPES[extname(name)] ?? 'application/octet-stream',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
    });
    answer.end(bytes);
  } catch {
    answer.writeHead(404).end();
  }
});
await new Promise((resolve) => files.listen(0, '127.0.0.1', resolve));
const ORIGIN = `http://127.0.0.1:${files.address().port}/`;

let session;
let last = 0;
const waiting = new Map();
const faults = [];
let rest = Buffer.alloc(0);
browser.stdio[4].on('data', (data) => {
  rest = Buffer.concat([rest, data]);
  for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
    const message = JSON.parse(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
    if (message.method === 'Runtime.exceptionThrown') faults.push(message.params.exceptionDetails);
    const asked = message.method === 'Network.requestWillBeSent' ? message.params.request.url : '';
    if (/^(http|ws)/.test(asked) && !asked.startsWith(ORIGIN)) {
      faults.push(`asked for ${asked}`);
    }
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  }
});

async function ask(method, params = {}) {
  const id = ++last;
  const answer = new Promise((resolve) => waiting.set(id, resolve));
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: session })}\0`);
  const { result, error } = await answer;
  assert.ok(!error, `${method}: ${error?.message}`);
  return result;
}

const value = async (expression) =>
  (await ask('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })).result.value;

async function until(expression) {
  const end = Date.now() + PATIENCE;
  while (!(await value(expression))) {
    assert.ok(faults.length === 0, JSON.stringify(faults));
    assert.ok(Date.now() < end, `waited for ${expression}`);
    await sleep(50);
  }
}

async function open(url) {
  await ask('Page.navigate', { url });
  await until("document.body?.dataset.state === 'ready'");
}

let failure;
try {
  const { targetInfos } = await ask('Target.getTargets');
  const { targetId } = targetInfos.find(({ type }) => type === 'page');
  ({ sessionId: session } = await ask('Target.attachToTarget', { targetId, flatten: true }));
  for (const domain of ['Page', 'Runtime', 'Network']) await ask(`${domain}.enable`);
  const page = pathToFileURL(resolve(process.argv[2])).href;
  await open(`${page}?greedy&tokens=32`);
  await value("document.getElementById('tell').click()");
  await until("document.getElementById('story').dataset.state === 'told'");
  assert.equal(await value("document.getElementById('story').textContent"), STORY);
  console.error(await value("document.getElementById('facts').textContent"));
  await open(`${page}?tokens=900`);
  await value("document.getElementById('tell').click()");
  await until("document.getElementById('story').textContent.length > 20");
  await value("document.getElementById('stop').click()");
  await until("document.getElementById('story').dataset.state === 'stopped'");
  await ask('Page.navigate', { url: `${ORIGIN}start.html` });
  await until(`document.body?.textContent.includes(${JSON.stringify(STORY)})`);
  assert.equal(await value('crossOriginIsolated'), true);
  const [threads, told] = await value(`(async () => {
    const { loadInWorker } = await import('./worker.mjs');
    const file = await (await fetch('tale.gguf')).arrayBuffer();
    const parts = { module: 'strata.wasm', threaded: 'strata-threads.wasm', threads: 2 };
    const model = await loadInWorker({ ...parts, file, context: 512 });
    const pieces = [];
    const asked = model.chat('Tell me a story about a fox.', { temperature: 0, max_tokens: 32 });
    for await (const piece of asked) pieces.push(piece);
    await model.close();
    return [model.info.threads, pieces.join('')];
  })()`);
  assert.equal(told, STORY);
  assert.equal(threads, 2);
  assert.deepEqual(faults, []);
  console.log('feature browser');
} catch (error) {
  failure = error;
}
files.close();
browser.kill();
await new Promise((resolve) => browser.once('close', resolve));
rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
if (failure) throw failure;
