// Lessons: what happens inside the model for the prompt of Look inside, told by the running engine.

import { $, h } from './dom.js';
import { json, model } from './api.js';
import { number, onLanguage, share, t } from './words.js';
import * as chats from './lesson_chats.js';

const decoder = new TextDecoder();
/** The latest answer of the server, and the model that it is of. */
let seen = null;
let looked = null;
/** The row of the attention whose shares are read out. */
let row = null;
let asked = 0;
let waiting = 0;

export function start() {
  $('#lesson-run').addEventListener('click', look);
  for (const name of ['layer', 'head', 'temperature', 'top-k', 'top-p', 'min-p', 'tensor', 'row']) {
    $(`#lesson-${name}`).addEventListener('change', () => {
      if (name === 'layer') $('#lesson-head').value = '0';
      if (name === 'tensor') $('#lesson-row').value = '0';
      later();
    });
  }
  $('#lesson-attention').addEventListener('keydown', walk);
  onLanguage(draw);
  chats.start();
}

/** Changes that come one after the other are asked for together. */
function later() {
  clearTimeout(waiting);
  waiting = setTimeout(look, 150);
}

/** Asks for the lesson about the prompt. */
async function look() {
  asked += 1;
  const turn = asked;
  // Another model has other layers and tensors.
  if (model() !== looked) for (const id of ['#lesson-layer', '#lesson-head', '#lesson-tensor', '#lesson-row']) $(id).value = '';
  looked = model();
  const value = (id) => ($(id).value === '' ? undefined : Number($(id).value));
  const body = {
    prompt: $('#prompt').value,
    add_special: $('#inside-special').checked,
    layer: value('#lesson-layer') ?? 0,
    head: value('#lesson-head') ?? 0,
    row: value('#lesson-row') ?? 0,
    temperature: value('#lesson-temperature'),
    top_k: value('#lesson-top-k'),
    top_p: value('#lesson-top-p'),
    min_p: value('#lesson-min-p'),
    seed: value('#inside-seed') ?? 0,
  };
  if ($('#lesson-tensor').value) body.tensor = $('#lesson-tensor').value;
  if (model()) body.model = model();
  say(t('lesson_working'));
  try {
    let answer = await json('/lessons/prompt', { body });
    if (!body.tensor && answer.tensors.length) {
      // The first time nobody has chosen a row yet: one of the largest matrices.
      body.tensor = (answer.tensors.find(({ name }) => name.includes('ffn_down')) ?? answer.tensors[0]).name;
      answer = await json('/lessons/prompt', { body });
    }
    if (turn !== asked) return;
    seen = answer;
    row = null;
    say('');
    draw();
  } catch (error) {
    if (turn === asked) say(error.message);
  }
}

const say = (text) => { $('#lesson-status').textContent = text; };

/** A token's text in which spaces and line ends can be seen. */
export const visible = (piece) => {
  const text = typeof piece === 'string' ? piece : decoder.decode(Uint8Array.from(piece));
  return text === '' ? '∅' : text.replaceAll(' ', '·').replaceAll('\n', '↵').replaceAll('\t', '→');
};

const percent = (part) => (part >= 0.01 || part === 0 ? share(part, 1) : `< ${share(0.01, 1)}`);

function draw() {
  $('#lesson-seen').hidden = seen === null;
  if (!seen) return;
  $('#lesson-tokens').replaceChildren(...seen.tokens.map(({ id, piece }, at) => h('span', { class: `piece hue${at % 6}` }, visible(piece), h('sub', {}, String(id)))));
  attention();
  samplers();
  quantization();
}

/** Fills a menu, and keeps what was chosen. */
function options(id, list, chosen) {
  const known = [...$(id).options].map(({ value }) => value);
  if (known.join('\n') !== list.map(({ value }) => value).join('\n')) {
    $(id).replaceChildren(...list.map(({ value, text }) => h('option', { value }, text)));
  }
  $(id).value = chosen;
}

function attention() {
  const { layer, head, heads, rows } = seen.attention;
  const counted = (n) => Array.from({ length: n }, (_, at) => ({ value: String(at), text: String(at) }));
  options('#lesson-layer', counted(heads.length), String(layer));
  options('#lesson-head', counted(heads[layer]), String(head));
  const body = rows.map(({ first, shares }, at) => {
    const cells = seen.tokens.map((_, to) => {
      const part = shares[to - first] ?? 0;
      const cell = h('td', { 'aria-hidden': 'true', title: to <= at ? `${visible(seen.tokens[at].piece)} → ${visible(seen.tokens[to].piece)} ${percent(part)}` : undefined });
      // Small shares are seen too.
      if (to <= at) cell.style.setProperty('--heat', `${100 * Math.sqrt(part)}%`);
      else cell.className = 'later';
      return cell;
    });
    const button = h('button', { class: 'piece', 'aria-pressed': String(at === row), tabindex: at === (row ?? rows.length - 1) ? '0' : '-1', onclick: () => read(at), onfocus: () => read(at) }, visible(seen.tokens[at].piece));
    return h('tr', {}, h('th', { scope: 'row' }, button), ...cells);
  });
  $('#lesson-attention').replaceChildren(h('tbody', {}, ...body));
  read(row ?? rows.length - 1);
}

/** Reads out what a token attends to. */
function read(at) {
  row = at;
  const told = seen.attention.rows[at];
  const buttons = [...document.querySelectorAll('#lesson-attention button')];
  buttons.forEach((button, other) => {
    button.setAttribute('aria-pressed', String(other === at));
    button.tabIndex = other === at ? 0 : -1;
  });
  if (!told) {
    $('#lesson-attended').textContent = t('no_attention');
    return;
  }
  const ranked = told.shares.map((part, to) => ({ part, to: to + told.first })).sort((a, b) => b.part - a.part).slice(0, 5);
  const shares = ranked.map(({ part, to }) => `${visible(seen.tokens[to].piece)} ${percent(part)}`).join(', ');
  $('#lesson-attended').textContent = t('attends', { token: visible(seen.tokens[at].piece), shares });
}

/** Arrow keys go from row to row. */
function walk(event) {
  const all = [...document.querySelectorAll('#lesson-attention button')];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || !all[to]) return;
  event.preventDefault();
  all[to].focus();
}

const NAMES = { logits: 'stage_logits', temperature: 'temperature', top_k: 'top_k', top_p: 'top_p', min_p: 'min_p' };

function samplers() {
  const columns = seen.samplers.map(({ name, left, top }) => {
    const lines = top.map(({ piece, logit, probability }) => {
      const bar = h('i', { class: 'share' });
      bar.style.width = `${100 * probability}%`;
      return h('li', { title: number(logit) }, h('span', { class: 'piece' }, visible(piece)), h('span', { class: 'track' }, bar), h('small', {}, percent(probability)));
    });
    return h('section', {}, h('h4', {}, NAMES[name] ? t(NAMES[name]) : name), h('p', { class: 'hint' }, t('candidates_left', { n: left })), h('ol', {}, ...lines));
  });
  $('#lesson-samplers').replaceChildren(...columns);
  const { piece, probability } = seen.chosen;
  $('#lesson-drawn').textContent = t('drawn', { token: visible(piece), share: percent(probability) });
}

function quantization() {
  const { tensors } = seen;
  options('#lesson-tensor', tensors.map(({ name, type }) => ({ value: name, text: `${name} (${type})` })), seen.row?.tensor ?? '');
  if (!seen.row) return;
  const { row: chosen, type, values, formats, size, product, columns } = seen.row;
  const limit = tensors.find(({ name }) => name === seen.row.tensor)?.rows ?? 1;
  $('#lesson-row').max = limit - 1;
  $('#lesson-row').value = chosen;
  $('#lesson-stored').textContent = t('stored_as', { n: columns, type });
  const most = Math.max(...values.map(Math.abs), Number.MIN_VALUE);
  const line = (name, bits, error, given, shown, scale) => h('tr', {},
    h('th', { scope: 'row' }, name), h('td', {}, bits), h('td', {}, error), h('td', {}, given), h('td', { 'aria-hidden': 'true' }, bars(shown, scale)));
  const digits = (value) => (value === null ? '–' : number(value, { minimumFractionDigits: 4, maximumFractionDigits: 4 }));
  const lines = formats.map((format) => line(
    format.type,
    number(format.bits),
    number(format.error / size, { style: 'percent', maximumFractionDigits: 1 }),
    digits(format.product),
    format.values.map((value, at) => value - values[at]),
    most / 4,
  ));
  const head = ['format', 'bits', 'error_share', 'product', 'error_curve'].map((key) => h('th', { scope: 'col' }, t(key)));
  $('#lesson-formats').replaceChildren(
    h('thead', {}, h('tr', {}, ...head)),
    h('tbody', {}, line(type, '–', '–', digits(product), values, most), ...lines),
  );
}

/** A small chart: a bar for each value. */
function bars(values, most) {
  const chart = h('span', { class: 'curve' });
  for (const value of values) {
    const bar = h('i');
    bar.style.height = `${Math.min(100, (100 * Math.abs(value)) / most)}%`;
    chart.append(bar);
  }
  return chart;
}
