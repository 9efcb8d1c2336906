"use strict";
// What every page has: elements, files to keep, a button for each command that is worth pasting, and
// a link to each section at its heading.

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

// A text as a file to keep, made in the page: nothing is asked from anywhere.
const save = (name, type, text) => {
  const href = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
};

const copyable = (() => {
  // Where a browser lets no page write to the clipboard, the text is selected for the reader's own keys.
  const put = async (target) => {
    try {
      await navigator.clipboard.writeText(target.textContent.trim());
      return true;
    } catch {
      getSelection().selectAllChildren(target);
      return document.execCommand("copy");
    }
  };

  const button = (target) => {
    const made = element("button", { type: "button", class: "copy", "aria-live": "polite" }, "Copy");
    made.addEventListener("click", async () => {
      if (!(await put(target))) return;
      made.textContent = "Copied";
      setTimeout(() => { made.textContent = "Copy"; }, 2000);
    });
    return made;
  };

  const add = (target) => {
    const frame = element(target.matches("pre") ? "div" : "span", { class: "copyable" });
    target.replaceWith(frame);
    frame.append(target, button(target));
    return frame;
  };

  const anchor = (heading) => {
    const id = heading.id || heading.parentElement.id;
    if (!id || heading.closest("summary") || heading.querySelector(".anchor")) return;
    heading.append(" ", element("a", { class: "anchor", href: `#${encodeURIComponent(id)}`, "aria-label": "Link to this section" }, "#"));
  };

  document.querySelectorAll("[data-copy]").forEach(add);
  document.querySelectorAll("h2[id]:not(.skip), h3[id], :is(section, article, div)[id] > :is(h2, h3):first-child:not(.skip)").forEach(anchor);
  return add;
})();
