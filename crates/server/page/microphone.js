// Speech: what the microphone hears, and audio files, as the text that the server's speech model makes of them.

import { $, announce, notice } from './dom.js';
import { call, json } from './api.js';
import { parse, sum } from './metrics.js';
import { onLanguage, t } from './words.js';

/** Bytes of sound in one recording, of two each: below what a body may have. */
const LARGEST = 30_000_000;
const SOUND = /\.(wav|flac|mp3|ogg|oga)$/i;

/** The recording on its way: {stream, context, pieces, count}. */
let recording = null;
let busy = false;
let hears = false;

export function start() {
  $('#speak').addEventListener('click', () => (recording ? finish() : begin()));
  onLanguage(draw);
}

/** Asks whether the server has a model for speech that whoever has this key may use. */
export async function look() {
  try {
    hears = sum(parse(await (await call('/metrics', { ask: false })).text()), 'strata:speech_models') > 0;
  } catch {
    hears = false;
  }
  draw();
}

function draw() {
  const button = $('#speak');
  // Plain HTTP from another machine has no microphone.
  button.hidden = !hears || !navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode;
  button.disabled = busy;
  button.textContent = busy ? '…' : recording ? '■' : '🎙';
  button.setAttribute('aria-pressed', recording !== null);
  for (const attribute of ['aria-label', 'title']) button.setAttribute(attribute, t(busy ? 'transcribing' : recording ? 'stop_recording' : 'speak'));
  button.classList.toggle('stop', recording !== null);
}

async function begin() {
  notice('');
  busy = true;
  draw();
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    const context = new AudioContext();
    await context.audioWorklet.addModule('/recorder.js');
    const now = { stream, context, pieces: [], count: 0 };
    const node = new AudioWorkletNode(context, 'recorder', { numberOfOutputs: 0 });
    node.port.onmessage = ({ data }) => {
      now.pieces.push(data);
      now.count += data.length;
      if (recording === now && now.count * 2 >= LARGEST) finish();
    };
    context.createMediaStreamSource(stream).connect(node);
    recording = now;
    announce(t('recording'));
  } catch (error) {
    stream?.getTracks().forEach((track) => track.stop());
    const reasons = { NotAllowedError: 'microphone_refused', NotFoundError: 'microphone_missing' };
    notice(Object.hasOwn(reasons, error.name) ? t(reasons[error.name]) : error.message);
  }
  busy = false;
  draw();
}

async function finish() {
  const { stream, context, pieces, count } = recording;
  const rate = context.sampleRate;
  recording = null;
  busy = true;
  draw();
  stream.getTracks().forEach((track) => track.stop());
  announce(t('transcribing'));
  try {
    await context.close();
    put(count > 0 ? await transcribe(new File([wav(pieces, count, rate)], 'speech.wav', { type: 'audio/wav' })) : '');
  } catch (error) {
    notice(error.message);
  }
  busy = false;
  draw();
  $('#input').focus();
}

/** Puts what was said where the cursor is. */
function put(text) {
  if (text === '') {
    notice(t('nothing_heard'));
    return;
  }
  const input = $('#input');
  const { selectionStart: from, selectionEnd: to, value } = input;
  const space = from > 0 && !/\s$/.test(value.slice(0, from)) ? ' ' : '';
  input.setRangeText(space + text, from, to, 'end');
  input.dispatchEvent(new Event('input'));
  announce(text);
}

/** A WAV file of 16-bit samples. */
function wav(pieces, count, rate) {
  const bytes = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, letters) => [...letters].forEach((letter, n) => bytes.setUint8(at + n, letter.charCodeAt(0)));
  text(0, 'RIFF');
  bytes.setUint32(4, 36 + 2 * count, true);
  text(8, 'WAVEfmt ');
  bytes.setUint32(16, 16, true);
  bytes.setUint16(20, 1, true);
  bytes.setUint16(22, 1, true);
  bytes.setUint32(24, rate, true);
  bytes.setUint32(28, 2 * rate, true);
  bytes.setUint16(32, 2, true);
  bytes.setUint16(34, 16, true);
  text(36, 'data');
  bytes.setUint32(40, 2 * count, true);
  let at = 44;
  for (const piece of pieces) {
    for (const sample of piece) {
      bytes.setInt16(at, Math.max(-1, Math.min(1, sample)) * 32767, true);
      at += 2;
    }
  }
  return bytes;
}

/** Whether a file is sound that the server can make text of. */
export const isSpeech = (file) => hears && SOUND.test(file.name);

/** What is said in an audio file. */
export async function transcribe(file) {
  const form = new FormData();
  form.append('file', file);
  return (await json('/v1/audio/transcriptions', { body: form })).text;
}
