// Speech: the microphone, which is the browser's own that beeps, and audio files. The server needs a model with --speech.

import { check, click, give, page, sleep, texts, until } from './browser.mjs';

/** A second of a tone, as a WAV file. */
export function tone() {
  const bytes = Buffer.alloc(44 + 32000);
  bytes.write('RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0', 'latin1');
  [16000, 32000].forEach((number, at) => bytes.writeUInt32LE(number, 24 + 4 * at));
  bytes.writeUInt16LE(2, 32);
  bytes.writeUInt16LE(16, 34);
  bytes.write('data', 36);
  bytes.writeUInt32LE(32000, 40);
  for (let n = 0; n < 16000; n += 1) bytes.writeInt16LE(Math.round(12000 * Math.sin(n * n * 1e-5)), 44 + 2 * n);
  return [...bytes];
}

export async function speech() {
  await click('#new-chat');
  await until('the microphone', () => !document.querySelector('#speak').hidden);
  check((await texts('#speak'))[0] === '🎙', 'a server that hears has a microphone');
  await click('#speak');
  await until('the recording', () => document.querySelector('#speak').getAttribute('aria-pressed') === 'true');
  await sleep(2500);
  await click('#speak');
  await until('the transcript', () => document.querySelector('#input').value !== '');
  const said = await page(() => document.querySelector('#input').value);
  check(!/\n/.test(said) && (await page(() => document.querySelector('#speak').getAttribute('aria-pressed'))) === 'false', `what was said is in the message: ${said.slice(0, 40)}`);
  await page(() => { document.querySelector('#input').value = ''; document.querySelector('#input').dispatchEvent(new Event('input')); });
  await give('drop', '#chat', [{ name: 'talk.wav', bytes: tone() }]);
  await until('the file', () => document.querySelectorAll('#files li').length === 1);
  check(/^talk\.wav/.test((await texts('#files li'))[0]), 'an audio file is attached as what is said in it');
  await give('drop', '#chat', [{ name: 'broken.mp3', bytes: [1, 2, 3] }]);
  await until('the refusal', () => /not audio/.test(document.querySelector('#notice').textContent));
  check((await texts('#files li')).length === 1, 'one that is none is refused');
  await click('#files button');
}
