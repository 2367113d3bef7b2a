// DOM helpers. Text from a model never passes through an HTML parser.

import { t } from './words.js';

export const $ = (selector) => document.querySelector(selector);

/** Creates an element with properties (`class`, `on…` listeners, `data`, attributes) and children. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name === 'data') Object.assign(element.dataset, value);
    else if (name !== 'dir') element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  // An element that finds its own direction looks at all of its children whenever it gets another.
  if (properties.dir) element.dir = properties.dir;
  return element;
}

/** The same for an element of a formula. */
export function mathml(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/1998/Math/MathML', tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Shows a message above the view until another one replaces it. */
export function notice(text) {
  $('#notice').textContent = text;
  $('#notice').hidden = text === '';
}

/** Tells screen readers what happened, without showing it. */
export function announce(text) {
  $('#announcement').textContent = text;
}

/** Reads a saved value. Storage that is full, damaged or forbidden counts as empty. */
export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`strata.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Saves a value; false if the browser refuses. */
export function keep(name, value) {
  try {
    localStorage.setItem(`strata.${name}`, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Plain HTTP from another machine has no clipboard API.
    const area = h('textarea', { class: 'hidden' });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = t(done ? 'copied' : 'copy_refused');
  announce(button.textContent);
  setTimeout(() => { button.textContent = label; }, 1200);
}

/** Saves a text as a file. */
export function download(name, text, type = 'application/json') {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
