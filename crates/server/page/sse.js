// Server-sent events, as chat completions and MCP servers stream them.

/** The events of a response: `{data}`, or `{comment}` for lines that event sources ignore. */
export async function* serverSentEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? '\n\n' : value;
      const parts = rest.split(/\r?\n\r?\n/);
      rest = parts.pop();
      for (const part of parts) {
        const lines = part.split(/\r?\n/);
        for (const line of lines) if (line.startsWith(':')) yield { comment: line.slice(1).trim() };
        const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).replace(/^ /, ''));
        if (data.length > 0) yield { data: data.join('\n') };
      }
      if (done) return;
    }
  } finally {
    // Leaving early ends the server's work; an aborted stream has nothing left to cancel.
    reader.cancel().catch(() => {});
  }
}
