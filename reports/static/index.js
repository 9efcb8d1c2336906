"use strict";
// What is looked at, in the part of the address behind the #; an anchor of the page stays one.
const Address = (() => {
  const CELL = ["case", "workaround", "device", "column"]; // what a cell is named by, in this order

  const read = () => {
    const text = location.hash.slice(1);
    const found = new URLSearchParams(text.includes("=") ? text : "");
    const at = found.getAll("at");
    return {
      q: found.get("q") ?? "",
      open: new Set(found.getAll("open")),
      ways: found.get("ways") === "1",
      more: found.get("more") === "1",
      at: at.length ? Object.fromEntries(CELL.map((key, place) => [key, at[place] ?? ""])) : null,
    };
  };
  const LONGEST = 1500; // a pasted traceback is no address
  const isLong = (q) => q.length > LONGEST;
  const written = (state) => {
    const parts = new URLSearchParams();
    if (state.q && !isLong(state.q)) parts.set("q", state.q);
    for (const line of state.open) parts.append("open", line);
    if (state.ways) parts.set("ways", "1");
    if (state.more) parts.set("more", "1");
    if (state.at) for (const key of CELL) parts.append("at", state.at[key]);
    return parts.toString();
  };
  // A step can be gone back to; what is only typed on the way replaces the last one.
  const write = (state, step) => {
    const text = written(state);
    if (text === location.hash.slice(1)) return;
    const address = text ? `#${text}` : "#q=";
    if (step) location.hash = address;
    else location.replace(address);
  };
  const isAnchor = () => location.hash.length > 1 && !location.hash.includes("=");
  // Whether it says what is looked at already: a long text is not in it, and must not be lost.
  const says = (state) => location.hash.slice(1) === (written(state) || "q=");
  return { read, write, isLong, isAnchor, says };
})();

// The first page: the address says what is looked at, everything else follows from it.
(() => {
  const book = Book.open(matrix, measured);
  let errors = null; // what compares errors, once it is loaded
  const at = (id) => document.getElementById(id);
  const help = at("help");
  const narrow = matchMedia("(max-width: 640px)");
  const FEW = 3; // columns, and fewer are read as a list
  const OPENED = "#matrix:not([hidden]) .cell.opened, #list:not([hidden]) .detail";
  const NEAREST = 5; // cases that words lead to, above the table
  // A link to a cell unfolds its line, and reads a release as commands name it.
  const arrived = () => {
    const read = Address.read();
    const found = read.at && Book.locate(book, read.at);
    if (!found || found.missing) return read;
    const open = found.line ? new Set([...read.open, found.line]) : read.open;
    return { ...read, open, at: { ...read.at, column: found.column } };
  };
  let state = arrived();
  let drawn = null;
  let shown = null; // the last query that could be read, compiled,
  let answered = ""; // and its text
  let rows = null; // the table or the list, whichever shows them

  const go = (change, step = true) => {
    state = { ...state, ...change };
    Address.write(state, step);
    apply(step);
  };
  const table = Table.create(at("matrix"), book, {
    fold: (line) => {
      const open = new Set(state.open);
      if (!open.delete(line)) open.add(line);
      go({ open, at: null });
    },
    open: (where) => go({ at: where }),
  });
  const list = List.create(at("list"), at("rest"), book, { open: (where) => go({ at: where }) });
  const filters = Filters.create(at("filters"), book, {
    change: (q, step) => go({ q: q.trim(), at: q.trim() === state.q ? state.at : null }, step),
    ways: (ways) => go({ ways }),
    more: (more) => go({ more, at: null }),
  });

  // What is nearest to the words first; else what is open, and what is silent before what is seen.
  const ordered = (cases, { nearest, scope }) => {
    const { isOpen } = Book.newest(book, scope);
    const places = new Map(nearest.map((entry, place) => [entry, place]));
    const placeOf = (entry) => places.get(entry) ?? nearest.length;
    return cases.sort((a, b) => placeOf(a) - placeOf(b) || isOpen(b) - isOpen(a) || b.silent - a.silent);
  };
  const number = (value) => value.toLocaleString("en");
  const summary = (cases, { shares }) => {
    const shared = cases.filter(shares).length;
    at("found").textContent = `${number(cases.length)} of ${number(book.cases.length)} cases${shared ? `, ${number(shared)} by shared code` : ""}`;
    at("take").classList.remove("unasked");
    at("none").hidden = cases.length > 0;
  };
  const used = new Set(book.told.map(({ mark }) => mark));
  at("counts").append(...Object.entries(book.marks).filter(([mark]) => used.has(mark)).map(([mark, { glyph, words }]) => element("li", {}, element("i", { class: `mark ${mark}`, "aria-hidden": "true" }, glyph), ` ${words}`)));

  // Above the table stands what was asked for in words: cases, not cells.
  const answer = ({ error, failures, nearest, texts, pages, leads }, given) => {
    const versions = given?.alone ? given : null;
    const link = (entry) => element("li", {}, element("a", { href: entry.href }, entry.title), " ", element("small", {}, entry.name));
    const variants = Map.groupBy(nearest, (entry) => entry.name.replace(/\[.*/, ""));
    const words = [...variants.values()].slice(0, NEAREST).map(([first]) => link(first));
    const measured = !versions && (error || failures.length) ? Paste.answer(failures, errors.measured) : null;
    const says = [
      versions ? versions.says : measured ? measured.says : "",
      error && !failures.length && words.length && !versions ? "By its words:" : "",
      Address.isLong(state.q) ? "This text is too long for an address, so a link to this page does not hold it." : "",
    ].filter(Boolean).join(" ");
    const meant = error ? [] : Rank.meant(texts, book);
    const doors = [...(given ? [{ href: checked(given.pins), text: "Check my versions" }] : []), ...pages].map(({ href, text }) => element("p", {}, element("a", { href }, text)));
    const cases = element("ol", {}, ...(versions ? [] : failures.length ? measured.items.slice(0, NEAREST) : words));
    const parts = leads || versions ? [...doors, cases] : [cases, ...doors];
    at("answer").replaceChildren(...(says ? [element("p", {}, says)] : []), ...meant.map(suggestion), ...parts);
    at("answer").hidden = !at("answer").textContent;
  };
  // The versions in the lines of the box, and whether they are all that stands there.
  const DECIDING = new Set(["torch", ...book.cases.flatMap((entry) => entry.packages)]);
  const versionsIn = (text) => {
    if (!text.includes("\n")) return null;
    try {
      const found = Pins.read(text);
      const isKnown = (name) => DECIDING.has(name);
      const pins = [...[...found.pins].filter(([name]) => isKnown(name)), ...[...found.absent].filter(isKnown).map((name) => ["absent", name])];
      return { says: Pins.sentence(found, DECIDING), pins, alone: !errors.read(text).name };
    } catch (fault) {
      if (!(fault instanceof Pins.Fault)) throw fault;
      return fault.isFile && !errors.read(text).name ? { says: fault.message.replaceAll("`", ""), pins: [], alone: true } : null;
    }
  };
  const suggestion = ([word, near]) => {
    const at = state.q.indexOf(word);
    const q = state.q.slice(0, at) + near + state.q.slice(at + word.length);
    return element("p", {}, "Did you mean ", element("a", { href: `#${new URLSearchParams({ q })}` }, near), "?");
  };

  // The checker is opened at the versions that stand in the box, whatever else does.
  const check = document.querySelector(".doors [href^='check.html']");
  const checked = (pins) => `check.html${pins.length ? `#${new URLSearchParams(pins)}` : ""}`;
  const door = ({ tree, texts = [] }) => {
    const asked = new URLSearchParams();
    const terms = tree?.type === "and" ? tree.parts.filter((part) => part.type === "atom") : [];
    const pins = terms.filter((term) => term.key === "with").flatMap((term) => term.values.map((value) => value.split("==")));
    for (const pin of pins) asked.set(...pin);
    for (const term of terms) if (term.key === "release" && term.values.length === 1) asked.set("transformers", term.values[0]);
    for (const key of ["precision", "model", "trigger"]) {
      const known = new Set(book.words[key]);
      const [first] = [...terms.filter((term) => term.key === key).flatMap((term) => term.values), ...texts.map((text) => text.toLowerCase())].filter((word) => known.has(word));
      if (first && pins.length) asked.set(key, first);
    }
    if (check) check.href = checked([...asked]);
  };

  // What a query that cannot be read leaves behind is no answer to it.
  const unanswered = () => {
    const short = answered.length > 80 ? `${answered.slice(0, 80)}…` : answered;
    const last = short ? `still that of ${short}` : "every case";
    at("found").textContent = `This query cannot be read; the table shows ${last}.`;
    at("take").classList.add("unasked");
    at("none").hidden = true;
  };

  // The address of a cell shows its column, whatever else is shown.
  const isAside = (where) => Boolean(where) && book.columns.some((column) => column.source !== "release" && column.name === where.column);

  const isList = (scope) => narrow.matches || Book.shown(book, scope, state.more || isAside(state.at)).length <= FEW;
  const show = (compiled, cases) => {
    rows = isList(compiled.scope) ? list : table;
    at("list").hidden = rows !== list;
    at("matrix").hidden = rows !== table;
    at("rest").hidden = true;
    rows.show({ cases, isRanked: compiled.nearest.length > 0, scope: compiled.scope, asked: compiled.asked, open: state.open, ways: state.ways, more: state.more || isAside(state.at), at: state.at });
  };

  const load = (ended) => Texts.load().then(() => {
    errors ??= Texts.given(book);
    if (state.q) apply(ended);
  }).catch((error) => {
    at("found").textContent = `${error.message}, and no query can be answered without it: type it again, or load the page anew.`;
  });
  // `ended`: the text is whole, and not on the way to be.
  const apply = (ended = true) => {
    if (state.q && !errors) return load(ended);
    let compiled;
    let fault = null;
    try {
      compiled = Search.compile(state.q, book, errors);
      filters.show(state, compiled);
    } catch (error) {
      if (!(error instanceof Query.Fault)) throw error;
      fault = error;
      filters.refuse(state.q, error, ended);
      compiled = shown ?? Search.compile("", book, errors); // there is a table although the address is wrong
    }
    if (!fault) answered = state.q;
    shown = compiled;
    const key = JSON.stringify([answered, Boolean(fault), [...state.open], state.ways, state.more, narrow.matches]);
    if (drawn !== key) {
      const given = !fault && state.q ? versionsIn(state.q) : null;
      if (given?.alone) Object.assign(compiled, { nearest: [], holds: () => true });
      const cases = ordered(book.cases.filter(compiled.holds), compiled);
      if (!fault) answer(compiled, given);
      if (fault) unanswered();
      else summary(cases, compiled);
      show(compiled, cases);
      drawn = key;
    } else {
      rows.openAt(state.at);
    }
    door(fault ?? compiled);
    const lost = state.at && !document.querySelector(OPENED);
    const why = lost ? Book.locate(book, state.at).missing || "the query leaves it out" : "";
    at("lost").textContent = lost ? `The cell of this link is not shown: ${why}.` : "";
    at("lost").hidden = !lost;
  };

  addEventListener("hashchange", () => {
    if (Address.isAnchor() || Address.says(state)) return;
    state = arrived();
    apply();
  });
  narrow.addEventListener("change", () => apply());
  addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select");
    if (typing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "/") { event.preventDefault(); filters.focus(); }
    if (event.key === "?") { event.preventDefault(); help.showModal(); }
    if (event.key === "Escape" && state.at) go({ at: null });
  });
  at("ask").addEventListener("click", () => help.showModal());
  at("shut").addEventListener("click", () => help.close());
  at("fold").addEventListener("click", () => go({ open: state.open.size ? new Set() : new Set(book.lines.map((line) => line.label)), at: null }));
  at("keys").append(...Object.entries(Query.KEYS).map(([key, one]) => element("div", {}, element("dt", {}, element("code", {}, `${key}:`)), element("dd", {}, one.says))));

  at("take").addEventListener("click", (event) => {
    const kind = event.target.dataset.as;
    if (!kind || !shown) return;
    const cells = Rows.cells(book, rows.tracks(), shown.scope);
    if (kind === "csv") save("rows.csv", "text/csv", Rows.csv(cells));
    else save("rows.json", "application/json", Rows.json(cells, answered));
  });

  at("query").addEventListener("focus", () => { Texts.load().catch(() => null); }, { once: true });
  Promise.resolve(apply()).then(() => {
    const wanted = state.at && document.querySelector(OPENED);
    if (wanted) wanted.scrollIntoView({ block: "center", inline: "center" });
  });
})();
