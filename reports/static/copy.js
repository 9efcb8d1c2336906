"use strict";
// A button for each command that is worth pasting, and a link to each section at its heading.
const Copy = (() => {
  // Where a browser lets no page write to the clipboard, the text is selected for the reader's own keys.
  const select = (target) => {
    const range = document.createRange();
    range.selectNodeContents(target);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };
  const put = async (target) => {
    try {
      await navigator.clipboard.writeText(target.textContent.trim());
      return true;
    } catch {
      select(target);
      return document.execCommand("copy");
    }
  };

  const button = (target) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "copy";
    made.textContent = "Copy";
    made.setAttribute("aria-live", "polite");
    made.addEventListener("click", async () => {
      if (!(await put(target))) return;
      made.textContent = "Copied";
      setTimeout(() => { made.textContent = "Copy"; }, 2000);
    });
    return made;
  };

  const add = (target) => {
    const frame = document.createElement(target.matches("pre") ? "div" : "span");
    frame.className = "copyable";
    target.replaceWith(frame);
    frame.append(target, button(target));
  };

  const anchor = (heading) => {
    const id = heading.id || heading.parentElement.id;
    if (!id || heading.closest("summary") || heading.querySelector(".anchor")) return;
    const link = document.createElement("a");
    link.className = "anchor";
    link.href = `#${encodeURIComponent(id)}`;
    link.textContent = "#";
    link.setAttribute("aria-label", "Link to this section");
    heading.append(" ", link);
  };

  document.querySelectorAll("[data-copy]").forEach(add);
  document.querySelectorAll("h2[id]:not(.skip), h3[id], :is(section, article, div)[id] > :is(h2, h3):first-child:not(.skip)").forEach(anchor);
  return { button };
})();
