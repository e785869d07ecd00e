// Whether the page is being printed, which shows all that is scrolled to on a screen.
import { useEffect, useState } from "./html.js";

const PRINTED = { beforeprint: true, afterprint: false };

export function usePrinted() {
  const [isPrinted, setPrinted] = useState(false);
  useEffect(() => {
    const listener = ({ type }) => setPrinted(PRINTED[type]);
    Object.keys(PRINTED).forEach((type) => addEventListener(type, listener));
    return () => Object.keys(PRINTED).forEach((type) => removeEventListener(type, listener));
  }, []);
  return isPrinted;
}
