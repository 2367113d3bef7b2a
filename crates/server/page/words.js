// The words of the page, in the reader's language. English is the fallback for any that is missing.

import english from './words/en.js';

/** The languages, in their own names. */
export const LANGUAGES = {
  en: 'English', es: 'Español', de: 'Deutsch', fr: 'Français', zh: '中文', ja: '日本語', ar: 'العربية',
};
const RIGHT_TO_LEFT = ['ar'];

let words = english;
let language = 'en';
const listeners = [];

/** Calls a function whenever the language changes. */
export const onLanguage = (listener) => listeners.push(listener);

/** The language of the page for a setting: `auto` follows the browser. */
export function resolve(setting, preferred = navigator.languages ?? [navigator.language]) {
  if (Object.hasOwn(LANGUAGES, setting)) return setting;
  const codes = preferred.map((tag) => tag.toLowerCase().split('-')[0]);
  return codes.find((code) => Object.hasOwn(LANGUAGES, code)) ?? 'en';
}

/** Loads a language and puts its words into the document. */
export async function speak(setting) {
  let code = resolve(setting);
  try {
    words = code === 'en' ? english : (await import(`./words/${code}.js`)).default;
  } catch {
    // The server has gone; the page still works in English.
    [code, words] = ['en', english];
  }
  language = code;
  document.documentElement.lang = code;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(code) ? 'rtl' : 'ltr';
  for (const element of document.querySelectorAll('[data-t]')) element.textContent = t(element.dataset.t);
  for (const [data, attribute] of [['tLabel', 'aria-label'], ['tPlaceholder', 'placeholder'], ['tTitle', 'title']]) {
    const selector = `[data-${data.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}]`;
    for (const element of document.querySelectorAll(selector)) element.setAttribute(attribute, t(element.dataset[data]));
  }
  listeners.forEach((listener) => listener());
}

/** The words for a key. `{name}` is replaced by a value; a key with plural forms chooses by `n`. */
export function t(key, values = {}) {
  let text = words[key] ?? english[key] ?? key;
  if (typeof text === 'object') text = text[new Intl.PluralRules(language).select(values.n)] ?? text.other;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === 'number' ? number(value) : value;
  });
}

/** A number as the language writes it, with Latin digits so that it matches what models and logs print. */
export const number = (value, options = {}) => new Intl.NumberFormat(`${language}-u-nu-latn`, { maximumFractionDigits: 2, ...options }).format(value);

/** Bytes in decimal units: 12 MB. */
export function bytes(value) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let at = 0;
  while (value >= 999.5 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  // A number and its unit stay together, also inside text that runs right to left.
  return `\u2066${number(value, { maximumFractionDigits: value < 10 && at > 0 ? 1 : 0 })} ${units[at]}\u2069`;
}

/** A share of a whole as a percentage; undefined of nothing. */
export const share = (part, whole) => (whole > 0 ? number(part / whole, { style: 'percent', maximumFractionDigits: 0 }) : undefined);
