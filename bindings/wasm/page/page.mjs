// The page: a model in a worker, a question, a story.
import { loadInWorker } from './worker.mjs';

const element = (id) => document.getElementById(id);
const params = new URLSearchParams(location.search);

/** The parts: out of this file, where they were packed into it, or beside it. */
async function parts() {
  const packed = (id) => element(id)?.textContent;
  const bytes = (base64) => {
    const text = atob(base64);
    const all = new Uint8Array(text.length);
    for (let place = 0; place < all.length; place++) all[place] = text.charCodeAt(place);
    return all.buffer;
  };
  if (packed('module')) {
    const script = new Blob([atob(packed('worker'))], { type: 'text/javascript' });
    const worker = new Worker(URL.createObjectURL(script));
    worker.addEventListener('error', (problem) => facts(`the worker failed: ${problem.message}`));
    return { module: bytes(packed('module')), file: bytes(packed('model')), worker };
  }
  const file = await (await fetch('tale.gguf')).arrayBuffer();
  const beside = (name) => new URL(name, location.href).href;
  return { module: beside('strata.wasm'), threaded: beside('strata-threads.wasm'), file };
}

function facts(text) {
  element('facts').textContent = text;
}

const model = await loadInWorker({
  ...(await parts()),
  context: 1024,
  progress: (loaded, total) => (element('loading').value = loaded / total),
});
element('loading').hidden = true;
element('tell').disabled = false;
facts(`${model.info.parameters.toLocaleString()} parameters, ${model.info.isa}`);

let running;
element('ask').addEventListener('submit', async (event) => {
  event.preventDefault();
  element('story').textContent = '';
  element('tell').disabled = true;
  element('stop').disabled = false;
  running = new AbortController();
  const fields = { max_tokens: Number(params.get('tokens') ?? 200), signal: running.signal };
  if (params.has('greedy')) fields.temperature = 0;
  const start = performance.now();
  let pieces = 0;
  try {
    for await (const piece of model.chat(element('asked').value, fields)) {
      element('story').append(piece);
      pieces++;
      facts(`${((pieces * 1000) / (performance.now() - start)).toFixed(0)} pieces a second, ${model.info.isa}`);
    }
    element('story').dataset.state = 'told';
  } catch (problem) {
    element('story').dataset.state = problem.name === 'AbortError' ? 'stopped' : 'failed';
    if (problem.name !== 'AbortError') facts(problem.message);
  }
  element('tell').disabled = false;
  element('stop').disabled = true;
});
element('stop').addEventListener('click', () => running?.abort());
document.body.dataset.state = 'ready';
