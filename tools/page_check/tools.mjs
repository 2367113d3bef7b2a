// Tools of MCP servers: offered to the model, run after consent, and out of the page's own reach.

import { check, click, faults, idle, page, plan, press, sent, shot, texts, type, until } from './browser.mjs';

const chunk = (delta, finish = null) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const call = (id, name, given) => `${chunk({ role: 'assistant', content: '' })}${chunk({ tool_calls: [{ index: 0, id, type: 'function', function: { name, arguments: JSON.stringify(given) } }] })}${chunk({}, 'tool_calls')}data: [DONE]\n\n`;
const say = (text) => `${chunk({ role: 'assistant', content: text })}${chunk({}, 'stop')}data: [DONE]\n\n`;

const add = async (url) => {
  await type('#mcp-url', url);
  await page(() => document.querySelector('#mcp-form').requestSubmit());
};

export async function tools(peer) {
  const calls = async () => (await fetch(`${peer}/calls`)).json();
  await click('#tab-chat');
  await click('#new-chat');
  await click('#settings-button');
  for (const path of ['events', 'json']) await add(`${peer}/${path}/mcp`);
  await until('both servers', () => document.querySelectorAll('#mcp-list [data-state=ready]').length === 2);
  check((await texts('#mcp-list b')).join().includes('Documents'), 'two MCP servers are connected, one that streams and one that does not');
  await add('http://127.0.0.1:9/mcp');
  await until('the failure', () => document.querySelector('#mcp-list [data-state=failed] .error'));
  check(/CORS/.test((await texts('#mcp-list [data-state=failed] .error'))[0]), 'one that is not there says so');
  await click('#mcp-list [data-state=failed] [data-act=remove]');
  await add('ftp://127.0.0.1/');
  check((await texts('#mcp-problem'))[0].length > 0, 'and no other protocol is taken');
  await shot('mcp');
  await click('#settings-close');
  const before = faults.length;
  const reached = await page((url) => fetch(url).then(() => true, () => false), `${peer}/calls`);
  // The browser tells of what it has blocked.
  faults.splice(before);
  check(!reached, 'the page itself cannot reach them');

  await plan('/v1/chat/completions', [call('c1', 'add', { a: 2, b: 40 }), say('It is 42.')]);
  await type('#input', 'What is 2 + 40?');
  await press('Enter', 13);
  await until('the question', () => document.querySelector('.consent [data-act=allow]'));
  check((await calls()).length === 0 && /Events/.test((await texts('.consent p'))[0]), 'a call waits for consent');
  check(sent[0].tools.map(({ function: { name } }) => name).join() === 'add,fail,add_2,fail_2', 'the model is offered all tools under names of their own');
  await shot('consent');
  await click('[data-act=allow]');
  await until('the answer', () => document.querySelector('article.assistant:last-child .text')?.textContent === 'It is 42.');
  await idle();
  check(JSON.stringify(await calls()) === '[["Events",2,40]]', 'it runs once it is allowed');
  check((await texts('article.tool .text'))[0] === '2 + 40 = 42 <b>&amp;</b>' && sent[1].messages.at(-1).tool_call_id === 'c1', 'the result is shown as text and goes to the model');

  await plan('/v1/chat/completions', [call('c2', 'add_2', { a: 1, b: 1 }), say('Then not.')]);
  await type('#input', 'And 1 + 1?');
  await press('Enter', 13);
  await until('the question', () => document.querySelector('.consent [data-act=refuse]'));
  await click('[data-act=refuse]');
  await until('the answer', () => document.querySelector('article.assistant:last-child .text')?.textContent === 'Then not.');
  check((await calls()).length === 1 && /refused/.test(sent.at(-1).messages.at(-1).content), 'a refused call does not run, and the model is told');

  await fetch(`${peer}/forget`, { method: 'POST' });
  await plan('/v1/chat/completions', [call('c3', 'add_2', { a: 3, b: 4 }), call('c4', 'fail', {}), say('Done.')]);
  await type('#input', 'Again');
  await press('Enter', 13);
  await until('the question', () => document.querySelector('.consent [data-act=allow]'));
  await click('[data-act=allow]');
  await until('the next question', () => /“fail”/.test(document.querySelector('.consent p')?.textContent));
  check((await calls()).length === 2, 'a session that the server forgot is begun again');
  await click('[data-act=allow]');
  await until('the answer', () => document.querySelector('article.assistant:last-child .text')?.textContent === 'Done.');
  check(/Error executing tool fail/.test(sent.at(-1).messages.at(-1).content), 'a tool that fails is told to the model');
  await click('#settings-button');
  for (let left = 2; left > 0; left -= 1) await click('#mcp-list [data-act=remove]');
  check((await texts('#mcp-list li')).length === 0 && await page(() => document.querySelector('#tools-ready').hidden), 'servers are removed');
  await click('#settings-close');
}
