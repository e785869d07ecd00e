// A list of rows of one height, of which only those that are seen are in the page.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { usePrinted } from "./printed.js";

const ROW_PX = 34;
const BESIDE_ROWS = 12;

/**
 * @param {(at: number) => object} row Draws a row.
 * @param {() => void} onEnd Called when the end is near.
 * @param {(first: number, last: number) => void} onRange Called with the rows that are drawn.
 * @param {number} selected The row to scroll to.
 * @param {boolean} follows Whether the list stays at its end as rows are added.
 */
export function Windowed({ count, row, onEnd, onRange, label, selected, follows }) {
  const box = useRef(null);
  const [scrolled, setScrolled] = useState(0); // null at the end that is followed, so that it isn't drawn twice
  const height = box.current?.clientHeight ?? 600;
  const top = scrolled ?? Math.max(0, count * ROW_PX - height);
  const isPrinted = usePrinted();
  const first = isPrinted ? 0 : Math.max(0, Math.floor(top / ROW_PX) - BESIDE_ROWS);
  const last = isPrinted ? count : Math.min(count, Math.ceil((top + height) / ROW_PX) + BESIDE_ROWS);
  useEffect(() => {
    onRange?.(first, last);
    if (last >= count) onEnd?.();
  }, [first, last, count]);
  useLayoutEffect(() => {
    if (follows) box.current.scrollTop = count * ROW_PX;
  }, [follows, count]);
  useEffect(() => {
    if (selected === undefined) return;
    const { scrollTop, clientHeight } = box.current;
    const at = selected * ROW_PX;
    if (at < scrollTop || at + ROW_PX > scrollTop + clientHeight) box.current.scrollTop = Math.max(0, at - clientHeight / 2);
  }, [selected]);
  const onScroll = ({ target: { scrollTop, scrollHeight, clientHeight } }) => {
    setScrolled(follows && scrollTop + clientHeight > scrollHeight - ROW_PX ? null : scrollTop);
  };
  const rows = [];
  for (let at = first; at < last; at += 1) rows.push(row(at));
  return html`<div class="windowed" style=${{ "--rows": `${count * ROW_PX}px` }} ref=${box} tabindex="0" role="group" aria-label=${label} onScroll=${onScroll}>
    <ol style=${{ height: `${count * ROW_PX}px`, "padding-top": `${first * ROW_PX}px` }}>${rows}</ol></div>`;
}
