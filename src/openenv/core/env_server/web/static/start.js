import { retried } from "./retry.js";

retried(() => import("./app.js")).catch(({ message }) => {
  document.getElementById("app").append(`${message}. Reload the page to try again.`);
});
