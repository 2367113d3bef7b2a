// Files that go with a message: chosen, dropped or pasted. Text is read; images and audio go to models that see and hear, and of
// audio for others goes what is said in it.

import { $, announce, h, notice } from './dom.js';
import * as media from './media.js';
import { isSpeech, transcribe } from './microphone.js';
import { bytes, t } from './words.js';

const LARGEST = 1_000_000;
/** Bytes of an image or audio: a request has a third more. */
const LARGEST_MEDIA = 20_000_000;

/** Files of the message that is being written: {name, text}, or {name, media, key, size} of images and audio. */
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
      attached.push(await admit(file));
    } catch (error) {
      problems.push(error.message);
    }
  }
  notice(problems.join(' '));
  draw();
  announce(t('attached', { n: attached.length }));
  $('#input').focus();
}

/** What a message has of a file; an error that says why it has nothing. */
async function admit(file) {
  const kind = media.kind(file);
  if (kind && (await media.can(kind === 'image' ? 'vision' : 'audio'))) {
    if (file.size > LARGEST_MEDIA) throw new Error(t('file_too_large', { name: file.name, size: bytes(LARGEST_MEDIA) }));
    return media.put(file);
  }
  if (kind === 'image') throw new Error(t('cannot_see', { name: file.name }));
  if (kind === 'audio' && !isSpeech(file)) throw new Error(t('cannot_hear', { name: file.name }));
  return { name: file.name || t('pasted'), text: await read(file) };
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
  $('#files').replaceChildren(...attached.map((file, at) => h('li', {}, file.media ? preview(file) : chip(file), h('button', {
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
const chip = ({ name, text, size }) => h('span', { dir: 'auto' }, name, h('small', {}, ` ${bytes(size ?? new Blob([text]).size)}`));

/** An image or audio, to be seen or heard; its name until its bytes are here. */
function preview(file) {
  const box = h('figure', { class: file.media }, h('figcaption', {}, chip(file)));
  media.get(file).then((found) => {
    if (found) box.prepend(file.media === 'image' ? h('img', { src: found.url, alt: file.name }) : h('audio', { src: found.url, controls: true, 'aria-label': file.name }));
  });
  return box;
}

/** Takes the files away, for the message that is sent. */
export function take() {
  const taken = attached;
  attached = [];
  draw();
  return taken.length > 0 ? taken : undefined;
}

export const any = () => attached.length > 0;

/** Files as they are shown in a message. */
export const shown = (files) => (files ?? []).map((file) => file.media ? preview(file) : h('details', { class: 'file' }, h('summary', {}, chip(file)), h('pre', { tabindex: 0, dir: 'auto' }, file.text)));

/** A message's text with its files, as the model reads it. The fence is longer than any in the file. */
export function withFiles({ content, files }) {
  const parts = (files ?? []).filter((file) => !file.media).map(({ name, text }) => {
    const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
    const fence = '`'.repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, '')}\n${fence}`;
  });
  return [...parts, content].filter((part) => part !== '').join('\n\n');
}

/** The images and the audio of a message. */
export const mediaOf = ({ files }) => (files ?? []).filter((file) => file.media);
