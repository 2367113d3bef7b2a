'use strict';

/** What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint. */
class StrataError extends Error {
  constructor(message, code, hint) {
    super(message);
    this.name = 'StrataError';
    this.code = code;
    this.hint = hint ?? undefined;
  }
}

/** The native half's error as one of these. */
function translate(error) {
  if (!(error instanceof Error) || error instanceof StrataError) return error;
  try {
    const { code, message, hint } = JSON.parse(error.message);
    return code ? new StrataError(message, code, hint) : error;
  } catch {
    return error;
  }
}

/** Calls the native half. */
function call(act) {
  try {
    return act();
  } catch (error) {
    throw translate(error);
  }
}

/** Awaits the native half. */
async function settle(promise) {
  try {
    return await promise;
  } catch (error) {
    throw translate(error);
  }
}

module.exports = { StrataError, translate, call, settle };
