"use strict";
// The first page: the address says what is looked at, everything else follows from it.
(() => {
  const book = Book.open(matrix);
  const at = (id) => document.getElementById(id);
  const help = at("help");
  let state = Address.read();
  let drawn = null;
  let shown = null; // the last query that could be read, compiled,
  let answered = ""; // and its text

  const go = (change, step = true) => {
    state = { ...state, ...change };
    Address.write(state, step);
    apply();
  };
  const table = Table.create(at("matrix"), book, {
    fold: (line) => {
      const open = new Set(state.open);
      if (!open.delete(line)) open.add(line);
      go({ open, at: null });
    },
    open: (where) => go({ at: where }),
  });
  const filters = Filters.create(at("filters"), book, {
    change: (q, step) => go({ q: q.trim(), at: q.trim() === state.q ? state.at : null }, step),
    ways: (ways) => go({ ways }),
    more: (more) => go({ more, at: null }),
  });

  const number = (value) => value.toLocaleString("en");
  const summary = (cases, scope) => {
    const found = Book.count(book, cases, scope);
    const counts = Object.entries(found.marks).filter(([, count]) => count).map(([mark, count]) =>
      element("li", { "data-mark": mark }, element("i", { class: `mark ${mark}`, "aria-hidden": "true" }, book.marks[mark].glyph), ` ${book.marks[mark].words} `, element("b", {}, number(count))));
    const flags = ["stale", "simulated"].filter((flag) => found[flag]).map((flag) => element("li", { "data-mark": flag }, element("span", { class: "badge" }, flag), " ", element("b", {}, number(found[flag]))));
    at("found").textContent = `${number(cases.length)} of ${number(book.cases.length)} cases, ${number(found.cells)} cells with their workarounds`;
    at("counts").replaceChildren(...counts, ...flags);
    for (const name of ["counts", "take"]) at(name).classList.remove("unasked");
    at("none").hidden = cases.length > 0;
  };

  // Who types words wants a case, not a table.
  const near = (compiled) => {
    const links = compiled.nearest.slice(0, 5).map((entry) => element("li", {}, element("a", { href: entry.href }, entry.title), " ", element("small", {}, entry.name)));
    at("near").replaceChildren(...links);
    at("near").hidden = !links.length;
  };

  // What a query that cannot be read leaves behind is no answer to it.
  const unanswered = () => {
    const last = answered ? `still that of ${answered}` : "every case";
    at("found").textContent = `This query cannot be read; the table shows ${last}.`;
    for (const name of ["counts", "take"]) at(name).classList.add("unasked");
    at("none").hidden = true;
  };

  // The address of a cell shows its column, whatever else is shown.
  const isAside = (where) => Boolean(where) && book.columns.some((column) => column.source !== "release" && column.name === where.column);

  const apply = () => {
    let compiled;
    let fault = null;
    try {
      compiled = Search.compile(state.q, book);
      filters.show(state, compiled);
    } catch (error) {
      if (!(error instanceof Query.Fault)) throw error;
      fault = error;
      filters.refuse(state.q, error);
      compiled = shown ?? Search.compile("", book); // there is a table although the address is wrong
    }
    if (!fault) answered = state.q;
    shown = compiled;
    const key = JSON.stringify([answered, Boolean(fault), [...state.open], state.ways, state.more]);
    if (drawn !== key) {
      const cases = book.cases.filter(compiled.holds);
      near(compiled);
      if (fault) unanswered();
      else summary(cases, compiled.scope);
      table.show({ cases, scope: compiled.scope, asked: compiled.asked, open: state.open, ways: state.ways, more: state.more || isAside(state.at), at: state.at });
      drawn = key;
    } else {
      table.openAt(state.at);
    }
  };

  addEventListener("hashchange", () => {
    if (Address.isAnchor()) return;
    state = Address.read();
    apply();
  });
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
    const rows = Rows.cells(book, table.tracks(), shown.scope);
    if (kind === "csv") save("rows.csv", "text/csv", Rows.csv(rows));
    else save("rows.json", "application/json", Rows.json(rows, answered));
  });

  Paste.attach(at("pasted"), at("answer"), known);
  apply();
  const wanted = state.at && document.querySelector(".cell.opened");
  if (wanted) wanted.scrollIntoView({ block: "center", inline: "center" });
})();
