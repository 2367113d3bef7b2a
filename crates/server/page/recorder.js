// Runs beside the page, where sound arrives: hands the samples of the first channel to the page.

registerProcessor('recorder', class extends AudioWorkletProcessor {
  process([[samples]]) {
    if (samples) this.port.postMessage(samples.slice());
    return true;
  }
});
