// Preact and htm, bound to each other; every module of the page takes them from here.
import { h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { render };
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/hooks.mjs";
export const html = htm.bind(h);
