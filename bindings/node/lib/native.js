'use strict';
// Finds the native half: prebuilt/<platform>-<arch>.node, or what STRATA_NODE names.

const path = require('node:path');

function find() {
  const named = process.env.STRATA_NODE;
  if (named) return require(path.resolve(named));
  const file = path.join(__dirname, '..', 'prebuilt', `${process.platform}-${process.arch}.node`);
  try {
    return require(file);
  } catch (error) {
    const what = `strata-llm has no prebuilt library for ${process.platform}-${process.arch} (${file})`;
    throw new Error(`${what}: build bindings/node and set STRATA_NODE to it`, { cause: error });
  }
}

module.exports = find();
