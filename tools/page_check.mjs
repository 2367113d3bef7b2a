// Drives the server's page in a headless Chromium, as a person would. Needs Node 18 or newer and Chromium, and nothing else.
//
//   node tools/page_check.mjs http://127.0.0.1:11434 [FOLDER FOR SCREENSHOTS]
//
// The program is `chromium`, or what the variable CHROMIUM names. A key for the server is read from STRATA_API_KEY. MCP_PEER is
// the address of tools/mcp_peer.py, PULL_MODEL a model that the server can pull and BOOK the address that `strata learn`
// prints; SPEECH says that the server hears, SENSES that it has models that see and hear. What needs them is left out without them. PARTS=chat,tools runs only these. tools/page_check.py starts all of it.

import { check, click, close, faults, open, shot, type, until } from './page_check/browser.mjs';
import { book } from './page_check/book.mjs';
import { chat, conversations, files, versions, waiting } from './page_check/chat.mjs';
import { lessons } from './page_check/lessons.mjs';
import { media } from './page_check/media.mjs';
import { speech } from './page_check/speech.mjs';
import { code, copies, formulas, markdown } from './page_check/text.mjs';
import { tools } from './page_check/tools.mjs';
import { access, inside, languages, live, looks, models } from './page_check/views.mjs';

const [address, shots] = process.argv.slice(2);
if (!address) {
  console.error('usage: node tools/page_check.mjs ADDRESS [FOLDER FOR SCREENSHOTS]');
  process.exit(2);
}
const { STRATA_API_KEY: key, MCP_PEER: peer, PULL_MODEL: pulled, BOOK: shelf, SPEECH, SENSES, PARTS: wanted } = process.env;
const headers = { 'content-type': 'application/json', ...(key && { authorization: `Bearer ${key}` }) };

async function start() {
  await open(address, shots);
  if (key) {
    await until('the question for a key', () => document.querySelector('#key-dialog').open);
    await type('#key', key);
    await click('#key-dialog button');
  }
  check(await until('models', () => document.querySelectorAll('#model option').length), 'the models are listed');
}

/** Keeps the server busy with as many requests as it runs side by side, until it is told to end. */
async function busy() {
  const { total_slots: slots } = await (await fetch(`${address}/props`, { headers })).json();
  const control = new AbortController();
  const body = JSON.stringify({ prompt: 'Once upon a time', n_predict: 100000, ignore_eos: true, stream: true });
  const work = async () => {
    while (!control.signal.aborted) {
      const reply = await fetch(`${address}/completion`, { method: 'POST', headers, body, signal: control.signal });
      await reply.text();
    }
  };
  for (let n = 0; n < slots; n += 1) work().catch(() => {});
  await new Promise((resolve) => { setTimeout(resolve, 300); });
  return () => control.abort();
}

const parts = { start, chat, versions, waiting: () => waiting(busy), files, ...(SPEECH && { speech }), ...(SENSES && { media }), conversations, markdown, code, formulas, copies };
if (peer) parts.tools = () => tools(peer);
if (pulled) parts.models = () => models(pulled);
Object.assign(parts, { live, inside, lessons, access, languages, looks: () => looks() });
if (shelf) parts.book = () => book(shelf);

let failed = null;
try {
  for (const [name, part] of Object.entries(parts)) {
    if (wanted && name !== 'start' && !wanted.split(',').includes(name)) continue;
    console.log(name);
    await part();
  }
  if (faults.length) throw new Error(`the browser complains:\n${faults.join('\n')}`);
  console.log('all is well');
} catch (error) {
  failed = error;
  await shot('failed').catch(() => {});
}
await close();
if (failed) {
  console.error(`failed: ${failed.message}`);
  if (faults.length) console.error(faults.join('\n'));
  process.exit(1);
}
process.exit(0);
