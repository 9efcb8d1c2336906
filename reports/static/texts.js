"use strict";
// What words and pasted errors are compared with. Most visits ask nothing, so it is loaded with the
// first query, or as soon as somebody goes to the box.
const Texts = (() => {
  const FILES = ["data/about.js", "data/known.js", "data/pasted.js", "pep440.js", "pins.js"]; // each after those that it needs
  const added = (src) => new Promise((resolve, reject) => {
    const script = Object.assign(element("script", { src }), { async: false });
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${src} could not be loaded`)));
    document.head.append(script);
  });
  let asked = null;
  // A load that failed is tried again by the next query.
  const load = () => (asked ??= Promise.all(FILES.map(added)).catch((error) => { asked = null; throw error; }));
  // What is said of each case, and what compares errors.
  const given = (book) => {
    Book.tell(book, about);
    return Paste.create(known);
  };
  return { load, given };
})();
