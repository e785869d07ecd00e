// Runs in every page before the page's own scripts. The environment reaches what is here as `openenv`.
//
// A page has a clock of its own, which stands still but for `openenv.advance`: however fast or busy the machine is, the
// same actions meet the same page. Nothing else in a page is left to chance, either, once `Math.random` is seeded.
(() => {
  const START_MS = Date.UTC(2024, 0, 1);
  const FRAME_MS = 16;
  const realFrame = window.requestAnimationFrame.bind(window);

  class Clock {
    now = START_MS;
    timers = new Map();
    lastId = 0;

    add(call, wait, repeats) {
      const id = ++this.lastId;
      const delay = Math.max(1, Number(wait) || 0);
      this.timers.set(id, { at: this.now + delay, every: repeats ? delay : null, call });
      return id;
    }

    cancel(id) {
      this.timers.delete(id);
    }

    // The id of the timer that is due first, up to a time; of several at one time, the one set first.
    due(until) {
      let first = null;
      for (const [id, { at }] of this.timers)
        if (at <= until && (first === null || at < this.timers.get(first).at)) first = id;
      return first;
    }

    fire(id) {
      const timer = this.timers.get(id);
      this.now = timer.at;
      if (timer.every === null) this.timers.delete(id);
      else timer.at += timer.every;
      try {
        timer.call();
      } catch (error) {
        reportError(error);
      }
    }

    async advance(ms) {
      const until = this.now + ms;
      for (let id = this.due(until); id !== null; id = this.due(until)) {
        this.fire(id);
        await null; // what the callback promised comes before the next timer
      }
      this.now = until;
    }
  }

  const clock = new Clock();

  function replaceTime() {
    window.setTimeout = (call, wait, ...args) => clock.add(() => call(...args), wait, false);
    window.setInterval = (call, wait, ...args) => clock.add(() => call(...args), wait, true);
    window.requestAnimationFrame = (call) =>
      clock.add(() => call(clock.now - START_MS), FRAME_MS - (clock.now % FRAME_MS), false);
    window.requestIdleCallback = (call) =>
      clock.add(() => call({ didTimeout: false, timeRemaining: () => FRAME_MS }), 1, false);
    const cancel = (id) => clock.cancel(id);
    window.clearTimeout = window.clearInterval = cancel;
    window.cancelAnimationFrame = window.cancelIdleCallback = cancel;
    performance.now = () => clock.now - START_MS;
    window.Date = new Proxy(Date, {
      construct: (target, args, made) => Reflect.construct(target, args.length ? args : [clock.now], made),
      apply: (target) => new target(clock.now).toString(),
      get: (target, name) => (name === "now" ? () => clock.now : Reflect.get(target, name)),
    });
  }

  // Until a task seeds it: some pages draw numbers while they load.
  function replaceChance() {
    let state = 1;
    Math.random = () => {
      state = (state * 48271) % 2147483647;
      return state / 2147483647;
    };
  }

  // What the browser moves by itself, the blinking caret included.
  function stopAnimations() {
    const sheet = new CSSStyleSheet();
    const still = "animation: none !important; transition: none !important; caret-color: transparent !important;";
    sheet.replaceSync(`*, *::before, *::after { ${still} }`);
    document.adoptedStyleSheets = [sheet];
  }

  // A text that is being selected beyond the edge of its list would scroll the list for as long as that takes.
  function keepListsFromScrolling() {
    const scrolls = (element) => /auto|scroll/.test(getComputedStyle(element).overflow);
    document.addEventListener("selectstart", (event) => {
      let element = event.target instanceof Element ? event.target : event.target.parentElement;
      if (element === null || element.closest("input, textarea, [contenteditable]")) return;
      for (; element !== null; element = element.parentElement) if (scrolls(element)) event.preventDefault();
    });
  }

  // --- The task -----------------------------------------------------------------------------------------------------

  const ending = { done: false, rawReward: 0, reason: null };

  // What a page of MiniWoB shows to people beside the task: the goal, the time, former rewards, clicks.
  function removeDisplay() {
    core.clearTimer();
    document.body.removeEventListener("click", core.canvasDrawClick);
    for (const id of ["reward-display", "click-canvas", "sync-task-cover"]) document.getElementById(id)?.remove();
    document.getElementById("query").innerHTML = "";
  }

  function begin(seed) {
    Math.seedrandom(seed);
    core.startEpisodeReal();
    clearTimeout(core.EP_TIMER); // an episode has no time limit
    core.endEpisode = (reward, timeProportional, reason) => {
      if (!ending.done) Object.assign(ending, { done: true, rawReward: Number(reward), reason: reason ?? null });
    };
    const told = core.getUtterance();
    removeDisplay();
    return typeof told === "string" ? told : told.utterance;
  }

  // --- Elements -----------------------------------------------------------------------------------------------------

  const PLACES = [[0.5, 0.5], [0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.9]];
  const bids = new WeakMap();
  let elements = 0;
  let shapes = 0;

  // BrowserGym counts the elements of HTML alone. The shapes inside a drawing, which it leaves out, are s0, s1, ...
  function newBid(element) {
    return element.ownerSVGElement ? `s${shapes++}` : String(elements++);
  }

  // Give each new element its bid. A clone comes with the attribute of its original, hence the map.
  function mark() {
    for (const element of document.querySelectorAll("*")) {
      if (!bids.has(element)) bids.set(element, newBid(element));
      if (element.getAttribute("bid") !== bids.get(element)) element.setAttribute("bid", bids.get(element));
    }
  }

  function find(bid) {
    return document.querySelector(`[bid="${CSS.escape(bid)}"]`);
  }

  function isVisible(element) {
    const style = getComputedStyle(element);
    if (style.display === "none" || style.visibility !== "visible") return false;
    return [...element.getClientRects()].some((box) => box.width > 0 && box.height > 0);
  }

  function isEditable(element) {
    const field = element.matches("input, textarea, select");
    return field ? !element.readOnly : element.isContentEditable;
  }

  // Why an action can't be done to an element now, or null if it can. `needs` is "visible", "enabled" or "editable";
  // each of them needs what stands before it, too.
  function obstacle(bid, needs) {
    const element = find(bid);
    if (element === null) return `There is no element with bid ${JSON.stringify(bid)}.`;
    const name = `Element ${bid} (${element.localName})`;
    if (element.localName === "option") return `${name} belongs to a list: choose it with select_option on the list.`;
    if (!isVisible(element)) return `${name} is not visible.`;
    if (needs !== "visible" && element.matches(":disabled")) return `${name} is disabled.`;
    if (needs === "editable" && !isEditable(element)) return `${name} can't be edited.`;
    return null;
  }

  // What the mouse meets at a place inside an element, both as fractions of the element's first box.
  function meets(element, [right, down]) {
    const box = [...element.getClientRects()].find((one) => one.width > 0 && one.height > 0);
    const place = { x: box.x + box.width * right, y: box.y + box.height * down };
    return { ...place, hit: document.elementFromPoint(place.x, place.y) };
  }

  // A place where the mouse meets an element, its middle if possible, scrolled into view; or what keeps it away.
  function point(bid, needs) {
    const found = obstacle(bid, needs);
    if (found !== null) return { obstacle: found };
    const element = find(bid);
    element.scrollIntoViewIfNeeded();
    const tried = PLACES.map((place) => meets(element, place));
    const reached = tried.find(({ hit }) => element.contains(hit) || labelled(hit) === element);
    if (reached) return { x: reached.x, y: reached.y };
    const hit = tried[0].hit;
    const name = `Element ${bid} (${element.localName})`;
    if (hit === null) return { obstacle: `${name} is outside the window.` };
    return { obstacle: `${name} is covered by element ${bids.get(hit)} (${hit.localName}).` };
  }

  function labelled(element) {
    return element?.closest("label")?.control;
  }

  // Why these options can't be chosen in a list, or null if they can. An option goes by its value or by its text.
  function missingOption(bid, wanted) {
    const found = obstacle(bid, "enabled");
    if (found !== null) return found;
    const list = find(bid);
    if (list.localName !== "select") return `Element ${bid} (${list.localName}) is no list to select from.`;
    const offered = [...list.options];
    const known = (name) => offered.some((option) => option.value === name || option.label === name);
    const missing = wanted.find((name) => !known(name));
    if (missing === undefined) return null;
    const names = offered.slice(0, 50).map((option) => JSON.stringify(option.label)).join(", ");
    return `Element ${bid} has no option ${JSON.stringify(missing)}; it has ${names}.`;
  }

  // --- What is on the page ------------------------------------------------------------------------------------------

  const UNSEEN = new Set(["script", "style", "link", "meta", "noscript", "template"]);
  const WITHOUT_END = new Set(["br", "hr", "img", "input", "wbr"]);
  const escapeText = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  function openingTag(element) {
    const values = new Map([...element.attributes].map(({ name, value }) => [name, value]));
    if (element.matches("input, textarea, select")) values.set("value", element.value); // as it is, not as it was
    if (element.matches("input[type=checkbox], input[type=radio]"))
      element.checked ? values.set("checked", "") : values.delete("checked");
    const written = [...values].map(([name, value]) => ` ${name}="${escapeText(value).replaceAll('"', "&quot;")}"`);
    return `<${element.localName}${written.join("")}>`;
  }

  function* htmlLines(node, depth) {
    const indent = " ".repeat(depth);
    if (node.nodeType === Node.TEXT_NODE) {
      const text = node.data.replace(/\s+/g, " ").trim();
      if (text) yield indent + escapeText(text);
    } else if (node.nodeType === Node.ELEMENT_NODE && !UNSEEN.has(node.localName)) {
      yield indent + openingTag(node);
      if (WITHOUT_END.has(node.localName)) return;
      for (const child of node.childNodes) yield* htmlLines(child, depth + 1);
      yield `${indent}</${node.localName}>`;
    }
  }

  // The part of the window that shows something, from its upper left corner: a task fills a small part of it.
  function extent() {
    const boxes = [...document.body.children].flatMap((element) => [...shownBoxes(element)]);
    const reach = (side, window) => Math.ceil(Math.min(window, Math.max(1, ...boxes.map((box) => box[side]))));
    return { width: reach("right", innerWidth), height: reach("bottom", innerHeight) };
  }

  // The boxes of an element and of what is in it, but for what it cuts off.
  function* shownBoxes(element) {
    yield element.getBoundingClientRect();
    if (getComputedStyle(element).overflow === "visible")
      for (const child of element.children) yield* shownBoxes(child);
  }

  function read() {
    mark();
    const lines = [...document.body.childNodes].flatMap((child) => [...htmlLines(child, 0)]);
    return { ...ending, url: location.href, html: lines.join("\n") };
  }

  // Once two frames are drawn, what the browser does beside the page's scripts, such as scrolling, is done.
  function drawn() {
    return new Promise((resolve) => realFrame(() => realFrame(() => resolve(null))));
  }

  replaceTime();
  replaceChance();
  stopAnimations();
  keepListsFromScrolling();
  window.openenv = { advance: (ms) => clock.advance(ms), begin, drawn, extent, missingOption, obstacle, point, read };
})();
