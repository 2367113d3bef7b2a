// The live view: the server's metrics, polled each second while someone looks.

import { $, h } from './dom.js';
import { call } from './api.js';
import { buckets, parse, quantile, sum } from './metrics.js';
import { number, onLanguage, share, t } from './words.js';

const SECONDS = 120;
const MOST_CELLS = 4096;
// Latencies are of the last minute, where there were any.
const WINDOW = 60;

/** What was seen each second: {time, all}. */
let seen = [];
let shown = false;
let timer = 0;
let asking = false;
let mayAsk = true;

export function enter() {
  shown = true;
  poll();
}

export function leave() {
  shown = false;
  clearTimeout(timer);
}

export const repaint = () => { if (shown) draw(); };

document.addEventListener('visibilitychange', () => { if (shown && !document.hidden) poll(); });
addEventListener('resize', () => repaint());
onLanguage(() => repaint());

async function poll() {
  clearTimeout(timer);
  if (!shown || document.hidden || asking) return;
  asking = true;
  const started = performance.now();
  const first = mayAsk;
  mayAsk = false;
  try {
    // The key is asked for at most once: a poll must not interrupt again and again.
    const text = await (await call('/metrics', { ask: first })).text();
    seen.push({ time: performance.now() / 1000, all: parse(text) });
    seen = seen.slice(-SECONDS);
    draw();
    await slots();
    $('#pulse').textContent = t('polled', { ms: Math.round(performance.now() - started) });
  } catch (error) {
    $('#pulse').textContent = t('no_metrics', { message: error.message });
  }
  asking = false;
  if (shown) timer = setTimeout(poll, Math.max(100, 1000 - (performance.now() - started)));
}

/** The growth of a counter in a second, between two looks. */
function rate(now, before, name) {
  const [a, b] = [sum(before?.all, name), sum(now.all, name)];
  if (a === undefined || b === undefined || b < a) return undefined;
  return (b - a) / (now.time - before.time);
}

function draw() {
  const now = seen.at(-1);
  if (!now) return;
  const before = seen[Math.max(0, seen.length - 4)];
  cards(now, before === now ? undefined : before);
  const lines = (names) => names.map(([swatch, value]) => ({ swatch, values: seen.map((look, at) => value(look, seen[at - 1])) }));
  chart($('#rates'), lines([
    ['generated', (look, last) => rate(look, last, 'vllm:generation_tokens_total')],
    ['prompted', (look, last) => rate(look, last, 'vllm:prompt_tokens_total')],
  ]));
  chart($('#requests'), lines([
    ['generated', ({ all }) => sum(all, 'vllm:num_requests_running')],
    ['waiting', ({ all }) => sum(all, 'vllm:num_requests_waiting')],
  ]));
  pages(now.all);
  const blocked = (now.all.get('strata:requests_blocked') ?? []).filter(({ value }) => value > 0);
  $('#blocked').textContent = blocked.map(({ labels, value }) => t(`blocked_${labels.reason}`, { n: value })).join(' ');
  for (const card of document.querySelectorAll('[data-histogram]')) histogram(card, now);
}

const whole = (value) => (value === undefined ? undefined : number(Math.round(value)));
const tenth = (value) => (value === undefined ? undefined : number(value, { minimumFractionDigits: 1, maximumFractionDigits: 1 }));

function cards(now, before) {
  const { all } = now;
  const speed = (name) => tenth(rate(now, before, name));
  const steps = rate(now, before, 'strata:batch_tokens_count');
  const batch = (name) => (steps > 0 ? tenth(rate(now, before, `${name}_sum`) / steps) : steps === 0 ? '0' : undefined);
  const hits = (look) => [sum(look, 'vllm:prefix_cache_hits_total'), sum(look, 'vllm:prefix_cache_queries_total')];
  const pages = stock(all).reduce(([used, total], [, one]) => [used + one.used, total + one.used + one.cached + one.free], [0, 0]);
  const values = [
    [t('running'), whole(sum(all, 'vllm:num_requests_running'))],
    [t('queue'), whole(sum(all, 'vllm:num_requests_waiting'))],
    [t('tokens_a_step'), batch('strata:batch_tokens')],
    [t('sequences_a_step'), batch('strata:batch_texts')],
    [t('generated_a_second'), speed('vllm:generation_tokens_total')],
    [t('prompt_a_second'), speed('vllm:prompt_tokens_total')],
    [t('cache_hits'), share(...hits(all))],
    [t('pages_in_use'), share(...pages)],
  ];
  $('#cards').replaceChildren(...values.map(([name, value]) => h('div', { class: 'card number' }, h('strong', {}, value ?? '–'), name)));
}

/** The colour of a legend's swatch, so that pictures follow the theme. */
const colour = (swatch) => getComputedStyle(document.querySelector(`#live .legend .${swatch}`)).backgroundColor;

/** A canvas as sharp as the screen. */
function surface(canvas, height) {
  const width = canvas.clientWidth || canvas.parentElement.clientWidth;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext('2d');
  pen.scale(devicePixelRatio, devicePixelRatio);
  return [pen, width];
}

function chart(canvas, lines) {
  const height = 120;
  const [pen, width] = surface(canvas, height);
  const top = Math.max(1, ...lines.flatMap(({ values }) => values.filter((value) => value !== undefined)));
  const y = (value) => height - 4 - (value / top) * (height - 24);
  const style = getComputedStyle(canvas);
  pen.fillStyle = style.color;
  pen.font = `12px ${style.fontFamily}`;
  pen.fillText(top >= 10 ? Math.round(top) : top.toFixed(1), 0, 12);
  pen.globalAlpha = 0.25;
  pen.fillRect(0, y(0), width, 1);
  pen.fillRect(0, y(top), width, 1);
  pen.globalAlpha = 1;
  for (const { swatch, values } of lines) {
    pen.strokeStyle = colour(swatch);
    pen.lineWidth = 2;
    pen.beginPath();
    values.forEach((value, at) => {
      if (value !== undefined) pen.lineTo(width - ((values.length - 1 - at) / (SECONDS - 1)) * width, y(value));
    });
    pen.stroke();
  }
  const names = { generated: canvas.id === 'requests' ? 'running' : 'generated', prompted: 'prompt', waiting: 'queue' };
  const last = lines.map(({ swatch, values }) => `${t(names[swatch])} ${tenth(values.at(-1)) ?? '–'}`);
  canvas.setAttribute('aria-label', t('chart_label', { now: last.join(', '), most: tenth(top) }));
}

/** Pages of each model; servers that tell only a share of use get a picture of that. */
function stock(all) {
  const models = new Map();
  const of = ({ labels }) => {
    const name = labels.model_name ?? '';
    if (!models.has(name)) models.set(name, {});
    return models.get(name);
  };
  for (const one of all.get('vllm:cache_config_info') ?? []) {
    of(one).total = Number(one.labels.num_gpu_blocks) || 0;
    of(one).size = one.labels.block_size;
  }
  for (const one of all.get('vllm:kv_cache_usage_perc') ?? []) of(one).share = one.value;
  for (const one of all.get('strata:kv_pages') ?? []) of(one)[one.labels.state] = one.value;
  for (const model of models.values()) {
    model.used ??= Math.round((model.total ?? 0) * (model.share ?? 0));
    model.cached ??= 0;
    model.free ??= Math.max(0, (model.total ?? 0) - model.used);
  }
  return [...models].filter(([, { used, cached, free }]) => used + cached + free > 0);
}

function pages(all) {
  const models = stock(all);
  $('#pages-card').hidden = models.length === 0;
  const figures = [...$('#pages').children];
  figures.slice(models.length).forEach((figure) => figure.remove());
  models.forEach(([name, model], at) => {
    const figure = figures[at] ?? $('#pages').appendChild(h('figure', {}, h('canvas', { role: 'img' }), h('figcaption')));
    const { used, cached, free, size } = model;
    const total = used + cached + free;
    const each = Math.ceil(total / MOST_CELLS);
    const words = t('pages_of', { model: name, used, cached, free });
    const notes = [size && t('page_size', { n: Number(size) }), each > 1 && t('cell_size', { n: each })];
    figure.lastElementChild.textContent = [words, ...notes].filter(Boolean).join(' · ');
    figure.firstElementChild.setAttribute('aria-label', words);
    grid(figure.firstElementChild, [[used, 'used'], [cached, 'cached'], [free, 'free']], each);
  });
}

function grid(canvas, states, each) {
  const cells = states.flatMap(([count, swatch]) => Array(Math.ceil(count / each)).fill(swatch));
  const width = canvas.parentElement.clientWidth;
  const step = Math.max(5, Math.min(18, Math.floor(Math.sqrt((width * 220) / cells.length))));
  const columns = Math.max(1, Math.floor(width / step));
  const [pen] = surface(canvas, Math.ceil(cells.length / columns) * step);
  const colours = Object.fromEntries(states.map(([, swatch]) => [swatch, colour(swatch)]));
  cells.forEach((swatch, at) => {
    pen.fillStyle = colours[swatch];
    pen.fillRect((at % columns) * step, Math.floor(at / columns) * step, step - 1, step - 1);
  });
}

/** A time, kept together also inside text that runs right to left. */
const time = (seconds) => (seconds === undefined ? '–' : seconds === Infinity ? '∞' : `\u2066${seconds < 1 ? `${number(+(seconds * 1000).toPrecision(2))} ms` : `${number(+seconds.toPrecision(3))} s`}\u2069`);

function histogram(card, now) {
  const name = card.dataset.histogram;
  const past = seen.find((look) => now.time - look.time <= WINDOW);
  let counts = buckets(now.all, past === now ? undefined : past?.all, name);
  let span = 'last_minute';
  if (counts.every(({ count }) => count === 0)) {
    counts = buckets(now.all, undefined, name);
    span = 'since_start';
  }
  const first = counts.findIndex(({ count }) => count > 0);
  card.hidden = first < 0;
  if (first < 0) return;
  const range = counts.slice(first, counts.findLastIndex(({ count }) => count > 0) + 1);
  const most = Math.max(...range.map(({ count }) => count));
  const bars = range.map(({ end, count }) => {
    const bar = h('i');
    bar.style.height = `${(100 * count) / most}%`;
    return h('div', { title: `≤ ${time(end)}: ${number(count)}` }, h('div', { class: 'bar' }, bar), h('small', {}, time(end)));
  });
  const shares = [0.5, 0.95, 0.99].map((part) => h('span', {}, h('strong', {}, time(quantile(counts, part))), ` ${share(part, 1)}`));
  const total = counts.reduce((all, { count }) => all + count, 0);
  card.replaceChildren(card.firstElementChild, h('p', { class: 'shares' }, ...shares),
    h('div', { class: 'bars' }, ...bars), h('p', { class: 'hint' }, t(span, { n: total })));
}

async function slots() {
  let list = [];
  try {
    list = await (await call('/slots', { ask: false })).json();
  } catch { /* Servers may keep their slots to themselves. */ }
  if (!Array.isArray(list)) list = [];
  $('#slots-card').hidden = list.length === 0;
  $('#slots').replaceChildren(...list.slice(0, 512).map(({ id, is_processing: works, n_prompt_tokens: prompt, n_decoded: made }) => {
    const words = t(works ? 'slot_busy' : 'slot_free', { id: String(id), prompt: prompt ?? 0, made: made ?? 0 });
    return h('li', { class: works ? 'works' : '', title: words }, String(id));
  }));
}
