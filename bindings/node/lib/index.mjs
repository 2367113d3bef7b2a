import strata from './index.js';

export const { load, plan, features, Model, Answer, Session, Documents, StrataError } = strata;
export default strata;
