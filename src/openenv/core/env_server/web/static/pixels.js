// Pictures that are rows of numbers: declared by the schema, or shown as a picture because a person wants to.
import { html, useEffect, useRef } from "./html.js";
import { resolve } from "./schema.js";

export const PIXELS = "pixels";
const DEPTHS = [3, 4];
const RASTER = /^image\/(?!svg)/;
const SMALL_PX = 256;

/** Whether the value is rows of pixels: of one, three or four numbers from 0 to 255, as far as the first ones show. */
export function isPixels(value) {
  const [first] = Array.isArray(value) && Array.isArray(value[0]) ? value[0] : [];
  const isByte = (number) => Number.isInteger(number) && number >= 0 && number <= 255;
  if (!Array.isArray(first)) return isByte(first) && value.length > 1;
  return DEPTHS.includes(first.length) && first.every(isByte);
}

/**
 * What the schema of an object says of the pictures in one of its fields.
 *
 * @returns {string | null} `PIXELS`, the media type of an image file in base64, or null.
 */
export function declaredPicture(schema, name, root) {
  const field = resolve(resolve(schema, root).properties?.[name], root);
  const said = [field, ...(field.anyOf ?? []).map((member) => resolve(member, root))];
  if (said.some((each) => each["x-array"]?.picture)) return PIXELS;
  return said.find((each) => each.contentEncoding === "base64" && RASTER.test(each.contentMediaType))?.contentMediaType ?? null;
}

/** Rows of pixels, enlarged where they are few. */
export function Pixels({ rows, alt }) {
  const canvas = useRef(null);
  const [height, width] = [rows.length, rows[0].length];
  useEffect(() => {
    const image = new ImageData(width, height);
    rows.forEach((row, y) => row.forEach((pixel, x) => image.data.set(colourOf(pixel), 4 * (y * width + x))));
    canvas.current.getContext("2d").putImageData(image, 0, 0);
  }, [rows]);
  const scale = Math.max(1, Math.floor(SMALL_PX / Math.max(width, height)));
  return html`<canvas class="picture pixels" ref=${canvas} width=${width} height=${height} style=${{ width: `${scale * width}px` }} role="img" aria-label=${alt} data-testid="pixels"></canvas>`;
}

function colourOf(pixel) {
  if (!Array.isArray(pixel)) return [pixel, pixel, pixel, 255];
  return pixel.length === 4 ? pixel : [...pixel, 255];
}
