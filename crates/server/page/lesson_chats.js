// The lesson of batches and pages: two chats with the same beginning, as the engine ran them, step by step.

import { $, h, keep, recall } from './dom.js';
import { json, model } from './api.js';
import { number, onLanguage, t } from './words.js';

const SHARED = 'Once upon a time there was a little girl named Lily. She lived in a small house near the forest with her mother and her big brown dog. Every morning she went to the garden to look at the flowers and to feed the birds.';
const FIELDS = [['shared', SHARED], ['first', ' One day'], ['second', ' But today']];

let seen = null;
let timer = 0;

export function start() {
  for (const [name, text] of FIELDS) {
    const field = $(`#chats-${name}`);
    field.value = recall(`lesson.${name}`, text);
    field.addEventListener('input', () => keep(`lesson.${name}`, field.value));
  }
  $('#chats-run').addEventListener('click', run);
  $('#chats-step').addEventListener('input', () => {
    clearInterval(timer);
    draw();
  });
  onLanguage(draw);
}

async function run() {
  clearInterval(timer);
  const [shared, first, second] = FIELDS.map(([name]) => $(`#chats-${name}`).value);
  const body = { texts: [shared + first, shared + second], max_tokens: 12 };
  if (model()) body.model = model();
  $('#chats-status').textContent = t('lesson_working');
  try {
    seen = await json('/lessons/pages', { body });
  } catch (error) {
    $('#chats-status').textContent = error.message;
    return;
  }
  $('#chats-status').textContent = '';
  const slider = $('#chats-step');
  slider.max = seen.steps.length;
  slider.value = 1;
  draw();
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) slider.value = seen.steps.length;
  else {
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      if (Number(slider.value) >= seen.steps.length) clearInterval(timer);
      draw();
    }, 300);
  }
}

function draw() {
  $('#chats-seen').hidden = !seen?.steps.length;
  if (!seen?.steps.length) return;
  const at = Number($('#chats-step').value);
  const step = seen.steps[at - 1];
  const own = step.sequences.reduce((sum, { tokens }) => sum + tokens, 0);
  $('#chats-words').textContent = [
    t('step_of', { n: at, of: seen.steps.length }),
    t('step_batch', { n: own, ms: number(step.ms, { maximumFractionDigits: 1 }) }),
    step.other_tokens ? t('other_tokens', { n: step.other_tokens }) : '',
  ].join(' ');
  const batch = step.sequences.flatMap(({ text, tokens, prefill }) => Array.from({ length: tokens }, () => h('i', { class: prefill ? 'prompted' : 'generated' }, String(text + 1))));
  $('#chats-batch').replaceChildren(...batch);
  $('#chats-batch').setAttribute('aria-label', step.sequences.map(({ text, tokens, prefill }) => `${t('chat_number', { n: text + 1 })}: ${tokens} ${t(prefill ? 'prompt' : 'generated')}`).join(', '));
  $('#chats-pages').replaceChildren(...seen.texts.map((text, index) => chat(text, index, at)));
}

/** The pages of a chat as of a step: those of the last step that it was in. */
function chat({ prompt_tokens: prompt, cached_tokens: cached, answer }, index, at) {
  const latest = (own) => seen.steps.slice(0, at).findLast((step) => step.sequences.some(({ text }) => text === own))?.sequences.find(({ text }) => text === own);
  const mine = latest(index);
  const others = seen.texts.map((_, other) => other).filter((other) => other !== index).flatMap((other) => latest(other)?.pages ?? []).map(({ page }) => page);
  const size = seen.page_positions;
  const pages = (mine?.pages ?? []).map(({ page, filled }) => {
    const shared = others.includes(page);
    const fill = h('i', { class: 'share' });
    fill.style.width = `${(100 * filled) / size}%`;
    const words = `${t('page_filled', { page: String(page), n: filled, of: size })}${shared ? `, ${t('page_shared')}` : ''}`;
    return h('li', { class: shared ? 'both' : '', title: words, 'aria-label': words }, h('b', {}, String(page)), h('span', { class: 'track' }, fill), h('small', {}, shared ? t('page_shared') : `${filled}/${size}`));
  });
  const ended = at === seen.steps.length;
  return h('section', {},
    h('h4', {}, t('chat_number', { n: index + 1 })),
    h('p', { class: 'hint' }, mine ? t('tokens_cached', { n: cached, of: prompt }) : t('not_begun')),
    h('ol', {}, ...pages),
    ended && h('p', { class: 'hint', dir: 'auto' }, `…${answer}`));
}
