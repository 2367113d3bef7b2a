// Elements without markup: text that came from a model never passes an HTML parser.

export const $ = (selector) => document.querySelector(selector);

/** An element with properties (`class`, `on…` listeners, `data`, attributes) and children. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false || value === null) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name === 'data') Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** Says something that concerns the whole page; nothing takes it away. */
export function notice(text) {
  $('#notice').textContent = text;
  $('#notice').hidden = text === '';
}

/** Reads what was kept; a store that is full, damaged or forbidden is as good as an empty one. */
export function recall(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`strata.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

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
    // Plain HTTP from another machine has no clipboard interface.
    const area = h('textarea', { class: 'hidden' });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand('copy');
    area.remove();
  }
  const label = button.textContent;
  button.textContent = done ? 'Copied' : 'Not allowed';
  setTimeout(() => { button.textContent = label; }, 1200);
}
