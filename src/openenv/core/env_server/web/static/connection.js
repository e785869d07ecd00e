// One session of v1 on a socket, which is resumed when the socket breaks. docs/wire-v1.md has the protocol.
import { ROOT, subprotocols } from "./api.js";

const V1 = "openenv.v1";
const OPEN_WAIT_S = 3600;
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 5000;
const NOT_YET = new Set(["CAPACITY_REACHED", "RATE_LIMITED"]);

/** An error that the server answered with. */
export class RequestError extends Error {
  constructor(data) {
    super(data.message);
    this.code = data.code;
    this.errors = data.errors ?? [];
    this.data = data;
  }
}

/** A session: requests are carried out in order, each once. */
export class Session {
  /**
   * @param {(status: string) => void} onStatus Called with `connecting`, `waiting` (for a free slot), `open`,
   *   `reconnecting` and `lost`.
   */
  constructor(onStatus) {
    this.onStatus = onStatus;
    this.queue = Promise.resolve();
    this.resumed = Promise.resolve(); // while the session is resumed, only the request that was under way has an answer
    this.closed = false;
    this.forget();
  }

  forget() {
    this.id = null;
    this.terms = null;
    this.last = 0; // number of the last request
    this.answered = 0;
    this.waiter = null;
    this.socket = null;
    this.received = 0; // characters of the last frame
  }

  /** Send a request and return the answer's data. */
  request(type, data = undefined) {
    const turn = this.queue.then(() => this.exchange(type, data));
    this.queue = turn.catch(() => {});
    return turn;
  }

  /** Attach to a session that was opened for this page. */
  async adopt(id, terms) {
    Object.assign(this, { id, terms });
    this.onStatus("connecting");
    if (await this.attach() === "attached") return this.onStatus("open");
    this.lose();
    throw new Error("The fork ended before the page could attach to it. Fork the session again.");
  }

  /** End the session with the request that is under way. */
  abandon() {
    const { waiter } = this;
    this.lose();
    waiter?.reject(new Error("You cancelled the request, and the session has ended with it. Reset starts another one."));
  }

  close() {
    this.closed = true;
    this.socket?.close(1000);
  }

  async exchange(type, data) {
    await this.resumed;
    if (this.id === null) await this.open();
    this.last += 1;
    const message = { type, id: this.last, session: this.id };
    if (data !== undefined) message.data = data;
    const answer = this.answer(message);
    this.send(message);
    const received = await answer;
    this.answered = message.id;
    if (received.type === "error") this.fail(received.data);
    return received.data;
  }

  fail(data) {
    if (data.code === "SESSION_ERROR" && !data.reset_needed) this.lose();
    throw new RequestError(data);
  }

  lose() {
    const socket = this.socket;
    this.forget();
    socket?.close(1000);
    this.onStatus("lost");
  }

  answer(message) {
    return new Promise((resolve, reject) => {
      this.waiter = { message, resolve, reject };
    });
  }

  send(message) {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  async open() {
    this.onStatus("connecting");
    await this.connect();
    const waiting = setTimeout(() => this.onStatus("waiting"), 1000);
    try {
      const message = { type: "open", id: 1, data: { wait_s: OPEN_WAIT_S } };
      const answer = this.answer(message);
      this.send(message);
      const opened = await answer;
      if (opened.type === "error") throw new RequestError(opened.data);
      this.id = opened.session;
      this.terms = opened.data;
      this.onStatus("open");
    } catch (error) {
      this.forget();
      this.onStatus("lost");
      throw error;
    } finally {
      clearTimeout(waiting);
    }
  }

  connect(id = "") {
    const address = new URL("ws", ROOT);
    // With several workers, an id begins with its worker's number; the rest of its public name, and no more, goes along.
    if (id.includes(".")) address.search = new URLSearchParams({ session: id.slice(0, id.indexOf(".") + 14) });
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address, subprotocols(V1));
    this.socket = socket;
    return new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onmessage = (event) => {
        this.received = event.data.length;
        this.receive(JSON.parse(event.data));
      };
      socket.onclose = () => {
        reject(new Error("The server can't be reached."));
        if (socket === this.socket) this.interrupted();
      };
    });
  }

  receive(frame) {
    for (const message of Array.isArray(frame) ? frame : [frame]) {
      const waiter = this.waiter;
      if (waiter !== null && message.id === waiter.message.id) {
        this.waiter = null;
        waiter.resolve(message);
      }
    }
  }

  interrupted() {
    if (this.closed) return;
    if (this.id === null) {
      this.waiter?.reject(new Error("The server closed the connection."));
      return;
    }
    this.resumed = this.resume();
  }

  async resume() {
    this.onStatus("reconnecting");
    const until = Date.now() + 1000 * Math.max(this.terms.resume_window_s, 2);
    const pending = this.waiter;
    for (let pause = FIRST_RETRY_MS; Date.now() < until; pause = Math.min(2 * pause, LONGEST_RETRY_MS)) {
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
      const outcome = await this.attach();
      if (outcome === "attached") {
        this.onStatus("open");
        this.waiter = pending;
        if (pending !== null) this.send(pending.message);
        return;
      }
      if (outcome !== "later") break;
    }
    this.lose();
    pending?.reject(new Error("The session ended while the connection was gone. Reset starts another one."));
  }

  async attach() {
    const id = this.id;
    this.id = null; // a socket that breaks now is this loop's
    try {
      await this.connect(id);
      const data = { token: this.terms.token, answered: this.answered };
      const message = { type: "attach", id: 0, session: id, data };
      const answer = this.answer(message);
      this.send(message);
      const received = await answer;
      if (received.type === "attached") {
        this.terms = received.data;
        return "attached";
      }
      const { code, retry_after_s } = received.data;
      return NOT_YET.has(code) || retry_after_s !== undefined ? "later" : "lost";
    } catch {
      return "later";
    } finally {
      this.id = id;
    }
  }
}
