// The list of episodes, by default newest first, read by pages.
import { getPatiently } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { number, taskOf, tone, when } from "../turns.js";
import { Windowed } from "../windowed.js";
import { addressOf, FLAGS, MOST_BESIDE, ORDERS, queryOf } from "./address.js";
import { Filters, Views } from "./filters.js";
import { LabelChip } from "./label.js";
import { Save } from "./save.js";

const PAGE = 100;
const TYPING_MS = 150;

export function List({ place, go, onLoadError, onProblem }) {
  const { found, count, more } = useEpisodes(place, onLoadError, onProblem);
  const [picked, setPicked] = useState([]);
  const toggle = (id) => setPicked(picked.includes(id) ? picked.filter((other) => other !== id) : [...picked, id].slice(-MOST_BESIDE));
  return html`<main class="traces" data-testid="traces" aria-busy=${found === null || found.isOld}>
    <h1 class="hidden">Traces</h1>
    <${Filters} place=${place} go=${go} />
    <section class="panel results" aria-label="Episodes">
      <header class="stage-head"><${Views} place=${place} go=${go} />
        <span role="status" data-testid="count">${count === null ? (found === null ? "" : "Counting") : `${count} episode${count === 1 ? "" : "s"}`}</span>
        <label class="by">Order <select data-testid="order" onChange=${(event) => go({ order: event.target.value }, true)}>${Object.entries(ORDERS).map(([name, label]) => html`<option value=${name} selected=${name === (place.order || "newest")}>${label}</option>`)}</select></label>
        <span class="downloads">${["messages", "json"].map((to) => html`<${Save} path=${`web/traces/export/${to}?${queryOf(place.filter)}`} name=${`episodes.${to}.jsonl`} disabled=${!found?.episodes.length}>Save all as ${to === "json" ? "JSON" : to}</${Save}>`)}</span>
        <button type="button" class="secondary" disabled=${picked.length < 2} onClick=${() => go({ ids: picked })}>${picked.length ? `Compare ${picked.join(", ")}` : `Compare 2 to ${MOST_BESIDE}`}</button></header>
      ${found?.episodes.length === 0 && html`<p class="note empty">No episode matches.</p>`}
      ${found?.episodes.length > 0 && html`
        <div class="row-head" aria-hidden="true"><span></span><span>Episode</span><span>Environment</span><span>Task</span><span>Began</span><span>Steps</span><span>${place.filter.component || "Reward"}</span><span>Ending</span><span>Flags</span></div>
        <${Windowed} count=${found.episodes.length} onEnd=${more} label="Episodes" row=${(at) => html`<${EpisodeRow} key=${found.episodes[at].id} episode=${found.episodes[at]} picked=${picked} toggle=${toggle} place=${place} go=${go} />`} />`}
    </section>
  </main>`;
}

/** The pages of episodes that were read, and how many there are, which comes later. */
function useEpisodes({ filter, order }, onLoadError, onProblem) {
  const [found, setFound] = useState(null);
  const [count, setCount] = useState(null);
  const current = useRef(null); // ends what is fetched for the query
  const loading = useRef(null);
  const query = queryOf(filter);
  const listed = queryOf({ ...filter, order });
  const get = (path) => getPatiently(path, current.current.signal, onProblem);
  const page = (after) => get(`web/traces/episodes?${[listed, queryOf({ after, limit: PAGE })].filter(Boolean).join("&")}`);
  const begin = async () => {
    setCount(null);
    const episodes = await page();
    setFound({ episodes, complete: episodes.length < PAGE, isOld: false });
    // Of a short page it is known, and not counted again.
    setCount(episodes.length < PAGE ? episodes.length : await get(`web/traces/count?${query}`));
  };
  useEffect(() => {
    current.current = new AbortController();
    setFound((old) => old && { ...old, isOld: true });
    const timer = setTimeout(() => begin().catch(onLoadError), found === null ? 0 : TYPING_MS);
    return () => {
      clearTimeout(timer);
      current.current.abort();
    };
  }, [listed]);
  const more = async () => {
    if (loading.current === found || found.complete || found.isOld) return;
    loading.current = found;
    const next = await page(found.episodes[found.episodes.length - 1].id);
    setFound((shown) => (shown === found ? { ...found, episodes: [...found.episodes, ...next], complete: next.length < PAGE } : shown));
  };
  return { found, count, more: () => more().catch(onLoadError) };
}

function EpisodeRow({ episode, picked, toggle, place, go }) {
  const reward = episode.component ?? episode.reward;
  const open = (event) => {
    event.preventDefault();
    go({ ids: [episode.id] });
  };
  return html`<li class="episode" data-testid="episode">
    <input type="checkbox" aria-label=${`Compare ${episode.id}`} checked=${picked.includes(episode.id)} onChange=${() => toggle(episode.id)} />
    <a href=${addressOf({ ...place, ids: [episode.id] })} onClick=${open}>${episode.id}</a>
    <span>${episode.environment}</span><span class="clip">${taskOf(episode)}</span><span>${episode.started_at > 0 ? when(episode.started_at) : ""}</span>
    <span class="figure">${episode.steps}</span><span class="figure ${tone(reward)}">${reward === null ? "" : number(reward)}</span>
    <span>${episode.ending}</span><span class="clip"><${LabelChip} ...${episode} />${flagsOf(episode).map(({ text, title, bad }) => html`<span class=${bad ? "chip bad" : "chip"} title=${title}>${text}</span>`)}</span></li>`;
}

/** What stands out about an episode, and the token of its client. */
function flagsOf({ flags, error, token_name: token }) {
  const chips = flags.map((flag) => (flag === "error" ? { text: error, title: `Its last error: ${error}`, bad: true } : { text: FLAGS[flag].label, title: FLAGS[flag].title }));
  return token === null ? chips : [...chips, { text: token, title: `Its client showed the token ${token}.` }];
}
