// Holds a running server to a browser on another origin, with OpenAI's and Anthropic's clients in the page.
//
//   npm install --prefix FOLDER openai @anthropic-ai/sdk esbuild
//   node tools/conformance_browser.mjs http://127.0.0.1:11434 FOLDER PORT [MODEL]
//
// The page is at http://app.example:PORT, which only this browser knows: the server must be started with that origin as
// --allow-origin, and with the key in STRATA_API_KEY. The program is `chromium`, or what the variable CHROMIUM names.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [address, folder, port, model = 'tale'] = process.argv.slice(2);
if (!port) {
  console.error('usage: node tools/conformance_browser.mjs ADDRESS FOLDER PORT [MODEL]');
  process.exit(2);
}
const key = process.env.STRATA_API_KEY ?? '';
const PATIENCE = 60_000;

/** What runs in the page; each check gives what is wrong, or nothing. */
const PAGE = `
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
const messages = [{ role: 'user', content: 'Tell me about a small dog.' }];
window.checks = {
  async openai({ address, key, model }) {
    const client = new OpenAI({ baseURL: address + '/v1', apiKey: key, maxRetries: 0, dangerouslyAllowBrowser: true });
    const fields = { model, messages, temperature: 0, max_tokens: 16 };
    const { data: whole, response, request_id: id } = await client.chat.completions.create(fields).withResponse();
    if (!response.headers.get('x-request-id') || !id) return 'the page cannot read the name of its request';
    let text = '';
    for await (const chunk of await client.chat.completions.create({ ...fields, stream: true })) text += chunk.choices[0]?.delta?.content ?? '';
    if (text !== whole.choices[0].message.content) return 'the stream is not the whole';
  },
  async anthropic({ address, key, model }) {
    const client = new Anthropic({ baseURL: address, apiKey: key, maxRetries: 0, dangerouslyAllowBrowser: true });
    const fields = { model, messages, temperature: 0, max_tokens: 16 };
    const whole = await client.messages.create(fields);
    const streamed = await client.messages.stream(fields).finalMessage();
    if (streamed.content[0].text !== whole.content[0].text) return 'the stream is not the whole';
    if (!whole._request_id) return 'the page cannot read the name of its request';
    const unknown = await client.messages.create({ ...fields, model: 'nobody' }).catch((error) => error);
    if (unknown.status !== 404 || unknown.error?.error?.type !== 'not_found_error') return 'an unknown model: ' + unknown;
  },
  async wrong_key({ address, model }) {
    const client = new OpenAI({ baseURL: address + '/v1', apiKey: 'wrong', maxRetries: 0, dangerouslyAllowBrowser: true });
    const error = await client.chat.completions.create({ model, messages }).catch((error) => error);
    if (error.status !== 401) return 'a wrong key: ' + error;
  },
};
`;

const workplace = mkdtempSync(join(tmpdir(), 'browser-check-'));
const require = createRequire(join(folder, 'package.json'));
writeFileSync(join(workplace, 'page.mjs'), PAGE);
const built = await require('esbuild').build({
  entryPoints: [join(workplace, 'page.mjs')],
  nodePaths: [join(folder, 'node_modules')],
  bundle: true, format: 'iife', platform: 'browser', write: false, logLevel: 'error',
});
const script = built.outputFiles[0].text;
const site = createServer((request, response) => {
  const isScript = request.url === '/page.js';
  response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
  response.end(isScript ? script : '<!doctype html><script src="/page.js"></script>');
}).listen(Number(port), '127.0.0.1');

const browser = spawn(process.env.CHROMIUM ?? 'chromium', [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP *.example 127.0.0.1', '--remote-debugging-pipe',
  `--user-data-dir=${join(workplace, 'profile')}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

let session;
let count = 0;
let rest = Buffer.alloc(0);
const answers = new Map();
browser.stdio[4].on('data', (data) => {
  rest = Buffer.concat([rest, data]);
  for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
    const message = JSON.parse(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
    answers.get(message.id)?.(message);
    answers.delete(message.id);
  }
});

function ask(method, params = {}) {
  count += 1;
  const id = count;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: session })}\0`);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`the browser does not answer ${method}`)), PATIENCE);
    answers.set(id, ({ result, error }) => {
      clearTimeout(late);
      if (error) reject(new Error(error.message));
      else resolve(result);
    });
  });
}

/** What an expression gives inside the page. */
async function evaluate(expression) {
  const { result, exceptionDetails } = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

async function open(url) {
  const { targetId } = await ask('Target.createTarget', { url });
  ({ sessionId: session } = await ask('Target.attachToTarget', { targetId, flatten: true }));
  const end = Date.now() + PATIENCE;
  while (!(await evaluate('window.checks !== undefined'))) {
    if (Date.now() > end) throw new Error(`${url} does not load`);
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
}

let failed = 0;
const report = (name, problem) => {
  failed += problem ? 1 : 0;
  console.log(problem ? `FAIL  browser_${name}\n${problem}` : `ok    browser_${name}`);
};
try {
  await open(`http://app.example:${port}/`);
  const given = JSON.stringify({ address, key, model });
  for (const name of await evaluate('Object.keys(window.checks)')) {
    report(name, await evaluate(`window.checks[${JSON.stringify(name)}](${given})`).catch((error) => error.stack));
  }
  session = undefined;
  await open(`http://evil.example:${port}/`);
  const shut = await evaluate(`window.checks.openai(${given}).then(() => false, (error) => error.name + ': ' + error.message)`);
  report('other_origins_are_refused', shut && /connection/i.test(shut) ? undefined : `evil.example got ${shut}`);
} catch (error) {
  report('starts', error.stack);
}
const ended = new Promise((resolve) => { browser.on('exit', resolve); });
session = undefined;
await ask('Browser.close').catch(() => browser.kill());
await ended;
site.close();
for (let tries = 0; tries < 20; tries += 1) {
  try {
    rmSync(workplace, { recursive: true, force: true });
    break;
  } catch { // Its helpers are still at their files.
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
}
process.exit(failed ? 1 : 0);
