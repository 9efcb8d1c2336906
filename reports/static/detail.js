"use strict";
// What a cell says when it is opened: every release in it, every precision, and how to repeat it.
const Detail = (() => {
  const toldAt = (book, track, column, precision) => book.told[book.stacks[track.cells[column]][precision]];
  const flags = (told) => [
    told.exercised === "no" ? "not exercised" : "",
    told.stale ? "stale" : "",
    told.here ? "measured here" : "",
    told.repeats ? `unstable in ${told.repeats} runs` : "",
  ].filter(Boolean);

  const having = ({ track, place }) => place.columns.filter((column) => track.cells[column] >= 0);

  const sentence = (book, asked) => {
    const lines = asked.precisions.map((precision) => {
      const runs = Map.groupBy(having(asked), (column) => {
        const told = toldAt(book, asked.track, column, precision);
        const text = [told.outcome.replaceAll("-", " "), ...flags(told)].join(", ") + (told.text ? `: ${told.text}` : "");
        return `${text} (${book.verdicts[told.verdict]})`;
      });
      const parts = [...runs].map(([text, columns]) => (runs.size > 1 ? `${columns.map((column) => book.columns[column].name).join(", ")} ${text}` : text));
      return `${book.precisions[precision]} on ${asked.place.label}: ${parts.join("; ")}`;
    });
    return lines.join("\n");
  };

  // Neighbours of which every precision says and measured the same stand together.
  const runs = (book, asked) => {
    const found = [];
    for (const column of having(asked)) {
      const numbers = asked.precisions.map((precision) => Book.numbers(book, asked.track, book.precisions[precision], column));
      const key = [asked.track.cells[column], ...numbers].join("\n");
      const last = found[found.length - 1];
      if (last?.key === key) last.columns.push(column);
      else found.push({ key, numbers, columns: [column] });
    }
    return found;
  };

  const mark = (book, told) => element("i", { class: `mark ${told.style}`, "aria-hidden": "true" }, book.marks[told.mark].glyph);
  const line = (book, asked, run, precision, place) => {
    const { entry, track } = asked;
    const newest = run.columns[run.columns.length - 1];
    const told = toldAt(book, track, newest, precision);
    const outcome = element("td", {}, mark(book, told), ` ${told.outcome.replaceAll("-", " ")}`, ...flags(told).map((flag) => element("span", { class: "badge" }, flag)));
    const exercised = told.exercised === "" ? "not asked" : told.exercised;
    const cells = [
      element("th", { role: "rowheader", scope: "row" }, book.precisions[precision]),
      outcome,
      element("td", {}, element("span", { class: `v-${told.verdict}` }, book.verdicts[told.verdict])),
      element("td", {}, told.text ? element("code", {}, told.text) : ""),
      element("td", {}, exercised),
      element("td", {}, run.numbers[place]),
      element("td", {}, element("code", { class: "repeat" }, Book.command(book, entry, track, newest, book.precisions[precision]))),
    ];
    // Where there is no room for columns, each cell stands under the one before and names its own.
    cells.slice(1).forEach((cell, at) => { cell.dataset.head = HEADS[at + 1]; cell.setAttribute("role", "cell"); });
    return element("tr", { role: "row" }, ...cells);
  };

  const HEADS = ["precision", "outcome", "verdict", "error or reason", "exercised", "measured", "repeat it"];
  const block = (book, asked, run) => {
    const names = run.columns.map((column) => book.columns[column].name);
    const newest = run.columns[run.columns.length - 1];
    const link = element("a", { href: `${asked.entry.href}#${encodeURIComponent(Book.standing(book, asked.entry, newest))}` }, names.length > 1 ? `${names[0]} to ${names[names.length - 1]}` : names[0]);
    const which = names.length > 1 ? `${names[names.length - 1]} with ` : "";
    const packages = element("small", {}, ` ${which}${book.columns[newest].packages}`);
    const body = asked.precisions.map((precision, place) => line(book, asked, run, precision, place));
    return element("div", { class: "wide" }, element("h4", {}, link, packages),
      element("table", { class: "data", role: "table" },
        element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...HEADS.map((text) => element("th", { role: "columnheader", scope: "col" }, text)))),
        element("tbody", { role: "rowgroup" }, ...body)));
  };

  // The form of the repository, filled in; nothing where the site does not know its repository.
  const report = (book, { entry, track, place, precisions }) => {
    const form = document.getElementById("wrong-cell");
    if (!form) return [];
    const release = place.columns.map((column) => book.columns[column].name).join(", ");
    const address = new URL(form.href);
    const fields = { title: `Wrong cell: ${entry.name} on ${release}`, case: entry.name, release, precision: precisions.map((precision) => book.precisions[precision]).join(", "), workaround: track.workaround };
    for (const [key, value] of Object.entries(fields)) if (value) address.searchParams.set(key, value);
    return [" · ", element("a", { href: address.href, rel: "noreferrer" }, "Report a wrong cell")];
  };

  const draw = (book, asked, close) => {
    const { entry, track, place } = asked;
    const button = element("button", { type: "button", class: "close", title: "Close (Esc)" }, "Close");
    button.addEventListener("click", close);
    const title = element("h3", {}, element("a", { href: entry.href }, entry.name), track.workaround ? ` with ${track.workaround}` : "", ` on ${place.label}`, book.devices.length > 1 ? `, ${track.device}` : "");
    const way = track.workaround ? entry.ways[track.workaround] : { says: entry.title };
    const links = element("p", { class: "quiet" }, element("a", { href: `${entry.href}#workarounds` }, "What to do"), " · ", element("a", { href: `${entry.href}#ranges` }, "where it fails"), " · ", element("a", { href: `${entry.href}#failures` }, "messages and tracebacks"), ...report(book, asked));
    return element("div", { class: "inside" }, button, title, element("p", {}, way.says), way.snippet ? copyable(element("pre", {}, way.snippet)) : "", ...runs(book, asked).map((run) => block(book, asked, run)).reverse(), links);
  };

  // What a cell is called: its column, and what each precision did in it.
  const name = (book, asked) => {
    const groups = Map.groupBy(asked.precisions, (precision) => {
      const outcomes = new Set(having(asked).map((column) => toldAt(book, asked.track, column, precision).outcome.replaceAll("-", " ")));
      return [...outcomes].join(" or ");
    });
    return `${asked.place.label}: ${[...groups].map(([said, some]) => `${some.map((at) => book.precisions[at]).join(", ")} ${said}`).join("; ")}`;
  };

  return { draw, sentence, name };
})();
