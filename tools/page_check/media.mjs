// Images and audio in messages. The server needs the models `sees` and `hears`, which need not answer.

import { check, click, give, idle, page, press, texts, type, until } from './browser.mjs';
import { tone } from './speech.mjs';

/** A picture of one pixel. */
const PIXEL = [...Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')];

const choose = (name) => page((wanted) => {
  const select = document.querySelector('#model');
  const found = [...select.options].find(({ value }) => value.startsWith(wanted));
  const before = select.value;
  select.value = found.value;
  select.dispatchEvent(new Event('change'));
  return before;
}, name);

/** What the model is sent. */
const sent = () => page(async () => {
  const { perceived, spoken } = await import('/answer.js');
  const { chat } = await import('/conversations.js');
  return perceived(spoken(chat()));
});

export async function media() {
  const before = await choose('sees');
  await click('#new-chat');
  await give('drop', '#chat', [{ name: 'photo.png', bytes: PIXEL }]);
  await until('the preview', () => document.querySelector('#files img')?.naturalWidth === 1);
  await give('drop', '#chat', [{ name: 'talk.wav', bytes: tone() }]);
  await until('the end of the transcript', () => document.querySelectorAll('#files li').length === 2);
  check((await texts('#files li audio')).length === 0, 'a model that sees takes a picture, and of audio what is said');
  await page(() => { document.querySelectorAll('#files button')[1].click(); });
  await type('#input', 'What is this?');
  await press('Enter', 13);
  await idle();
  const [picture] = await sent();
  check(picture.content[0].type === 'image_url' && /^data:image\/png;base64,iVBOR/.test(picture.content[0].image_url.url) && picture.content[1].text === 'What is this?', 'the picture goes before the text');
  check((await page(() => document.querySelector('article.user img').naturalWidth)) === 1, 'the message shows it');
  await choose('hears');
  await click('#new-chat');
  await give('choose', '#file', [{ name: 'photo.png', bytes: PIXEL }]);
  await until('the refusal', () => /photo\.png is a picture, and the model cannot see/.test(document.querySelector('#notice').textContent));
  await give('choose', '#file', [{ name: 'talk.wav', bytes: tone() }]);
  await until('the player', () => document.querySelector('#files audio') !== null);
  await click('#send');
  await idle();
  const [sound] = await sent();
  check(sound.content.length === 1 && sound.content[0].input_audio.format === 'wav' && sound.content[0].input_audio.data.startsWith('UklGR'), 'a model that hears takes audio alone');
  await choose(before);
}
