// The chat view: writing messages, and walking through the versions of a conversation.

import { $, announce, h, keep, notice, recall } from './dom.js';
import { ask, standing, summary } from './answer.js';
import * as chats from './chat_list.js';
import * as store from './conversations.js';
import * as files from './files.js';
import * as media from './media.js';
import { article, fill } from './message.js';
import * as microphone from './microphone.js';
import * as parameters from './parameters.js';
import * as tools from './tools.js';
import { onLanguage, t } from './words.js';

/** The answer on its way: {control, chat, message, meter}. */
let running = null;

export function start() {
  parameters.start();
  files.start();
  media.sweep(store.list().flatMap(({ messages }) => messages.flatMap((message) => files.mediaOf(message).map(({ key }) => key))));
  microphone.start();
  chats.start({ stop, redraw, close: () => panel(false) });
  $('#system').addEventListener('input', () => {
    store.chat().system = $('#system').value;
    store.save();
  });
  $('#panel-button').addEventListener('click', () => panel(!$('#panel').classList.contains('open')));
  $('#composer').addEventListener('submit', (event) => {
    event.preventDefault();
    if (running) stop();
    else send();
  });
  $('#input').value = recall('draft', '');
  $('#input').addEventListener('input', () => {
    keep('draft', $('#input').value);
    grow();
  });
  $('#input').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!running) send();
    }
  });
  $('#messages').addEventListener('copy', copyFormulas);
  onLanguage(redraw);
}

/** Ends an answer on its way; what has arrived stays. */
export function stop() {
  running?.control.abort();
  tools.stop();
}

export const enter = () => {
  $('#input').focus();
  grow();
};

function panel(open) {
  $('#panel').classList.toggle('open', open);
  $('#panel-button').setAttribute('aria-expanded', open);
}

function grow() {
  const input = $('#input');
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight + 2, innerHeight * 0.4)}px`;
}

/** Formulas are copied as they were written, inside a selection too. */
function copyFormulas(event) {
  const range = getSelection().rangeCount > 0 ? getSelection().getRangeAt(0) : null;
  const copied = range?.cloneContents();
  if (!copied?.querySelector('math')) return;
  for (const formula of copied.querySelectorAll('math')) formula.replaceWith(formula.getAttribute('data-source'));
  // Only an element in the document knows where its lines break.
  const box = h('div', { class: 'hidden' }, copied);
  document.body.append(box);
  event.clipboardData.setData('text/plain', box.innerText);
  box.remove();
  event.preventDefault();
}

const callBox = (call, message, meter) => tools.box(call, message, { meter, give: give(message), redraw });

const acts = {
  edit,
  regenerate(message) {
    const asked = running ? null : parameters.read();
    if (asked) answer(message.parent, asked);
  },
  fork(message) {
    stop();
    store.fork(message);
    redraw();
    announce(t('forked'));
    $('#input').focus();
  },
  choose(message, act) {
    if (running) return;
    store.choose(message);
    redraw();
    const footer = document.querySelector(`article[data-id="${message.id}"] footer`);
    (footer?.querySelector(`[data-act=${act}]:enabled`) ?? footer?.querySelector('.versions button:enabled'))?.focus();
  },
};

export function redraw() {
  $('#system').value = store.chat().system;
  chats.draw();
  const path = store.path();
  const element = (message) => article(message, { acts, callBox, versions: store.versions(message) });
  $('#messages').replaceChildren(...path.map(element));
  if (path.length === 0) $('#messages').append(h('p', { class: 'welcome' }, t('welcome')));
  if (running?.chat === store.chat() && path.includes(running.message)) {
    running.element = $('#messages').lastElementChild;
    running.element.classList.add('running');
    fill(running.element, running.message, { meter: running.meter, callBox });
  }
  button();
  scroll(true);
}

function scroll(always) {
  const box = $('#messages');
  // Someone who reads further up is left there.
  if (always || box.scrollHeight - box.scrollTop - box.clientHeight < 120) box.scrollTop = box.scrollHeight;
}

function button() {
  $('#send').textContent = t(running ? 'stop_answer' : 'send');
  $('#send').classList.toggle('stop', running !== null);
}

function send() {
  const content = $('#input').value;
  const asked = content.trim() === '' && !files.any() ? null : parameters.read();
  if (!asked) return;
  const message = store.append(store.chat().leaf, { role: 'user', content, files: files.take() });
  $('#input').value = '';
  keep('draft', '');
  grow();
  answer(message.id, asked);
}

/** Asks for the message after another and shows it as it comes. */
async function answer(parent, asked) {
  const chat = store.chat();
  const message = store.append(parent, { role: 'assistant', content: '' }, chat);
  const meter = { first: 0, pieces: 0, phase: null };
  running = { control: new AbortController(), chat, message, meter, element: null };
  redraw();
  announce(t('answering'));
  let drawn = 0;
  let said = null;
  const draw = () => {
    drawn = 0;
    if (store.chat() !== chat || !running) return;
    fill(running.element, message, { meter: running.meter, callBox });
    const state = running.meter.phase?.state;
    if (state && state !== said) announce(standing(running.meter).words);
    said = state;
    scroll(false);
  };
  await ask(chat, message, tools.declare(asked), {
    signal: running.control.signal,
    changed: (now) => {
      running.meter = now;
      drawn ||= requestAnimationFrame(draw);
    },
  });
  cancelAnimationFrame(drawn);
  running = null;
  store.save(chat);
  if (store.chat() === chat) redraw();
  else button();
  announce(`${t('answered')} ${message.error ?? $('.consent p')?.textContent ?? summary(message)}`);
}

/** Takes the result of a call; when all calls of a message have one, the model goes on. */
const give = (message) => (call, content, failed) => {
  const asked = running ? null : parameters.read();
  const chat = store.chat();
  if (!asked || !chat.messages.includes(message)) return;
  store.append(chat.leaf, { role: 'tool', content, call: call.id, failed: failed || undefined }, chat);
  store.save(chat);
  const done = new Set(store.path(chat).filter(({ role }) => role === 'tool').map(({ call: id }) => id));
  if (message.calls.every(({ id }) => done.has(id))) answer(chat.leaf, asked);
  else redraw();
};

function edit(element, message) {
  if (running) return;
  const area = h('textarea', { dir: 'auto', rows: Math.min(12, message.content.split('\n').length + 1), 'aria-label': t('edit_message') });
  area.value = message.content;
  const leave = () => {
    redraw();
    document.querySelector(`article[data-id="${message.id}"] [data-act=edit]`)?.focus();
  };
  const save = () => {
    Object.assign(message, { content: area.value, error: undefined });
    store.save();
    leave();
  };
  const again = () => {
    const asked = parameters.read();
    // The text becomes a version of its own; the old one stays with what followed it.
    if (asked) answer(store.append(message.parent, { ...message, content: area.value }).id, asked);
  };
  const user = message.role === 'user';
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      leave();
    }
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) (user ? again : save)();
  });
  element.replaceChildren(area, h('div', { class: 'row' },
    user && h('button', { data: { act: 'send_again' }, onclick: again }, t('send_again')),
    h('button', { class: user ? 'quiet' : '', data: { act: 'keep' }, onclick: save }, t('keep')),
    h('button', { class: 'quiet', data: { act: 'cancel' }, onclick: leave }, t('cancel'))));
  area.focus();
  notice('');
}
