// The turns of an episode below each other, of which those around the one that is looked at are in the page.
import { html, useEffect, useLayoutEffect, useRef } from "../html.js";
import { usePrinted } from "../printed.js";
import { SAVED } from "../saved.js";

const BEFORE = 3;
const AFTER = 10;
// No more than the source of the entries keeps.
const MOST = 40;
// Time after a wheel, a finger or a key in which a scroll is by hand, and leads to the turn at the top.
const BY_HAND_MS = 400;
const SCROLLING_KEYS = ["PageUp", "PageDown", " "];

/**
 * @param {number} count Number of turns.
 * @param {number} at The turn that is looked at.
 * @param {(numbers: number[]) => void} onRange Called with the turns that are in the page, the first of them first in need.
 * @param {(at: number) => void} onScrolled Called with the turn that was scrolled to by hand.
 * @param {(at: number) => object} turn Draws a turn.
 */
export function Thread({ count, at, label, onRange, onScrolled, turn }) {
  const box = useRef(null);
  const scrolled = useRef({ byHand: -BY_HAND_MS, to: null });
  const range = useRef([0, 0]);
  range.current = rangeAt(at, count, range.current);
  // A file has all of them at hand, a server has them read as they are looked at.
  const [first, last] = usePrinted() && SAVED !== null ? [0, count] : range.current;
  const latest = useRef(at);
  latest.current = at;
  // Until a scroll by hand, the turn stays at the top while what is above it is read and drawn.
  const align = () => {
    if (box.current === null || scrolled.current.to === latest.current) return;
    const shown = box.current.querySelector(`[data-turn="${latest.current}"]`);
    if (shown) box.current.scrollTop += shown.getBoundingClientRect().top - box.current.getBoundingClientRect().top;
  };
  useEffect(() => {
    const observer = new ResizeObserver(align);
    observer.observe(box.current.firstChild);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    onRange([...numbers(at, last), ...numbers(first, at).reverse()]);
  }, [first, last, at]);
  useLayoutEffect(() => {
    if (scrolled.current.to !== at) scrolled.current.to = null;
    align();
  }, [at]);
  const byHand = (event) => {
    if (event.type !== "keydown" || SCROLLING_KEYS.includes(event.key)) scrolled.current.byHand = performance.now();
  };
  const onScroll = () => {
    if (performance.now() - scrolled.current.byHand > BY_HAND_MS) return;
    scrolled.current.to = topmost(box.current, at);
    if (scrolled.current.to !== at) onScrolled(scrolled.current.to);
  };
  return html`<div class="thread" ref=${box} tabindex="0" role="group" aria-label=${label} onScroll=${onScroll} onWheel=${byHand} onTouchMove=${byHand} onPointerDown=${byHand} onKeyDown=${byHand}>
    <div>${numbers(first, last).map((number) => html`<div class="turn" key=${number} data-turn=${number} data-current=${number === at}>${turn(number)}</div>`)}</div></div>`;
}

/** The turns that are in the page: those around one, and those from before as long as they join them. */
function rangeAt(at, count, [first, last]) {
  const near = [Math.max(0, at - BEFORE), Math.min(count, at + AFTER)];
  const all = [Math.min(first, near[0]), Math.min(count, Math.max(last, near[1]))];
  const joins = near[0] <= last && near[1] >= first && all[1] - all[0] <= MOST;
  return joins ? all : near;
}

function numbers(first, last) {
  return Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
}

/** The first turn of which more than the upper third of the box is filled; `at` where there is none. */
function topmost(box, at) {
  const { top, height } = box.getBoundingClientRect();
  const shown = [...box.firstChild.children].find((child) => child.getBoundingClientRect().bottom > top + height / 3);
  return shown === undefined ? at : Number(shown.dataset.turn);
}
