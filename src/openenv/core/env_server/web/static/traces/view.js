// Episodes on record: as a list, as a grid of tasks by runs, or one to four of them step by step. The address says which.
import { getJson } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { here, moveTo } from "../saved.js";
import { addressOf, placeOf } from "./address.js";
import { Episodes } from "./episodes.js";
import { List } from "./list.js";

export function Traces({ config, onLoadError }) {
  const [place, setPlace] = useState(placeOf(here()));
  const [schema, setSchema] = useState(null);
  const [problem, setProblem] = useState(null); // of a request that is made again
  useEffect(() => {
    document.title = "Traces · OpenEnv";
    const listener = () => setPlace(placeOf(here()));
    addEventListener("popstate", listener);
    if (config.name !== null) getJson("schema").then(({ observation }) => setSchema(observation), () => {});
    return () => removeEventListener("popstate", listener);
  }, []);
  const go = (changes, replaces = false) => {
    const next = { ...place, ...changes };
    moveTo(addressOf(next), replaces);
    setPlace(next);
  };
  const props = { config, place, go, onLoadError, onProblem: setProblem };
  return html`${problem !== null && html`<p class="problem banner" role="alert">${problem}</p>`}<${viewOf(place)} key=${place.ids.join()} schema=${schema} ...${props} />`;
}

function viewOf({ ids, view }) {
  if (ids.length > 0) return Episodes;
  return view === "grid" ? LaterGrid : List;
}

/** The grid, which is loaded when it is shown. */
function LaterGrid(props) {
  const [Grid, setGrid] = useState(null);
  useEffect(() => {
    import("./grid.js").then((loaded) => setGrid(() => loaded.Grid), props.onLoadError);
  }, []);
  return Grid !== null && html`<${Grid} ...${props} />`;
}
