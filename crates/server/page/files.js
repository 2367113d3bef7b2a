// Text files that go with a message: chosen, dropped or pasted; of audio files, what is said in them.

import { $, announce, h, notice } from './dom.js';
import { isSpeech, transcribe } from './microphone.js';
import { bytes, t } from './words.js';

const LARGEST = 1_000_000;

/** Files of the message that is being written: {name, text}. */
let attached = [];

export function start() {
  $('#attach').addEventListener('click', () => $('#file').click());
  $('#file').addEventListener('change', () => {
    add($('#file').files);
    $('#file').value = '';
  });
  $('#input').addEventListener('paste', (event) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    add(event.clipboardData.files);
  });
  const chat = $('#chat');
  const carries = (event) => event.dataTransfer?.types.includes('Files');
  chat.addEventListener('dragover', (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    chat.classList.add('dropping');
  });
  chat.addEventListener('dragleave', (event) => { if (!chat.contains(event.relatedTarget)) chat.classList.remove('dropping'); });
  chat.addEventListener('drop', (event) => {
    chat.classList.remove('dropping');
    if (!carries(event)) return;
    event.preventDefault();
    add(event.dataTransfer.files);
  });
}

async function add(files) {
  const problems = [];
  for (const file of files) {
    try {
      attached.push({ name: file.name || t('pasted'), text: await read(file) });
    } catch (error) {
      problems.push(error.message);
    }
  }
  notice(problems.join(' '));
  draw();
  announce(t('attached', { n: attached.length }));
  $('#input').focus();
}

/** The text of a file; an error that says why it has none. */
async function read(file) {
  if (isSpeech(file)) return said(file);
  if (file.size > LARGEST) throw new Error(t('file_too_large', { name: file.name, size: bytes(LARGEST) }));
  const raw = new Uint8Array(await file.arrayBuffer());
  const wide = { 'fffe': 'utf-16le', 'feff': 'utf-16be' }[[...raw.slice(0, 2)].map((byte) => byte.toString(16).padStart(2, '0')).join('')];
  try {
    const text = new TextDecoder(wide ?? 'utf-8', { fatal: true }).decode(raw);
    if (text.includes('\0')) throw new Error();
    return text;
  } catch {
    throw new Error(t('not_text', { name: file.name }));
  }
}

/** What is said in an audio file. */
async function said(file) {
  notice(t('transcribing'));
  try {
    return await transcribe(file);
  } catch (error) {
    throw new Error(`${file.name}: ${error.message}`);
  }
}

function draw() {
  $('#files').hidden = attached.length === 0;
  $('#files').replaceChildren(...attached.map((file, at) => h('li', {}, chip(file), h('button', {
    type: 'button',
    class: 'quiet',
    'aria-label': t('remove_file', { name: file.name }),
    onclick: () => {
      attached.splice(at, 1);
      draw();
      $('#input').focus();
    },
  }, '×'))));
}

/** A file's name and size. */
const chip = ({ name, text }) => h('span', { dir: 'auto' }, name, h('small', {}, ` ${bytes(new Blob([text]).size)}`));

/** Takes the files away, for the message that is sent. */
export function take() {
  const taken = attached;
  attached = [];
  draw();
  return taken.length > 0 ? taken : undefined;
}

export const any = () => attached.length > 0;

/** Files as they are shown in a message. */
export const shown = (files) => (files ?? []).map((file) => h('details', { class: 'file' }, h('summary', {}, chip(file)), h('pre', { tabindex: 0, dir: 'auto' }, file.text)));

/** A message's text with its files, as the model reads it. The fence is longer than any in the file. */
export function withFiles({ content, files }) {
  const parts = (files ?? []).map(({ name, text }) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
    const fence = '`'.repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
  });
  return [...parts, content].filter((part) => part !== '').join('\n\n');
}
