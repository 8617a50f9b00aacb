// The style sheet of the pages other than the list of links; a page that imports this script is shown with it.

import { element } from "./dom.js";

await new Promise((resolve, reject) => {
  const onerror = () => reject(new Error("Its style sheet is missing."));
  document.head.append(element("link", { rel: "stylesheet", href: "pages.css", onload: resolve, onerror }));
});
