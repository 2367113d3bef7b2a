// Prometheus' text format, and what can be read from counters and buckets.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Name → [{labels, value}]. */
export function parse(text) {
  const all = new Map();
  for (const line of text.split('\n')) {
    const match = line.startsWith('#') ? null : LINE.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? '').matchAll(LABEL)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    }
    const value = match[3] === '+Inf' ? Infinity : Number(match[3]);
    if (!all.has(match[1])) all.set(match[1], []);
    all.get(match[1]).push({ labels, value });
  }
  return all;
}

/** A metric over all models; undefined if there is none. */
export function sum(all, name) {
  const values = all?.get(name);
  return values?.reduce((total, { value }) => total + value, 0);
}

/** How many values each bucket holds, by its upper end: since `before`, or in all. */
export function buckets(all, before, name) {
  const totals = new Map();
  const add = (source, sign) => {
    for (const { labels, value } of source?.get(`${name}_bucket`) ?? []) {
      const end = labels.le === '+Inf' ? Infinity : Number(labels.le);
      totals.set(end, (totals.get(end) ?? 0) + sign * value);
    }
  };
  add(all, 1);
  add(before, -1);
  let below = 0;
  return [...totals].sort(([a], [b]) => a - b).map(([end, count]) => {
    const own = { end, count: Math.max(0, count - below) };
    below = count;
    return own;
  });
}

/** The value that a share of all values is under, taken as evenly spread inside its bucket. */
export function quantile(counts, share) {
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  if (total === 0) return undefined;
  let seen = 0;
  let start = 0;
  for (const { end, count } of counts) {
    if (count > 0 && seen + count >= share * total) {
      return end === Infinity ? start : start + (end - start) * ((share * total - seen) / count);
    }
    seen += count;
    start = end;
  }
  return start;
}
