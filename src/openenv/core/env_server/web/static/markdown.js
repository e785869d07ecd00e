// A README's Markdown as elements: headings, paragraphs, lists, tables, code and links; HTML in it stays text.
import { html } from "./html.js";

// Each part has a longest length: what begins anywhere and ends nowhere, such as `[a](`, is looked through to there only.
const INLINE = /(`{1,4})(?!`)(.{1,2000}?)\1|\*\*(.{1,2000}?)\*\*|\*([^*\s][^*]{0,2000}?)\*|!?\[([^\]]{0,500})\]\(([^)\s]{1,2000})(?:\s[^)]{0,500})?\)|<(https?:\/\/[^>\s]{1,2000})>/g;
// Characters of a document that are shown; the page would freeze over the elements of more.
const MOST = 200_000;

/** @returns The elements of a document, without its front matter. */
export function markdown(text) {
  const lines = text.slice(0, MOST).replace(/^---\n[\s\S]*?\n---\n/, "").replaceAll("\r", "").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(lines, at);
    if (block !== null) blocks.push(block);
    at = next;
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  if (line.trim() === "" || line.startsWith("<!--")) return [null, at + 1];
  const fence = line.match(/^\s*(`{3,}|~{3,})/);
  if (fence) return codeAt(lines, at, fence[1]);
  const heading = line.match(/^(#{1,6})\s+([^]*)$/);
  if (heading) return [headingOf(heading[1].length, withoutEnd(heading[2])), at + 1];
  if (/^\s*([-*+]|\d+[.)])\s/.test(line)) return listAt(lines, at);
  if (line.includes("|") && /^[\s:|-]+$/.test(lines[at + 1] ?? "x") && lines[at + 1].includes("-")) return tableAt(lines, at);
  return paragraphAt(lines, at);
}

function headingOf(level, text) {
  const tag = `h${Math.min(level + 2, 6)}`; // below those of the page
  return html`<${tag}>${inline(text)}</${tag}>`;
}

/** A heading without the signs that may close it. */
function withoutEnd(text) {
  let end = text.trimEnd().length;
  while (text[end - 1] === "#") end -= 1;
  return text.slice(0, end).trimEnd();
}

function codeAt(lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(fence)) end += 1;
  return [html`<pre class="code" tabindex="0"><code>${lines.slice(at + 1, end).join("\n")}</code></pre>`, end + 1];
}

function listAt(lines, at) {
  const items = [];
  const ordered = /^\s*\d/.test(lines[at]);
  let end = at;
  for (; end < lines.length && lines[end].trim() !== ""; end += 1) {
    const item = lines[end].match(/^\s*(?:[-*+]|\d+[.)])\s+([^]*)$/);
    if (item) items.push(item[1]);
    else items[items.length - 1] += ` ${lines[end].trim()}`;
  }
  const tag = ordered ? "ol" : "ul";
  return [html`<${tag}>${items.map((item) => html`<li>${inline(item)}</li>`)}</${tag}>`, end];
}

function tableAt(lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const rows = lines.slice(at + 2, end).map(cells);
  return [
    html`<div class="scroll" tabindex="0"><table>
      <thead><tr>${cells(lines[at]).map((cell) => html`<th scope="col">${inline(cell)}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody>
    </table></div>`,
    end,
  ];
}

function paragraphAt(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].trim() !== "" && !/^(#{1,6}\s|\s*(```|~~~))/.test(lines[end])) end += 1;
  end = Math.max(end, at + 1);
  return [html`<p>${inline(lines.slice(at, end).join(" "))}</p>`, end];
}

function inline(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(from, match.index), inlineOf(match));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

function inlineOf([whole, , code, strong, emphasis, label, target, address]) {
  if (code !== undefined) return html`<code>${code}</code>`;
  if (strong !== undefined) return html`<strong>${inline(strong)}</strong>`;
  if (emphasis !== undefined) return html`<em>${inline(emphasis)}</em>`;
  if (address !== undefined) return link(address, address);
  if (whole.startsWith("!")) return label; // the page loads nothing from elsewhere
  return /^https?:\/\//.test(target) ? link(target, inline(label)) : inline(label);
}

function link(target, label) {
  return html`<a href=${target} target="_blank" rel="noopener noreferrer">${label}</a>`;
}
