// Asking the server for the next message, and taking in the answer as it is streamed.

import { events, model } from './api.js';
import { path } from './conversations.js';
import { mediaOf, withFiles } from './files.js';
import { part } from './media.js';
import { number, t } from './words.js';

/** A conversation in the words of the API, but for images and audio: `media` of a message are the files that it has. */
export function spoken(chat, leaf) {
  const said = chat.system.trim() === '' ? [] : [{ role: 'system', content: chat.system }];
  const open = new Set();
  for (const message of path(chat, leaf)) {
    const { role, content, calls, call } = message;
    if (role === 'tool') open.delete(call);
    else {
      // Calls that the user passed over have no result; templates want one.
      for (const id of open) said.push({ role: 'tool', content: 'No result.', tool_call_id: id });
      open.clear();
    }
    calls?.forEach(({ id }) => open.add(id));
    if (role === 'tool') said.push({ role, content, tool_call_id: call });
    else if (calls?.length) said.push({ role, content: content || null, tool_calls: calls });
    else if (role === 'user' && said.at(-1)?.role === 'user') {
      // No answer came.
      const before = said.at(-1);
      before.content += `\n\n${withFiles(message)}`;
      if (mediaOf(message).length > 0) before.media = [...(before.media ?? []), ...mediaOf(message)];
    } else if (role === 'user') {
      const files = mediaOf(message);
      said.push({ role, content: withFiles(message), ...(files.length > 0 && { media: files }) });
    }
    else if (content) said.push({ role, content });
  }
  return said;
}

/** The same with images and audio as parts, before the text. */
export const perceived = (said) => Promise.all(said.map(async ({ media, ...message }) => {
  if (!media) return message;
  const parts = await Promise.all(media.map(part));
  return { ...message, content: message.content === '' ? parts : [...parts, { type: 'text', text: message.content }] };
}));

/** Fills a message with the answer to those before it. `changed` is called whenever there is more to show. */
export async function ask(chat, message, parameters, { signal, changed }) {
  const messages = await perceived(spoken(chat, message.parent));
  const asked = { model: model(), messages, ...parameters, stream: true, stream_options: { include_usage: true } };
  const meter = { start: performance.now(), first: 0, pieces: 0, phase: null };
  message.model = asked.model;
  const progress = (phase) => {
    meter.phase = phase;
    changed(meter);
  };
  try {
    for await (const chunk of events('/v1/chat/completions', asked, signal, progress)) {
      take(message, chunk, meter);
      changed(meter);
    }
  } catch (error) {
    if (error.name === 'AbortError') message.finish = 'stopped';
    else message.error = error.message;
  }
  const seconds = (performance.now() - meter.first) / 1000;
  if (meter.pieces > 1) message.speed ??= (meter.pieces - 1) / seconds;
  if (meter.first) message.wait = (meter.first - meter.start) / 1000;
}

function take(message, chunk, meter) {
  const [choice] = chunk.choices ?? [];
  const { content, reasoning_content: thinking, tool_calls: calls } = choice?.delta ?? {};
  if (content || thinking || calls) {
    meter.first ||= performance.now();
    meter.pieces += 1;
    meter.phase = null;
  }
  if (content) message.content += content;
  if (thinking) message.thinking = (message.thinking ?? '') + thinking;
  for (const { index, id, function: called } of calls ?? []) {
    message.calls ??= [];
    const call = (message.calls[index] ??= { id, type: 'function', function: { name: '', arguments: '' } });
    call.function.name += called?.name ?? '';
    call.function.arguments += called?.arguments ?? '';
  }
  if (choice?.finish_reason) message.finish = choice.finish_reason;
  if (chunk.usage) message.usage = chunk.usage;
  if (chunk.timings?.predicted_per_second) message.speed = chunk.timings.predicted_per_second;
}

/** Where a request stands before its first token: {words, share}; a share is of 1. */
export function standing({ phase }) {
  const { state, done, total, ahead } = phase ?? {};
  const part = total > 0 ? done / total : undefined;
  if (state === 'loading') return { words: t('loading_model', { model: model() }), share: part };
  if (state === 'queued') return { words: ahead > 0 ? t('queued', { n: ahead }) : t('next_in_queue') };
  if (state === 'prompt') return { words: t('reading_prompt', { done: done ?? 0, total: total ?? 0 }), share: part };
  return { words: t('waiting') };
}

/** How fast an answer comes. */
export function pace({ first, pieces }) {
  const seconds = (performance.now() - first) / 1000;
  return pieces > 2 ? t('pace', { n: pieces, speed: number((pieces - 1) / seconds, { maximumFractionDigits: 1 }) }) : '…';
}

/** What an answer took. */
export function summary({ usage, speed, wait, finish }) {
  const parts = [];
  if (usage) parts.push(t('tokens', { n: usage.completion_tokens }));
  if (speed) parts.push(`${number(speed, { maximumFractionDigits: 1 })} ${t('tokens_per_second')}`);
  if (wait) parts.push(t('first_after', { seconds: wait }));
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  if (usage) parts.push(cached ? t('prompt_cached', { n: usage.prompt_tokens, cached }) : t('prompt_tokens', { n: usage.prompt_tokens }));
  if (finish === 'length') parts.push(t('cut_off'));
  if (finish === 'stopped') parts.push(t('stopped'));
  return parts.join(' · ');
}
