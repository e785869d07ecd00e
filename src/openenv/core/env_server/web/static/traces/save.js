// Files to download: an episode, or all that a filter lets through.
import { request } from "../api.js";

/** Save what a path of the server answers with as a file of this name. */
export async function save(path, name) {
  const response = await request(path);
  const address = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
