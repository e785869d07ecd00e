// An episode that a person plays: the session, its turns, and what can be done next.
import { getJson } from "./api.js";
import { RequestError, Session } from "./connection.js";
import { episodePath } from "./traces/source.js";
import { totalOf } from "./turns.js";
import { actionKinds, refusesListing, toolKind } from "./schema.js";

const LIST_TOOLS = { type: "list_tools" };
// An observation of more characters is not sent back, for the environment to render it.
const MOST_RENDERED = 1_000_000;
// Entries of an episode on record that are read at once.
const RANGE = 100;
// The id that a training or an evaluation makes for each episode; another one may be a task's own.
const MADE_ID = /^([a-z]+-)?[0-9a-f]{32}$/;

export class Game {
  /**
   * @param {string} environment Name of the environment in the paths of its tasks.
   * @param {boolean} mayHaveTools Whether its sessions list tools; those of others would count it as a wrong step.
   * @param {() => void} onChange Called after every change.
   */
  constructor(environment, mayHaveTools, onChange) {
    this.environment = environment;
    this.mayHaveTools = mayHaveTools;
    this.onChange = onChange;
    this.session = new Session((status) => this.set({ status }));
    this.status = "connecting";
    this.busy = null; // what is under way: `reset`, `step` or `replay`
    this.since = 0; // when that began
    this.turns = [];
    this.cursor = null; // the turn that is shown; null for the last one
    this.error = null;
    this.schemas = null;
    this.metadata = null;
    this.splits = [];
    this.actions = [];
    this.tools = [];
    this.state = null;
    this.origin = null; // of a replay: the episode, the step, the first one with another answer, if there is one, and what is on record of the episode
  }

  set(changes) {
    Object.assign(this, changes);
    this.onChange();
  }

  async load() {
    const [schemas, metadata] = await Promise.all([getJson("schema"), getJson("metadata")]);
    this.set({ schemas, metadata, actions: actionKinds(schemas.action) });
    if (schemas.reset?.properties === undefined || "split" in schemas.reset.properties) await this.listSplits();
  }

  async listSplits() {
    try {
      this.set({ splits: await getJson(`${encodeURIComponent(this.environment)}/splits`) });
    } catch {
      // its tasks have no list
    }
  }

  async task(split, index) {
    const { task } = await getJson(`${encodeURIComponent(this.environment)}/task`, { split, index });
    return task;
  }

  async taskCount(split) {
    const answer = await getJson(`${encodeURIComponent(this.environment)}/num_tasks`, { split });
    return answer.num_tasks;
  }

  get kinds() {
    return [...this.actions, ...this.tools];
  }

  get shown() {
    return this.turns[this.cursor ?? this.turns.length - 1] ?? null;
  }

  get last() {
    return this.turns[this.turns.length - 1] ?? null;
  }

  get steps() {
    return Math.max(this.turns.length - 1, 0);
  }

  get total() {
    return totalOf(this.turns);
  }

  async reset(parameters) {
    const turn = await this.perform("reset", parameters, () => {
      this.turns = [];
      this.origin = null;
    });
    if (turn !== null) await this.listTools();
    return turn !== null;
  }

  /** Do an action of a button or a key; before the first reset neither does anything. */
  async step(action) {
    if (this.turns.length === 0) return false;
    return await this.perform("step", action, () => {}) !== null;
  }

  async perform(type, request, begin) {
    if (this.busy !== null) return null;
    const started = performance.now();
    this.set({ busy: type, since: started, error: null });
    try {
      const answer = await this.session.request(type, request);
      begin();
      const isLarge = this.session.received > MOST_RENDERED;
      const turn = { type, request, ...answer, tookMs: performance.now() - started, view: null, isLarge };
      this.turns = [...this.turns, turn];
      this.set({ busy: null, cursor: null });
      this.lookAt(turn);
      return turn;
    } catch (error) {
      this.set({ busy: null, error });
      return null;
    }
  }

  /** Go on from a fork of another session, where that one stood. */
  async goOn({ name, session, terms, step, total, outcome }) {
    const turn = { type: "fork", request: { session: name }, observation: null, reward: null, done: false, ...outcome, step, total, view: null };
    this.set({ turns: [turn] });
    try {
      await this.session.adopt(session, terms);
    } catch (error) {
      this.set({ error });
      return;
    }
    await this.lookAt(turn);
    await this.listTools();
  }

  /** Repeat an episode on record up to a step in the page's own session, to go on from there. */
  async replay(episode, step) {
    const origin = { episode, step, differing: null, recorded: null };
    this.set({ busy: "replay", since: performance.now(), error: null, origin });
    const turns = [];
    let next = 0;
    try {
      origin.recorded = (await getJson(episodePath(episode))).episode;
      for (let start = 0; start <= step; start += RANGE) {
        const entries = await getJson(`${episodePath(episode)}/entries?start=${start}&stop=${Math.min(step + 1, start + RANGE)}`);
        for (const [at, entry] of entries.entries()) {
          next = start + at;
          const turn = await this.repeat(entry);
          if (turn !== null) turns.push(turn);
          if (origin.differing === null && !isRepeated(entry, turn)) origin.differing = start + at;
        }
        if (entries.length < RANGE) break;
      }
      this.set({ busy: null, turns, cursor: null });
    } catch (error) {
      const of = origin.recorded === null ? "" : ` of ${origin.recorded.environment} ${origin.recorded.version ?? ""}`.trimEnd();
      const message = `${next === 0 ? "The reset" : `Step ${next}`} of ${episode}, an episode${of}, can't be repeated here: ${error.message}`;
      this.set({ busy: null, error: { message }, origin: null });
      return;
    }
    if (turns.length === 0) return;
    await this.lookAt(this.last);
    await this.listTools();
  }

  /** Repeat a request on record; null where it is answered with an error, as it was then. */
  async repeat({ kind, request, failed }) {
    if (request === null || typeof request !== "object") throw new Error("The episode can't be repeated: a request of it is not on record.");
    const started = performance.now();
    const { episode_id: name, ...others } = request;
    const sent = kind === "reset" && MADE_ID.test(name) ? others : request;
    try {
      const answer = await this.session.request(kind, sent);
      return { type: kind, request: sent, ...answer, tookMs: performance.now() - started, view: null, isLarge: this.session.received > MOST_RENDERED };
    } catch (error) {
      if (failed && error instanceof RequestError) return null;
      throw error;
    }
  }

  /** Number of steps of the episode before the page had it. */
  get earlier() {
    return this.turns[0]?.step ?? 0;
  }

  /** Ask the environment what it shows of a turn, and for its state; neither is part of the episode. */
  async lookAt(turn) {
    const observation = { ...turn.observation, reward: turn.reward, done: turn.done };
    try {
      turn.view = await this.session.request("render", turn.observation === null || turn.isLarge ? undefined : { observation });
    } catch (error) {
      turn.view = { problem: error.message };
    }
    try {
      turn.state = await this.session.request("state");
    } catch (error) {
      turn.state = { problem: error.message };
    }
    this.onChange();
  }

  async listTools() {
    if (!this.mayHaveTools || !refusesListing(this.schemas.action)) return;
    try {
      const { observation } = await this.session.request("step", LIST_TOOLS);
      this.set({ tools: (observation.tools ?? []).map(toolKind) });
    } catch {
      this.set({ tools: [] });
    }
  }

  /** Show what a person has to change before an action is sent. */
  refuse(errors) {
    this.set({ error: { message: errors[0].msg, errors } });
  }

  go(cursor) {
    const last = this.turns.length - 1;
    const bounded = Math.max(0, Math.min(cursor, last));
    this.set({ cursor: bounded === last ? null : bounded });
  }

  back() {
    this.go((this.cursor ?? this.turns.length - 1) - 1);
  }

  forth() {
    this.go((this.cursor ?? this.turns.length - 1) + 1);
  }
}

/** Whether a request was answered as it is on record; of answers whose record lacks fields, nothing is known. */
function isRepeated({ answer, failed, left_out: lacking }, turn) {
  if (failed || turn === null) return failed && turn === null;
  const compared = ({ observation, reward = null, done = false }) => JSON.stringify([observation, reward, done]);
  return lacking.length > 0 || compared(answer) === compared(turn);
}
