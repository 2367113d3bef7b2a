// A message as it is shown: its text, thinking, calls and files, its versions, and what can be done with it.

import { copy, h } from './dom.js';
import { pace, standing, summary } from './answer.js';
import * as files from './files.js';
import { show } from './markdown.js';
import { number, t } from './words.js';

/** A message's element. `acts` has what its buttons do, `versions` all versions of it. */
export function article(message, { acts, versions, callBox }) {
  const element = h('article', { class: message.role, 'aria-label': t(`role_${message.role}`), data: { id: message.id } },
    h('div', { class: 'calls' }), h('div', { class: 'files' }, ...files.shown(message.files)), h('div', { class: 'text', dir: 'auto' }), h('footer'));
  fill(element, message, { callBox });
  const footer = element.querySelector('footer');
  if (versions.length > 1) footer.append(switcher(message, versions, acts));
  const actions = h('span', { class: 'actions' });
  const action = (name, act) => actions.append(h('button', { class: 'quiet', data: { act: name }, onclick: (event) => act(event.currentTarget) }, t(name)));
  if (message.content) action('copy', (pressed) => copy(message.content, pressed));
  if (message.role === 'assistant' && message.content) action('source', () => source(element, message));
  action('edit', () => acts.edit(element, message));
  if (message.role === 'assistant') action('regenerate', () => acts.regenerate(message));
  action('fork', () => acts.fork(message));
  footer.append(actions);
  return element;
}

/** Steps through the versions of a message. */
function switcher(message, versions, acts) {
  const at = versions.indexOf(message);
  const step = (by, label, sign) => h('button', {
    class: 'quiet',
    'aria-label': t(label),
    data: { act: label },
    disabled: versions[at + by] === undefined,
    onclick: () => acts.choose(versions[at + by], label),
  }, sign);
  const words = t('version_of', { at: at + 1, of: versions.length });
  return h('span', { class: 'versions', role: 'group', 'aria-label': words },
    step(-1, 'previous_version', '‹'), h('span', { title: words }, `${number(at + 1)}/${number(versions.length)}`), step(1, 'next_version', '›'));
}

/** Shows the text as the model wrote it, or as Markdown again. */
function source(element, message) {
  const box = element.querySelector('.text');
  const raw = box.classList.toggle('source');
  element.querySelector('[data-act=source]').setAttribute('aria-pressed', raw);
  box.replaceChildren();
  box.blocks = undefined;
  if (raw) box.append(h('pre', { tabindex: 0, dir: 'auto' }, message.content));
  else show(box, message.content);
}

/** Shows what a message has so far; `meter` is that of an answer on its way. */
export function fill(element, message, { meter, callBox }) {
  const text = element.querySelector('.text');
  if (message.thinking) {
    let fold = element.querySelector('.thinking');
    if (!fold) {
      fold = h('details', { class: 'thinking' }, h('summary', {}, t('thinking')), h('div'));
      element.prepend(fold);
    }
    fold.classList.toggle('now', Boolean(meter) && !message.content);
    show(fold.lastElementChild, message.thinking);
  }
  if (message.role === 'assistant') show(text, message.content);
  else text.textContent = message.content;
  text.hidden = message.content === '' && !meter;
  element.querySelector('.calls').replaceChildren(...(message.calls ?? []).filter(Boolean).map((call) => callBox(call, message, meter)));
  const footer = element.querySelector('footer');
  footer.querySelector('.stats')?.remove();
  footer.querySelector('.error')?.remove();
  if (message.error) footer.prepend(h('span', { class: 'error', role: 'alert' }, message.error));
  wait(element, meter);
  const stats = meter ? meter.first && pace(meter) : message.role === 'assistant' && summary(message);
  if (stats) footer.prepend(h('span', { class: 'stats' }, stats));
}

/** Shows where a request stands until its first token. */
function wait(element, meter) {
  let box = element.querySelector('.wait');
  if (!meter || meter.first) {
    box?.remove();
    return;
  }
  if (!box) {
    box = h('div', { class: 'wait' }, h('span'), h('progress', { max: 1 }));
    element.querySelector('.text').before(box);
  }
  const { words, share } = standing(meter);
  box.firstElementChild.textContent = words;
  const bar = box.lastElementChild;
  bar.hidden = meter.phase === null;
  bar.setAttribute('aria-label', words);
  if (share === undefined) bar.removeAttribute('value');
  else bar.value = share;
}
