// The chat: messages, and answers as they are streamed.

import { $, copy, h, keep, notice, recall } from './dom.js';
import { events, model } from './api.js';
import * as store from './conversations.js';
import { show } from './markdown.js';

let running = null;

export function start() {
  for (const field of fields()) {
    field.value = recall('parameters', {})[field.name] ?? '';
    field.addEventListener('input', () => keep('parameters', Object.fromEntries([...fields()].map((f) => [f.name, f.value]))));
  }
  $('#system').addEventListener('input', () => {
    store.chat().system = $('#system').value;
    store.save();
  });
  $('#new-chat').addEventListener('click', () => {
    stop();
    store.begin();
    redraw();
    panel(false);
    $('#input').focus();
  });
  $('#export').addEventListener('click', store.download);
  $('#delete').addEventListener('click', () => {
    if (!confirm('Delete this conversation?')) return;
    stop();
    store.remove();
    redraw();
  });
  $('#panel-button').addEventListener('click', () => panel(!$('#panel').classList.contains('open')));
  $('#composer').addEventListener('submit', (event) => {
    event.preventDefault();
    if (running) stop();
    else send();
  });
  $('#input').addEventListener('input', grow);
  $('#input').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!running) send();
    }
  });
  redraw();
}

/** Ends an answer on its way; what has arrived stays. */
export function stop() {
  running?.abort();
}

export const busy = () => running !== null;
export const enter = () => $('#input').focus();

const fields = () => document.querySelectorAll('#parameters [name]');

function panel(open) {
  $('#panel').classList.toggle('open', open);
  $('#panel-button').setAttribute('aria-expanded', open);
}

function grow() {
  const input = $('#input');
  input.style.height = 'auto';
  input.style.height = `${Math.min(input.scrollHeight + 2, innerHeight * 0.4)}px`;
}

function redraw() {
  $('#system').value = store.chat().system;
  $('#chats').replaceChildren(...store.list().map((one) => h('li', {}, h('button', {
    class: 'quiet',
    'aria-current': one === store.chat() ? 'true' : undefined,
    onclick: () => {
      stop();
      store.open(one.id);
      redraw();
      panel(false);
    },
  }, store.title(one)))));
  const { messages } = store.chat();
  $('#messages').replaceChildren(...messages.map((message, at) => article(message, at)));
  if (messages.length === 0) {
    $('#messages').append(h('p', { class: 'welcome' }, 'Everything said here stays on the server that runs the model and in this browser.'));
  }
  scroll(true);
}

function scroll(always) {
  const box = $('#messages');
  // Someone who reads further up is left there.
  if (always || box.scrollHeight - box.scrollTop - box.clientHeight < 120) box.scrollTop = box.scrollHeight;
}

/** What the fields ask for; an error if they cannot be read. */
function parameters() {
  const asked = {};
  for (const { name, value, type, validity } of fields()) {
    if (type === 'number' && validity && !validity.valid) throw new Error(`The parameter ${name} is not in its range.`);
    if (value.trim() === '') continue;
    if (name === 'stop') {
      asked.stop = value.split('\n').filter((line) => line !== '').map((line) => line.replaceAll('\\n', '\n'));
    } else if (name === 'tools') {
      try {
        asked.tools = JSON.parse(value);
      } catch {
        throw new Error('The tools are not JSON.');
      }
    } else {
      asked[name] = Number(value);
    }
  }
  return asked;
}

/** The parameters, or nothing after a notice of what is wrong with them. */
function readable() {
  try {
    const asked = parameters();
    notice('');
    return asked;
  } catch (error) {
    notice(error.message);
    return null;
  }
}

function send() {
  const text = $('#input').value.trim();
  const asked = text === '' ? null : readable();
  if (!asked) return;
  store.chat().messages.push({ role: 'user', content: text });
  $('#input').value = '';
  grow();
  answer(asked);
}

/** The conversation in the words of the API. */
function spoken({ system, messages }) {
  const said = system.trim() === '' ? [] : [{ role: 'system', content: system }];
  for (const { role, content, calls, call } of messages) {
    if (role === 'tool') said.push({ role, content, tool_call_id: call });
    else if (calls?.length) said.push({ role, content: content || null, tool_calls: calls });
    else if (role === 'user' && said.at(-1)?.role === 'user') said.at(-1).content += `\n\n${content}`; // No answer came.
    else if (role !== 'assistant' || content) said.push({ role, content });
  }
  return said;
}

/** Asks for the next message and shows it as it comes. */
async function answer(parameters) {
  const chat = store.chat();
  const message = { role: 'assistant', content: '' };
  const asked = { model: model(), messages: spoken(chat), ...parameters, stream: true, stream_options: { include_usage: true } };
  const control = new AbortController();
  running = control;
  chat.messages.push(message);
  redraw();
  const element = $('#messages').lastElementChild;
  element.classList.add('running');
  button();
  const meter = { start: performance.now(), first: 0, pieces: 0 };
  let drawn = 0;
  const draw = () => {
    drawn = 0;
    if (store.chat() !== chat) return;
    fill(element, message, meter);
    scroll(false);
  };
  try {
    for await (const chunk of events('/v1/chat/completions', asked, control.signal)) {
      take(message, chunk, meter);
      drawn ||= requestAnimationFrame(draw);
    }
  } catch (error) {
    if (error.name === 'AbortError') message.finish = 'stopped';
    else message.error = error.message;
  }
  cancelAnimationFrame(drawn);
  const seconds = (performance.now() - meter.first) / 1000;
  if (meter.pieces > 1) message.speed ??= (meter.pieces - 1) / seconds;
  if (meter.first) message.wait = (meter.first - meter.start) / 1000;
  running = null;
  store.save(chat);
  button();
  if (store.chat() === chat) redraw();
}

function button() {
  $('#send').textContent = running ? 'Stop' : 'Send';
  $('#send').classList.toggle('stop', running !== null);
}

/** Adds a chunk to a message. */
function take(message, chunk, meter) {
  const [choice] = chunk.choices ?? [];
  const { content, reasoning_content: thinking, tool_calls: calls } = choice?.delta ?? {};
  if (content || thinking || calls) {
    meter.first ||= performance.now();
    meter.pieces += 1;
  }
  if (content) message.content += content;
  if (thinking) message.thinking = (message.thinking ?? '') + thinking;
  for (const { index, id, function: called } of calls ?? []) {
    message.calls ??= [];
    const call = (message.calls[index] ??= { id, type: 'function', function: { name: '', arguments: '' } });
    call.function.name += called?.name ?? '';
    call.function.arguments += called?.arguments ?? '';
  }
  if (choice?.finish_reason) message.finish = choice.finish_reason;
  if (chunk.usage) message.usage = chunk.usage;
  if (chunk.timings?.predicted_per_second) message.speed = chunk.timings.predicted_per_second;
}

const NAMES = { user: 'You', assistant: 'Model', tool: 'Tool' };

function article(message, at) {
  const element = h('article', { class: message.role, 'aria-label': NAMES[message.role] },
    h('div', { class: 'calls' }), h('div', { class: 'text' }), h('footer'));
  fill(element, message);
  const actions = h('span', { class: 'actions' });
  const action = (label, act) => actions.append(h('button', { class: 'quiet', onclick: (event) => act(event.currentTarget) }, label));
  action('Copy', (pressed) => copy(message.content, pressed));
  action('Edit', () => edit(element, message, at));
  if (message.role === 'assistant') action('Regenerate', () => retry(at));
  element.querySelector('footer').append(actions);
  return element;
}

/** Shows what a message has so far. */
function fill(element, message, meter) {
  const text = element.querySelector('.text');
  if (message.thinking) {
    let fold = element.querySelector('.thinking');
    if (!fold) {
      fold = h('details', { class: 'thinking' }, h('summary', {}, 'Thinking'), h('div'));
      element.prepend(fold);
    }
    fold.classList.toggle('now', Boolean(meter) && !message.content);
    show(fold.lastElementChild, message.thinking);
  }
  if (message.role === 'assistant') show(text, message.content);
  else text.textContent = message.content;
  element.querySelector('.calls').replaceChildren(...(message.calls ?? []).filter(Boolean).map((call) => tool(call, message, meter)));
  const footer = element.querySelector('footer');
  footer.querySelector('.stats')?.remove();
  footer.querySelector('.error')?.remove();
  if (message.error) footer.prepend(h('span', { class: 'error', role: 'alert' }, message.error));
  const stats = meter ? progress(meter) : summary(message);
  if (stats) footer.prepend(h('span', { class: 'stats' }, stats));
}

function progress({ first, pieces }) {
  const seconds = (performance.now() - first) / 1000;
  return pieces > 2 ? `${pieces} tokens, ${((pieces - 1) / seconds).toFixed(1)} a second` : '…';
}

function summary({ usage, speed, wait, finish }) {
  const parts = [];
  if (usage) parts.push(`${usage.completion_tokens} tokens`);
  if (speed) parts.push(`${speed.toFixed(1)} tokens/s`);
  if (wait) parts.push(`first after ${wait.toFixed(2)} s`);
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  if (usage) parts.push(`prompt ${usage.prompt_tokens}${cached ? `, ${cached} cached` : ''}`);
  if (finish === 'length') parts.push('cut off at the limit');
  if (finish === 'stopped') parts.push('stopped');
  return parts.join(' · ');
}

/** A call of a tool, with a field for its result while there is none. */
function tool(call, message, meter) {
  let spelt = call.function.arguments;
  try {
    spelt = JSON.stringify(JSON.parse(spelt), null, 2);
  } catch { /* It is still being written, or it is no JSON: shown as it is. */ }
  const box = h('div', { class: 'call' }, h('strong', {}, call.function.name), h('pre', { tabindex: 0 }, spelt));
  const { messages } = store.chat();
  const answered = messages.some((other) => other.role === 'tool' && other.call === call.id);
  if (meter || answered) return box;
  const result = h('textarea', { rows: 2, 'aria-label': `Result of ${call.function.name}`, placeholder: 'The result' });
  box.append(h('form', {
    class: 'row',
    onsubmit: (event) => {
      event.preventDefault();
      const asked = readable();
      if (!asked || running) return;
      messages.push({ role: 'tool', content: result.value, call: call.id });
      const open = message.calls.filter(({ id }) => !messages.some((other) => other.call === id));
      if (open.length === 0) answer(asked);
      else redraw();
    },
  }, result, h('button', {}, 'Give result')));
  return box;
}

function retry(at) {
  const asked = running ? null : readable();
  if (!asked) return;
  store.chat().messages.length = at;
  answer(asked);
}

function edit(element, message, at) {
  if (running) return;
  const area = h('textarea', { rows: Math.min(12, message.content.split('\n').length + 1), 'aria-label': 'Edit the message' });
  area.value = message.content;
  const save = () => {
    message.content = area.value;
    store.save();
    redraw();
  };
  const again = () => {
    const asked = readable();
    if (!asked) return;
    message.content = area.value;
    store.chat().messages.length = at + 1;
    answer(asked);
  };
  const user = message.role === 'user';
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') redraw();
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) (user ? again : save)();
  });
  element.replaceChildren(area, h('div', { class: 'row' },
    user && h('button', { onclick: again }, 'Send again'),
    h('button', { class: user ? 'quiet' : '', onclick: save }, 'Keep'),
    h('button', { class: 'quiet', onclick: redraw }, 'Cancel')));
  area.focus();
}
