import { imported } from "./retry.js";

imported(() => import("./app.js")).catch(({ message }) => {
  document.getElementById("app").append(`${message}. Reload the page to try again.`);
});
