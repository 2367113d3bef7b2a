'use strict';
// Schemas: JSON schemas as they are, and those of zod and other libraries that can say theirs.

/** The JSON schema of what a caller gave. */
function jsonSchema(schema) {
  if (typeof schema?.toJSONSchema === 'function') return clean(schema.toJSONSchema());
  const standard = schema?.['~standard'];
  if (standard?.jsonSchema) return clean(standard.jsonSchema.output({ target: 'draft-2020-12' }));
  if (standard || typeof schema?.safeParse === 'function') {
    throw new TypeError('this schema cannot tell its JSON schema: pass z.toJSONSchema(schema) and parse the result');
  }
  return schema;
}

function clean({ $schema, '~standard': _, ...schema }) {
  return schema;
}

/** A JSON text as what a schema describes. */
function parse(schema, text) {
  const value = JSON.parse(text);
  return typeof schema?.parse === 'function' ? schema.parse(value) : value;
}

module.exports = { jsonSchema, parse };
