"use strict";
// The search box with its filters: the text is the one truth, and what is chosen beside it is
// written into it.
const Filters = (() => {
  const LINES = 8; // of the box, when something long is pasted
  const TAKEN = 200000; // characters of a paste: the end of a log is where the error stands

  const quoted = (value) => (/[\s(),"]/.test(value) ? `"${value.replaceAll('"', "")}"` : value);

  const BESIDE = 200; // characters that are shown of a long query, around what is wrong in it

  // The terms of a key that hold for the whole query; others are somebody's own words.
  const termsOf = (tree, key) => (tree.type === "and" ? tree.parts.filter((part) => part.type === "atom" && part.key === key) : []);

  // A term goes with the parentheses that held nothing else.
  const without = (text, { start, end }) => {
    const before = text.slice(0, start).trimEnd();
    const after = text.slice(end).trimStart();
    if (before.endsWith("(") && after.startsWith(")")) return without(text, { start: before.length - 1, end: text.length - after.length + 1 });
    return text.slice(0, start) + text.slice(end);
  };

  const create = (form, book, on) => {
    const box = form.querySelector("#query");
    const fault = form.querySelector("#fault");
    const ways = document.getElementById("ways");
    const more = document.getElementById("more");
    const selects = new Map();
    let tree = { type: "and", parts: [] };
    let waiting = 0;
    let left = 0; // characters of a paste that were not taken

    // They stand in the page already, so that nothing moves when they are filled.
    for (const select of form.querySelectorAll(".choices select")) {
      const key = select.dataset.key;
      const titles = key === "verdict" ? book.verdicts : {};
      const first = select.options[0].text; // what is shown where nothing is chosen
      select.append(...book.words[key].filter((name) => name !== first).map((name) => element("option", { value: name }, titles[name] ?? name)));
      select.addEventListener("change", () => { put(key, select.value); });
      selects.set(key, select);
    }

    const put = (key, value) => {
      const [old, ...others] = termsOf(tree, key);
      const text = box.value;
      const { error } = Paste.split(text);
      const term = value ? `${key}:${quoted(value)}` : "";
      let next = text;
      for (const one of [...others].reverse()) next = without(next, one);
      if (old) next = term ? next.slice(0, old.start) + term + next.slice(old.end) : without(next, old);
      else if (term && error) next = `${text.trimEnd()}\n${term}`;
      else if (term) next = tree.type === "or" ? `(${text}) ${term}` : `${text} ${term}`;
      set(error ? next.trim() : next.replace(/\s+/g, " ").trim());
      on.change(box.value, true);
    };
    const set = (text) => {
      box.value = text;
      grow();
    };
    // One line, and as many as what is pasted needs.
    const grow = () => {
      box.rows = 1;
      if (box.value.length < 20 && !box.value.includes("\n")) return;
      const line = Number.parseFloat(getComputedStyle(box).lineHeight);
      box.rows = Math.max(1, Math.min(LINES, Math.floor(box.scrollHeight / line)));
    };

    box.addEventListener("paste", (event) => {
      const text = event.clipboardData?.getData("text") ?? "";
      if (text.length <= TAKEN) return;
      event.preventDefault(); // to lay out all of it takes seconds, and nothing else works meanwhile
      left = text.length - TAKEN;
      box.setRangeText(text.slice(-TAKEN), box.selectionStart, box.selectionEnd, "end");
      box.dispatchEvent(new Event("input"));
    });
    box.addEventListener("input", () => {
      if (box.value.length < TAKEN) left = 0;
      grow();
      clearTimeout(waiting);
      waiting = setTimeout(() => on.change(box.value, false), 80);
    });
    const commit = () => {
      clearTimeout(waiting);
      on.change(box.value, true);
    };
    box.addEventListener("change", commit);
    box.addEventListener("keydown", (event) => {
      const isLine = !box.value.includes("\n"); // else Enter begins a line
      if (event.key === "Enter" && !event.shiftKey && isLine) { event.preventDefault(); commit(); }
    });
    form.querySelector("#clear").addEventListener("click", () => { set(""); on.change("", true); box.focus(); });
    ways.addEventListener("change", () => on.ways(ways.checked));
    more.addEventListener("change", () => on.more(more.checked));

    // What was understood ---------------------------------------------------------------------
    const show = (state, compiled) => {
      // A box that lost its last empty line would move what is clicked just then.
      if (box.value.trim() !== state.q && document.activeElement !== box) set(state.q);
      ways.checked = state.ways;
      more.checked = state.more;
      box.removeAttribute("aria-invalid");
      fault.replaceChildren(...(left ? [element("p", {}, `Only the end of this text was taken, where an error stands: ${TAKEN.toLocaleString("en")} of ${(TAKEN + left).toLocaleString("en")} characters.`)] : []));
      mirror(compiled.tree);
    };
    const mirror = (read) => {
      tree = read;
      for (const [key, select] of selects) {
        const terms = termsOf(tree, key);
        const value = terms.length === 1 && terms[0].values.length === 1 ? terms[0].values[0] : "";
        const known = [...select.options].find((option) => option.value.toLowerCase() === value);
        select.value = known ? known.value : "";
      }
    };
    // Somebody is still at the words that the fault is in: nothing turns red, nothing moves.
    const isTyping = (text, error) => document.activeElement === box && (error.open || !/\s/.test(text.slice(error.start, box.selectionStart)));
    const refuse = (text, error, ended) => {
      if (error.tree) mirror(error.tree);
      else tree = { type: "and", parts: [] };
      if (document.activeElement !== box) set(text);
      box.removeAttribute("aria-invalid");
      fault.replaceChildren();
      if (!ended && isTyping(text, error)) return;
      box.setAttribute("aria-invalid", "true");
      const cut = (part, size) => (part.length <= Math.abs(size) ? part : size > 0 ? `${part.slice(0, size)}…` : `…${part.slice(size)}`);
      const wrong = element("mark", {}, cut(text.slice(error.start, error.end), BESIDE) || " ");
      fault.replaceChildren(
        element("pre", {}, cut(text.slice(0, error.start), -BESIDE), wrong, cut(text.slice(error.end), BESIDE)),
        element("p", {}, `At character ${error.start + 1}: ${error.message.replace(/\S{80,}/g, (word) => cut(word, 60))}`),
      );
    };
    return { show, refuse, focus: () => { box.focus(); box.select(); } };
  };
  return { create };
})();
