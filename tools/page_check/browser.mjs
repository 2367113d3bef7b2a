// A headless Chromium, driven over a pair of pipes by its debugging protocol, which takes no port and no package.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const PATIENCE = 60_000;
const profile = mkdtempSync(join(tmpdir(), 'page-check-'));
const browser = spawn(process.env.CHROMIUM ?? 'chromium', [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream',
  '--disable-sync', '--lang=en-US', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

let session;
let shots = null;
let count = 0;
const answers = new Map();
const listeners = [];
let rest = Buffer.alloc(0);
browser.stdio[4].on('data', (data) => {
  rest = Buffer.concat([rest, data]);
  for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
    const message = JSON.parse(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
    if (message.id) {
      const { resolve, reject } = answers.get(message.id);
      answers.delete(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    } else listeners.forEach((listen) => listen(message.method, message.params));
  }
});

export function ask(method, params = {}) {
  count += 1;
  const id = count;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId: session })}\0`);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`the browser does not answer ${method}`)), PATIENCE);
    answers.set(id, {
      resolve: (result) => { clearTimeout(late); resolve(result); },
      reject: (error) => { clearTimeout(late); reject(error); },
    });
  });
}

/** What the browser complains of. */
export const faults = [];
/** Where pages may load from. */
export const origins = new Set();
/** Requests that the page gave up. */
export const canceled = { count: 0 };

/** Opens the page of a server. It may ask for nothing that is not the server's. */
export async function open(address, screenshots) {
  shots = screenshots;
  const { origin } = new URL(address);
  origins.add(origin);
  const { targetInfos } = await ask('Target.getTargets');
  const { targetId } = targetInfos.find(({ type: kind }) => kind === 'page');
  ({ sessionId: session } = await ask('Target.attachToTarget', { targetId, flatten: true }));
  listeners.push((method, params) => {
    if (method === 'Runtime.exceptionThrown') faults.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    // Calls that are refused on purpose are told by the network, not by the page.
    if (method === 'Log.entryAdded' && params.entry.level === 'error' && params.entry.source !== 'network') faults.push(params.entry.text);
    if (method === 'Network.requestWillBeSent' && !/^(blob|data|about):/.test(params.request.url) && !origins.has(new URL(params.request.url).origin)) {
      faults.push(`asked for ${params.request.url}`);
    }
    if (method === 'Network.loadingFailed' && params.canceled) canceled.count += 1;
    if (method === 'Fetch.requestPaused') fulfill(params);
    if (method === 'Page.javascriptDialogOpening') ask('Page.handleJavaScriptDialog', { accept: true });
  });
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await ask(`${domain}.enable`);
  await size(1200, 800);
  await ask('Page.navigate', { url: `${origin}/` });
  await until('the page', () => document.querySelector('#tab-chat[aria-selected=true]') !== null);
}

export async function close() {
  browser.kill();
  await new Promise((resolve) => { browser.once('close', resolve); });
  // Its helpers may write for a moment longer.
  try {
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  } catch { /* A folder that is left behind is no fault of the page. */ }
}

/** Gives the next calls of a path these bodies, as a model would that says just this. */
const planned = [];
export async function plan(path, bodies) {
  planned.push(...bodies);
  await ask('Fetch.enable', { patterns: [{ urlPattern: `*${path}` }] });
}

/** What the page sent in calls that were answered so. */
export const sent = [];

async function fulfill({ requestId, request }) {
  const body = planned.shift();
  if (body === undefined) await ask('Fetch.continueRequest', { requestId });
  else {
    sent.push(JSON.parse(request.postData));
    const responseHeaders = [{ name: 'content-type', value: 'text/event-stream' }];
    await ask('Fetch.fulfillRequest', { requestId, responseCode: 200, responseHeaders, body: Buffer.from(body).toString('base64') });
  }
  if (planned.length === 0) await ask('Fetch.disable');
}

/** What a function gives inside the page. */
export async function page(act, ...given) {
  const expression = `(${act})(...${JSON.stringify(given)})`;
  const { result, exceptionDetails } = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true, userGesture: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until a function gives something true inside the page. */
export async function until(what, act, ...given) {
  const end = Date.now() + PATIENCE;
  while (Date.now() < end) {
    const value = await page(act, ...given);
    if (value) return value;
    await sleep(50);
  }
  throw new Error(`${what}: not within ${PATIENCE / 1000} s`);
}

export function check(fact, what) {
  if (!fact) throw new Error(`not so: ${what}`);
  console.log(`  ${what}`);
}

export const click = (selector, at = 0) => page((s, n) => { const all = document.querySelectorAll(s); all[n < 0 ? all.length + n : n].click(); }, selector, at);
export const texts = (selector) => page((s) => [...document.querySelectorAll(s)].map((e) => e.textContent), selector);
export const type = (selector, text) => page((s, t) => {
  const field = document.querySelector(s);
  field.focus();
  field.value = t;
  field.dispatchEvent(new Event('input', { bubbles: true }));
}, selector, text);

export async function press(name, code) {
  for (const kind of ['keyDown', 'keyUp']) {
    const text = name === 'Enter' && kind === 'keyDown' ? '\r' : undefined;
    await ask('Input.dispatchKeyEvent', { type: kind, key: name, code: name, windowsVirtualKeyCode: code, text });
  }
}

export async function shot(name) {
  if (!shots) return;
  const { data } = await ask('Page.captureScreenshot', {});
  writeFileSync(join(shots, `${name}.png`), Buffer.from(data, 'base64'));
}

/** Gives files to a field, or drops or pastes them on an element. */
export const give = (how, selector, files) => page((way, where, given) => {
  const data = new DataTransfer();
  for (const { name, bytes } of given) data.items.add(new File([Uint8Array.from(bytes)], name));
  const element = document.querySelector(where);
  if (way === 'paste') element.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  else if (way === 'drop') element.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  else {
    element.files = data.files;
    element.dispatchEvent(new Event('change', { bubbles: true }));
  }
}, how, selector, files.map(({ name, text, bytes }) => ({ name, bytes: bytes ?? [...Buffer.from(text)] })));

export const size = (width, height) => ask('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
export const scheme = (value) => ask('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
export const idle = () => until('the end of the answer', () => !document.querySelector('#send.stop') && document.querySelector('article.assistant:last-child footer .stats, article.assistant:last-child footer .error') !== null);
