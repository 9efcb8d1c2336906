"use strict";
// One element with its attributes and children; a text is always a text, never markup.
const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
};
