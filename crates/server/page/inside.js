// Look inside: the tokens of a prompt, how likely each next token was, and the alternatives.

import { $, copy, h, keep, notice, recall } from './dom.js';
import { events, json, model } from './api.js';
import { Tree, same, spelt, text } from './branches.js';
import { number, onLanguage, t } from './words.js';

const ALTERNATIVES = 10;
const encoder = new TextEncoder();

let tree = new Tree([]);
let running = null;
let waiting = 0;
let asked = 0;
/** The place whose alternatives stay shown: an index into the path. */
let pinned = null;

export function start() {
  $('#prompt').value = recall('prompt', 'Once upon a time');
  $('#prompt').addEventListener('input', () => {
    keep('prompt', $('#prompt').value);
    clearTimeout(waiting);
    waiting = setTimeout(tokenize, 250);
  });
  $('#prompt').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) begin();
  });
  $('#prompt').addEventListener('focus', () => pin(null));
  $('#inside-special').addEventListener('change', tokenize);
  $('#continue').addEventListener('click', () => (running ? stop() : begin()));
  $('#tokens').addEventListener('keydown', walk);
  onLanguage(() => {
    draw();
    alternatives(pinned);
    if (!$('#inside').hidden) tokenize();
  });
  alternatives(null);
}

export function enter() {
  $('#prompt').focus();
  if (model()) tokenize();
}

export function stop() {
  running?.abort();
}

const bytes = (piece) => (typeof piece === 'string' ? [...encoder.encode(piece)] : piece ?? []);

/** Shows the pieces of the prompt as it is typed. */
export async function tokenize() {
  const turn = ++asked;
  const content = $('#prompt').value;
  const body = { content, with_pieces: true, add_special: $('#inside-special').checked };
  if (model()) body.model = model();
  try {
    const { tokens } = content === '' ? { tokens: [] } : await json('/tokenize', { body });
    if (turn !== asked) return undefined;
    const found = tokens.map(({ id, piece }) => ({ id, bytes: bytes(piece) }));
    $('#prompt-count').textContent = t('prompt_length', { n: found.length, characters: content.length });
    $('#prompt-pieces').replaceChildren(...found.map((token, at) => h('span', { class: `piece hue${at % 6}`, title: t('token_id', { id: String(token.id) }) }, ...visible(token))));
    return found;
  } catch (error) {
    $('#prompt-count').textContent = error.message;
    return undefined;
  }
}

/** A token's text in which spaces and line ends can be seen. */
function visible(token) {
  const nodes = [];
  for (const part of spelt(token).split(/( |\n|\t)/)) {
    const sign = { ' ': '·', '\n': '↵', '\t': '→' }[part];
    if (sign) nodes.push(h('i', { class: 'space' }, sign));
    else if (part) nodes.push(part);
    if (part === '\n') nodes.push(h('wbr'));
  }
  return nodes.length ? nodes : [h('i', { class: 'space' }, '∅')];
}

async function begin() {
  stop();
  clearTimeout(waiting);
  const prompt = await tokenize();
  if (!prompt) return;
  if (prompt.length === 0) {
    notice(t('empty_prompt'));
    return;
  }
  tree = new Tree(prompt);
  pin(null);
  extend(tree.grow(null, prompt.length, []));
  score(tree);
}

/** How likely the prompt's own tokens were, where the server tells. */
async function score(scored) {
  const ids = scored.prompt.map(({ id }) => id);
  try {
    const { choices } = await json('/v1/completions', { body: { model: model(), prompt: ids, echo: true, max_tokens: 0, logprobs: ALTERNATIVES }, ask: false });
    const told = choices[0].logprobs;
    if (told?.tokens?.length !== ids.length) return;
    scored.prompt.forEach((token, at) => {
      token.logprob = told.token_logprobs[at] ?? undefined;
      const top = Object.entries(told.top_logprobs?.[at] ?? {});
      token.top = top.map(([piece, logprob]) => ({ bytes: bytes(piece), logprob })).sort((a, b) => b.logprob - a.logprob);
    });
    if (scored === tree) draw();
  } catch { /* A prompt without numbers is shown plainly. */ }
}

/** Lets the model go on at the end of a branch. */
async function extend(branch) {
  stop();
  const control = new AbortController();
  running = control;
  $('#continue').textContent = t('stop_answer');
  notice('');
  const own = tree;
  const number = (id) => ($(id).value === '' ? undefined : Number($(id).value));
  const prompt = tree.path(branch).map(({ token }) => token.id ?? text([token]));
  const body = { prompt, n_predict: number('#inside-count') ?? 40, n_probs: ALTERNATIVES, stream: true };
  const [temperature, seed] = [number('#inside-temperature'), number('#inside-seed')];
  if (temperature !== undefined) body.temperature = temperature;
  if (seed !== undefined) body.seed = seed;
  if (model()) body.model = model();
  draw();
  try {
    for await (const chunk of events('/completion', body, control.signal)) {
      take(branch, chunk);
      if (own === tree && own.current === branch) draw();
    }
    if (branch.state === 'runs') branch.state = 'ended';
  } catch (error) {
    branch.state = error.name === 'AbortError' ? 'ended_by_user' : error.message;
  }
  if (running === control) {
    running = null;
    $('#continue').textContent = t('continue');
  }
  if (own === tree) draw();
}

function take(branch, chunk) {
  const told = chunk.completion_probabilities ?? [];
  for (const one of told) branch.tokens.push({ ...read(one), top: (one.top_logprobs ?? []).map(read) });
  // Servers that tell no probabilities still tell tokens.
  if (told.length === 0 && chunk.content) branch.tokens.push({ id: chunk.tokens?.length === 1 ? chunk.tokens[0] : undefined, bytes: bytes(chunk.content) });
  if (chunk.stop) branch.state = { eos: 'ended_by_model', limit: 'ended_by_limit', word: 'ended_by_stop' }[chunk.stop_type] ?? 'ended';
}

const read = ({ id, token, bytes: raw, logprob }) => ({ id, bytes: raw ?? bytes(token), logprob });

/** 0 for what was certain, 1 for what was nearly impossible. */
const heat = (logprob) => Math.min(1, -logprob / 5);
const percent = (logprob) => {
  const part = Math.exp(logprob);
  const style = { style: 'percent' };
  return part >= 0.1 ? number(part, { ...style, maximumFractionDigits: 0 }) : part >= 0.0001 ? number(+part.toPrecision(2), { ...style, maximumFractionDigits: 4 }) : `< ${number(0.0001, style)}`;
};

function draw() {
  const path = tree.current ? tree.path(tree.current) : [];
  const group = $('#tokens');
  path.forEach((place, at) => {
    const old = group.children[at];
    // Tokens that are as they were keep their focus.
    if (old?.token === place.token && old.scored === place.token.logprob) {
      old.classList.toggle('pinned', at === pinned);
      return;
    }
    const made = piece(place, at);
    const focused = old !== undefined && old === document.activeElement;
    if (old) old.replaceWith(made);
    else group.append(made);
    if (focused) made.focus();
  });
  while (group.children.length > path.length) group.lastChild.remove();
  [...group.children].forEach((child, at) => { child.tabIndex = at === (pinned ?? 0) ? 0 : -1; });
  const { current } = tree;
  $('#inside-status').textContent = !current ? '' : current.state === 'runs' ? t('generating') : t('branch_state', { n: current.number, state: t(current.state) });
  drawTree();
}

function piece({ token, branch, at: own }, at) {
  const known = token.logprob !== undefined;
  const words = `${spelt(token)}${known ? `, ${percent(token.logprob)}` : ''}`;
  const element = h('button', {
    class: `piece ${branch ? '' : 'given'} ${branch && own === 0 && branch.parent ? 'fork' : ''} ${at === pinned ? 'pinned' : ''}`,
    'aria-label': words,
    onmouseenter: () => alternatives(at),
    onmouseleave: () => alternatives(pinned),
    onfocus: () => pin(at),
    onclick: () => pin(at),
  }, ...visible(token));
  if (known) element.style.setProperty('--heat', `${100 * heat(token.logprob)}%`);
  element.token = token;
  element.scored = token.logprob;
  return element;
}

function pin(at) {
  pinned = at;
  [...$('#tokens').children].forEach((child, other) => {
    child.classList.toggle('pinned', other === at);
    child.tabIndex = other === (at ?? 0) ? 0 : -1;
  });
  alternatives(at);
}

function walk(event) {
  const all = [...$('#tokens').children];
  const at = all.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to !== undefined && all[to]) {
    event.preventDefault();
    all[to].focus();
  } else if (event.key === 'Enter' || event.key === 'ArrowDown') {
    event.preventDefault();
    $('#alternatives button:enabled')?.focus();
  }
}

/** Lists what could have stood at a place. */
function alternatives(at) {
  const place = at === null || !tree.current ? undefined : tree.path(tree.current)[at];
  const box = $('#alternatives');
  const title = box.firstElementChild;
  if (!place) {
    box.replaceChildren(title, h('p', { class: 'hint' }, t('alternatives_hint')));
    return;
  }
  const { token } = place;
  const list = [...(token.top ?? [])];
  if (token.logprob !== undefined && !list.some((other) => same(other, token))) list.push(token);
  const rows = list.map((other) => {
    const chosen = same(other, token);
    const bar = h('i', { class: 'share' });
    bar.style.width = `${100 * Math.exp(other.logprob)}%`;
    return h('li', {}, h('button', {
      class: chosen ? 'chosen' : '',
      'aria-label': `${spelt(other)}, ${percent(other.logprob)}${chosen ? `, ${t('chosen')}` : ''}`,
      disabled: chosen,
      onclick: () => fork(place, other),
    }, h('span', { class: 'piece' }, ...visible(other)), h('span', { class: 'track' }, bar), h('small', {}, percent(other.logprob))));
  });
  const about = h('p', { class: 'hint' }, t('token_place', { id: String(token.id ?? '–'), at: at + 1 }), ' ', token.logprob === undefined ? t('no_probability') : '');
  const back = (event) => {
    const buttons = [...box.querySelectorAll('button:enabled')];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) buttons[buttons.indexOf(document.activeElement) + step]?.focus();
    else if (event.key === 'Escape') $('#tokens').children[at]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  box.replaceChildren(title, about, h('ol', { onkeydown: back }, ...rows));
}

/** Takes another token at a place, and lets the model go on from there. */
function fork({ branch, at, token }, other) {
  const known = tree.find(branch, at, other);
  if (known) {
    choose(known);
    return;
  }
  const made = tree.grow(branch, at, [{ ...other, top: token.top }]);
  pinned = tree.path(made).findIndex((place) => place.branch === made);
  extend(made);
  $('#tokens').children[pinned]?.focus();
}

function choose(branch) {
  tree.current = branch;
  pin(null);
  draw();
}

function drawTree() {
  $('#tree').hidden = tree.branches.length === 0;
  const node = (branch) => {
    const children = tree.children(branch);
    const words = text(branch.tokens).trim().replace(/\s+/g, ' ');
    const label = h('button', { class: 'quiet', 'aria-current': branch === tree.current ? 'true' : undefined, onclick: () => choose(branch) },
      h('b', {}, String(branch.number)), ` ${words.slice(0, 80)}${words.length > 80 ? '…' : ''}`);
    return h('li', {}, label, children.length > 0 && h('ul', {}, ...children.map(node)));
  };
  const whole = h('button', { class: 'quiet', onclick: () => copy(text(tree.path(tree.current).map(({ token }) => token)), whole) }, t('copy_text'));
  const focused = [...document.querySelectorAll('#tree button')].indexOf(document.activeElement);
  $('#tree').replaceChildren($('#tree').firstElementChild, h('ul', {}, ...tree.children(null).map(node)), whole);
  if (focused >= 0) document.querySelectorAll('#tree button')[focused]?.focus();
}
