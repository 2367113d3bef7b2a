// The parameters of requests: fields that are empty until someone sets them, and show what holds until then.

import { $, keep, notice, recall } from './dom.js';
import { json, model } from './api.js';
import { number, t } from './words.js';

const fields = () => document.querySelectorAll('#parameters [name]');

export function start() {
  for (const field of fields()) {
    field.value = recall('parameters', {})[field.name] ?? '';
    field.addEventListener('input', () => {
      keep('parameters', Object.fromEntries([...fields()].map((one) => [one.name, one.value])));
      mark();
    });
  }
  $('#reset-parameters').addEventListener('click', () => {
    for (const field of fields()) field.value = '';
    keep('parameters', {});
    mark();
  });
  mark();
}

/** Says in the summary how many are set. */
function mark() {
  const set = [...fields()].filter(({ value }) => value.trim() !== '').length;
  $('#parameters-set').textContent = set > 0 ? t('parameters_set', { n: set }) : '';
  $('#reset-parameters').hidden = set === 0;
}

/** Shows the defaults of the selected model in the empty fields. */
export async function showDefaults() {
  if (!model()) return;
  let defaults = {};
  let context;
  try {
    const { default_generation_settings: told } = await json(`/props?model=${encodeURIComponent(model())}`, { ask: false });
    defaults = told?.params ?? {};
    context = told?.n_ctx;
  } catch { /* Servers without /props keep their defaults to themselves. */ }
  const limit = defaults.max_tokens ?? defaults.num_predict ?? defaults.n_predict;
  const shown = {
    ...defaults,
    max_tokens: limit > 0 ? limit : t('until_done'),
    // As llama-server says it: the largest number, or one below 0.
    seed: defaults.seed >= 0 && defaults.seed < 0xffffffff ? defaults.seed : t('random'),
  };
  for (const field of fields()) {
    const value = shown[field.name];
    if (field.type === 'number') field.placeholder = typeof value === 'number' ? number(value, { useGrouping: false, maximumFractionDigits: 4 }) : value ?? '–';
  }
  $('#context-size').textContent = context ? t('context_size', { n: context }) : '';
  mark();
}

/** What the fields ask for. Null, after a notice, if they cannot be read. */
export function read() {
  const asked = {};
  for (const { name, value, type, validity } of fields()) {
    if (type === 'number' && validity && !validity.valid) {
      notice(t('out_of_range', { name: t(name) }));
      return null;
    }
    if (value.trim() === '') continue;
    if (name === 'stop') {
      asked.stop = value.split('\n').filter((line) => line !== '').map((line) => line.replaceAll('\\n', '\n'));
    } else if (name === 'tools') {
      try {
        asked.tools = JSON.parse(value);
        if (!Array.isArray(asked.tools)) throw new Error();
      } catch {
        notice(t('tools_not_json'));
        return null;
      }
    } else {
      asked[name] = Number(value);
    }
  }
  notice('');
  return asked;
}
