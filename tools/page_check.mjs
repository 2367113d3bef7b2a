// Drives the server's page in a headless Chromium, as a person would: chats, stops, edits, looks at the live view, at
// tokens, and branches. Needs Node 18 or newer and Chromium, and nothing else.
//
//   node tools/page_check.mjs http://127.0.0.1:11434 [FOLDER FOR SCREENSHOTS]
//
// The program is `chromium`, or what the variable CHROMIUM names. A key for the server is read from STRATA_API_KEY.
// It speaks Chromium's debugging protocol over a pair of pipes, which takes no port and no package.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const [address, shots] = process.argv.slice(2);
if (!address) {
  console.error('usage: node tools/page_check.mjs ADDRESS [FOLDER FOR SCREENSHOTS]');
  process.exit(2);
}
const key = process.env.STRATA_API_KEY ?? '';
const origin = new URL(address).origin;
const PATIENCE = 60_000;

const profile = mkdtempSync(join(tmpdir(), 'page-check-'));
const browser = spawn(process.env.CHROMIUM ?? 'chromium', [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });

let session;
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

function ask(method, params = {}) {
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

/** What a function gives inside the page. */
async function page(act, ...given) {
  const expression = `(${act})(...${JSON.stringify(given)})`;
  const { result, exceptionDetails } = await ask('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until a function gives something true inside the page. */
async function until(what, act, ...given) {
  const end = Date.now() + PATIENCE;
  while (Date.now() < end) {
    const value = await page(act, ...given);
    if (value) return value;
    await sleep(50);
  }
  throw new Error(`${what}: not within ${PATIENCE / 1000} s`);
}

function check(fact, what) {
  if (!fact) throw new Error(what);
  console.log(`  ${what}`);
}

const click = (selector, at = 0) => page((s, n) => { const all = document.querySelectorAll(s); all[n < 0 ? all.length + n : n].click(); }, selector, at);
const texts = (selector) => page((s) => [...document.querySelectorAll(s)].map((e) => e.textContent), selector);
const type = (selector, text) => page((s, t) => {
  const field = document.querySelector(s);
  field.focus();
  field.value = t;
  field.dispatchEvent(new Event('input', { bubbles: true }));
}, selector, text);

async function press(name, code) {
  for (const kind of ['keyDown', 'keyUp']) {
    const text = name === 'Enter' && kind === 'keyDown' ? '\r' : undefined;
    await ask('Input.dispatchKeyEvent', { type: kind, key: name, code: name, windowsVirtualKeyCode: code, text });
  }
}

async function shot(name) {
  if (!shots) return;
  const { data } = await ask('Page.captureScreenshot', {});
  writeFileSync(join(shots, `${name}.png`), Buffer.from(data, 'base64'));
}

const faults = [];
let stops = 0;

async function open() {
  const { targetInfos } = await ask('Target.getTargets');
  const { targetId } = targetInfos.find(({ type: kind }) => kind === 'page');
  ({ sessionId: session } = await ask('Target.attachToTarget', { targetId, flatten: true }));
  listeners.push((method, params) => {
    if (method === 'Runtime.exceptionThrown') faults.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    // Calls that are refused on purpose are told by the network, not by the page.
    if (method === 'Log.entryAdded' && params.entry.level === 'error' && params.entry.source !== 'network') faults.push(params.entry.text);
    if (method === 'Network.requestWillBeSent' && !/^(blob|data|about):/.test(params.request.url) && new URL(params.request.url).origin !== origin) {
      faults.push(`asked for ${params.request.url}`);
    }
    if (method === 'Network.loadingFailed' && params.canceled) stops += 1;
  });
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await ask(`${domain}.enable`);
  await size(1200, 800);
  await ask('Page.navigate', { url: `${origin}/` });
  await until('the page', () => document.querySelector('#tab-chat[aria-selected=true]') !== null);
  if (key) {
    await until('the question for a key', () => document.querySelector('#key-dialog').open);
    await type('#key', key);
    await click('#key-dialog button');
  }
  check(await until('models', () => document.querySelectorAll('#model option').length), 'the models are listed');
}

const size = (width, height) => ask('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
const scheme = (value) => ask('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
const idle = () => until('the end of the answer', () => document.querySelector('#send').textContent === 'Send' && document.querySelector('article.assistant footer .stats, article.assistant footer .error') !== null);

async function chat() {
  await page(() => { document.querySelector('#parameters [name=max_tokens]').value = 60; });
  await type('#input', 'Tell me a story about a small fox.');
  await press('Enter', 13);
  await until('the first words', () => document.querySelector('article.assistant .text')?.textContent.length > 0);
  await idle();
  let [answer] = await texts('article.assistant .text');
  check(answer.length > 0 && (await texts('article .error')).length === 0, `an answer of ${answer.length} characters is streamed`);
  check(/tokens\/s/.test((await texts('.stats'))[0]) && /prompt \d+/.test((await texts('.stats'))[0]), `what it took is told: ${(await texts('.stats'))[0]}`);
  await click('article.assistant .actions button', -1);
  await idle();
  check((await texts('article.assistant')).length === 1, 'an answer is generated again in its place');
  await click('article.user .actions button', 1);
  await type('article.user textarea', 'Tell me about the sea.');
  await click('article.user .row button');
  await idle();
  check((await texts('article.user .text'))[0] === 'Tell me about the sea.', 'a message is edited and sent again');
  await page(() => { document.querySelector('#parameters [name=max_tokens]').value = ''; });
  for (let tries = 0; ; tries += 1) {
    if (tries === 5) throw new Error('five answers ended before they could be stopped');
    await type('#input', 'And then?');
    await page(() => new Promise((resolve) => {
      const box = document.querySelector('#messages');
      const look = new MutationObserver(() => {
        if (!box.querySelector('article.running .text')?.textContent) return;
        look.disconnect();
        document.querySelector('#send').click();
        resolve();
      });
      look.observe(box, { childList: true, subtree: true, characterData: true });
      document.querySelector('#send').click();
      // An answer may end before any of it is drawn.
      const ended = setInterval(() => {
        if (document.querySelector('#send').textContent !== 'Send') return;
        look.disconnect();
        clearInterval(ended);
        resolve();
      }, 20);
    }));
    await idle();
    if (/stopped/.test((await texts('article.assistant:last-child .stats'))[0])) break;
  }
  check(stops > 0, 'an answer is stopped, and the connection ends with it');
  await ask('Page.reload');
  [answer] = await until('the conversation', () => {
    const found = [...document.querySelectorAll('article.assistant .text')].map((e) => e.textContent);
    return found.length > 1 && document.querySelectorAll('#model option').length > 0 && found;
  });
  check(answer.length > 0, 'the conversation is there after the page is loaded anew');
  await type('#parameters [name=temperature]', '7');
  await type('#input', 'x');
  await press('Enter', 13);
  await until('the notice', () => document.querySelector('#notice').textContent);
  check(await page(() => document.querySelector('#input').value) === 'x', 'a parameter out of its range is told, and the message is not lost');
  await type('#input', '');
  await type('#parameters [name=temperature]', '');
}

/** Markdown that tries to be more than text. */
async function markdown() {
  const found = await page(async () => {
    const { show } = await import('/markdown.js');
    const box = document.createElement('div');
    show(box, '# T\n\n**b** _i_ `c` <img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) [y](https://example.org)\n\n- a\n  - b\n\n```js\n1 < 2\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n> q\n');
    const start = performance.now();
    show(document.createElement('div'), '*['.repeat(20000) + '`'.repeat(20000) + '> '.repeat(2000));
    return { tags: [...box.querySelectorAll('*')].map((e) => e.tagName), links: [...box.querySelectorAll('a')].map((a) => a.href), time: performance.now() - start };
  });
  for (const tag of ['H3', 'STRONG', 'EM', 'CODE', 'UL', 'PRE', 'TABLE', 'BLOCKQUOTE']) {
    if (!found.tags.includes(tag)) throw new Error(`markdown has no ${tag}`);
  }
  check(!found.tags.includes('IMG') && found.links.length === 1 && found.links[0] === 'https://example.org/', 'markdown is shown, and stays harmless');
  check(found.time < 2000, `text made to be slow takes ${Math.round(found.time)} ms`);
}

async function live() {
  await click('#tab-live');
  const cards = await until('numbers', () => {
    const found = [...document.querySelectorAll('#cards .card')].map((card) => card.textContent);
    // Two looks are needed for a rate.
    return found.length > 0 && /^[\d.]+Generated/.test(found[4]) && found;
  });
  check(!cards[0].startsWith('–'), `the live view has numbers: ${cards.join(', ')}`);
  const painted = await page(() => {
    const canvas = document.querySelector('#pages canvas');
    return canvas && [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data].some((value) => value > 0);
  });
  check(painted, 'the pages are painted');
  await shot('live');
}

async function inside() {
  await click('#tab-inside');
  const prompt = 'Once upon a time, there was';
  await type('#prompt', prompt);
  const pieces = await until('the pieces', (whole) => {
    const found = [...document.querySelectorAll('#prompt-pieces .piece')].map((e) => e.textContent);
    return found.join('').replaceAll('·', ' ').includes(whole) && found;
  }, prompt);
  check(pieces.length > 3, `the prompt is shown as ${pieces.length} pieces`);
  await type('#inside-count', '12');
  await click('#continue');
  await until('the continuation', () => document.querySelector('#inside-status').textContent.startsWith('Branch 1.'));
  const tokens = await texts('#tokens .piece:not(.given)');
  check(tokens.length > 0, `${tokens.length} tokens follow it`);
  await page(() => document.querySelectorAll('#tokens .piece:not(.given)')[0].focus());
  await press('ArrowRight', 39);
  await press('Enter', 13);
  const offered = await texts('#alternatives li');
  check(offered.length >= 10, `${offered.length} alternatives are offered by the keyboard`);
  const chosen = await page(() => document.activeElement.querySelector('.piece').textContent);
  await press('Enter', 13);
  await until('the branch', () => document.querySelector('#inside-status').textContent.startsWith('Branch 2.'));
  const branched = await texts('#tokens .piece:not(.given)');
  check(branched[0] === tokens[0] && branched[1] === chosen && chosen !== tokens[1], 'a branch keeps what is before it and begins with the alternative');
  check((await texts('#tree li')).length === 2, 'both branches are in the tree');
  await shot('inside');
  await click('#tree button');
  check((await texts('#tokens .piece:not(.given)')).join() === tokens.join(), 'the first branch is as it was');
}

async function looks() {
  for (const [name, width, colours] of [['light', 1200, 'light'], ['dark', 1200, 'dark'], ['phone', 390, 'light']]) {
    await size(width, 800);
    await scheme(colours);
    for (const view of ['chat', 'live', 'inside']) {
      await click(`#tab-${view}`);
      await sleep(150);
      const beyond = await page(() => document.documentElement.scrollWidth - innerWidth);
      if (beyond > 0) throw new Error(`${view} is ${beyond} pixels too wide at ${width}`);
      await shot(`${view}-${name}`);
    }
  }
  check(true, 'nothing is wider than the screen, also on a phone');
}

let failed = null;
try {
  for (const part of [open, chat, markdown, live, inside, looks]) {
    console.log(part.name);
    await part();
  }
  if (faults.length) throw new Error(`the browser complains:\n${faults.join('\n')}`);
  console.log('all is well');
} catch (error) {
  failed = error;
  await shot('failed').catch(() => {});
}
browser.kill();
await new Promise((resolve) => { browser.once('close', resolve); });
rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
if (failed) {
  console.error(`failed: ${failed.message}`);
  if (faults.length) console.error(faults.join('\n'));
  process.exit(1);
}
