// Holds routes to the schema of the Gateway API, from the package that is made of its definitions. No package has those of
// its extension for inference.
//
//   npm install --prefix FOLDER @kubernetes-models/gateway-api
//   node tools/gateway_check.mjs FOLDER <ROUTES.json
//
// FOLDER is where the package was installed; the routes are a list of HTTPRoute. A schema passes over fields that it does not
// know, as Kubernetes does, which drops them. Here each field must be one that it knows: with a value of a wrong type in its
// place, the route is refused.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node tools/gateway_check.mjs FOLDER <ROUTES.json');
  process.exit(2);
}
const schemas = join(resolve(folder), 'node_modules/@kubernetes-models/gateway-api/_schemas');
const { validate } = await import(join(schemas, 'IoK8sSigsGatewayApiApisV1HTTPRoute.js'));

// The fields of a document that the schema does not know.
function* unknown(document, node = document, path = '') {
  for (const [name, value] of Object.entries(node)) {
    const isNode = value !== null && typeof value === 'object';
    node[name] = isNode ? 'no such value' : {};
    if (validate(document)) yield `${path}/${name}`;
    node[name] = value;
    if (isNode) yield* unknown(document, value, `${path}/${name}`);
  }
}

const routes = JSON.parse(readFileSync(0, 'utf8'));
for (const route of routes) {
  assert.ok(validate(route), JSON.stringify(validate.errors));
  assert.deepEqual([...unknown(route)], []);
}

// The check itself can fail.
const [route] = routes;
const spec = (change) => ({ ...route, spec: { ...route.spec, ...change } });
assert.ok(!validate(spec({ rules: [{ matches: [{ path: { type: 'Prefix', value: '/v1' } }] }] })));
assert.deepEqual([...unknown(spec({ hostnames: ['a.example'], backend: { name: 'strata' } }))], ['/spec/backend', '/spec/backend/name']);
