"use strict";
// The cases as a list, where few columns are left or the page is narrow: what fails, in which
// precision, with which error, since when, and what was measured to help.
const List = (() => {
  // Messages that differ in the dtype alone say the same.
  const DTYPE = /(?:struct )?(?:c10::|at::|torch\.)?(?:BFloat16|Half|Float16)/gi;

  // The releases in which a row fails, as runs of neighbours. What was not measured ends no run.
  const runsOf = (book, track, precision) => {
    const runs = [];
    let open = null;
    book.columns.forEach((column, at) => {
      if (column.source !== "release" || track.cells[at] < 0) return;
      const { mark } = book.told[book.stacks[track.cells[at]][precision]];
      if (Book.FAILS.has(mark)) {
        if (!open) runs.push(open = { first: column.name, columns: [], next: "" });
        open.last = column.name;
        open.columns.push(at);
      } else if (Book.PASSES.has(mark) && open) {
        open.next = column.name;
        open = null;
      }
    });
    return runs;
  };
  const saysRun = ({ first, last, next }) => {
    if (!next) return `since ${first}`;
    return `${first === last ? first : `${first} to ${last}`}, fixed in ${next}`;
  };

  // What a row says of one precision: the newest failure that is looked at, or else the newest cell.
  const lineOf = (book, entry, track, precision, columns) => {
    const toldAt = (of, at) => book.told[book.stacks[of.cells[at]][precision]];
    const having = columns.filter((at) => track.cells[at] >= 0);
    const failing = having.filter((at) => Book.FAILS.has(toldAt(track, at).mark));
    const at = (failing.length ? failing : having).at(-1);
    if (at === undefined) return null;
    const told = toldAt(track, at);
    const fails = failing.length > 0;
    const runs = fails ? runsOf(book, track, precision).filter((run) => run.columns.some((one) => columns.includes(one))) : [];
    const helps = (of) => fails && of.workaround && of.device === track.device && !entry.ways[of.workaround].skips && of.cells[at] >= 0 && Book.PASSES.has(toldAt(of, at).mark);
    return { at, told, fails, where: runs.map(saysRun).join("; "), ways: entry.tracks.filter(helps).map((of) => of.workaround) };
  };
  // Precisions of which the same is said stand together; what passes is left out beside what does not.
  const linesOf = (book, entry, track, { precisions, columns }) => {
    const every = precisions.map((precision) => ({ ...lineOf(book, entry, track, precision, columns), precision })).filter((line) => line.told);
    const groups = Map.groupBy(every, ({ told, where, ways }) => JSON.stringify([told.mark, told.text.replaceAll(DTYPE, ""), where, ways]));
    const lines = [...groups.values()].map((alike) => ({ ...alike[0], precisions: alike.map((line) => line.precision) }));
    const telling = lines.filter((line) => !Book.PASSES.has(line.told.mark) && line.told.mark !== "not-applicable");
    return telling.length ? telling : lines;
  };

  const FIRST = 20; // cases that are drawn unasked: all are as tall as eighty screens of a phone

  const create = (root, rest, book, on) => {
    let view = null;
    let isWhole = false;

    const drawLine = (entry, track, line) => {
      const { told, where, ways } = line;
      const names = line.precisions.map((at) => book.precisions[at]).join(", ");
      const device = view.scope.devices.size > 1 ? ` on ${track.device}` : "";
      const mark = element("i", { class: `mark ${told.style}`, "aria-hidden": "true" }, book.marks[told.mark].glyph);
      const links = ways.flatMap((way, at) => [at ? ", " : "", element("a", { href: `${entry.href}#${entry.ways[way].anchor}` }, way)]);
      const button = element("button", { type: "button", "aria-label": `Details of ${entry.name}, ${names}` }, "Details");
      const place = { case: entry.name, workaround: track.workaround, device: track.device, column: book.columns[line.at].name };
      button.addEventListener("click", () => on.open(JSON.stringify(view.at) === JSON.stringify(place) ? null : place));
      return element("li", {},
        element("b", {}, names + device),
        element("span", {}, mark, " ", told.text ? element("code", {}, told.text) : book.marks[told.mark].words),
        element("span", {}, where),
        element("span", {}, ...(ways.length ? ["Workarounds: ", ...links] : line.fails ? [element("span", { class: "quiet" }, "no workaround measured")] : [])),
        button);
    };
    const drawCase = (entry, track) => {
      const lines = linesOf(book, entry, track, view);
      if (!lines.length) return null;
      const badges = [...(entry.simulated ? ["simulated"] : []), ...entry.badges];
      const made = element("li", { class: "case" },
        element("div", {}, element("a", { href: entry.href }, entry.title), element("small", {}, element("code", {}, entry.name), " ", badges.join(", "))),
        element("ul", {}, ...lines.map((line) => drawLine(entry, track, line))));
      if (view.at?.case === entry.name && view.at.device === track.device) detail(made, entry, track);
      return made;
    };
    // The address of a cell names a release, or the line that is folded into one column.
    const detail = (made, entry, plain) => {
      const { at } = view;
      const track = entry.tracks.find((one) => one.workaround === at.workaround && one.device === plain.device) ?? plain;
      const columns = book.columns.flatMap((column, place) => (column.name === at.column || column.line === at.column ? [place] : []));
      if (!columns.some((column) => track.cells[column] >= 0)) return;
      made.append(element("div", { class: "detail" }, Detail.draw(book, { entry, track, place: { label: at.column, columns }, precisions: view.precisions }, () => on.open(null))));
    };
    const show = (next) => {
      view = { ...next, columns: Book.shown(book, next.scope, next.more), precisions: book.precisions.map((_, at) => at).filter((at) => next.scope.precisions[at]) };
      isWhole = false;
      draw();
    };
    const plainOf = (entry) => entry.tracks.filter((track) => !track.workaround && view.scope.devices.has(track.device));
    const draw = () => {
      const items = view.cases.flatMap((entry) => plainOf(entry).map((track) => drawCase(entry, track))).filter(Boolean);
      isWhole ||= items.slice(FIRST).some((item) => item.querySelector(".detail"));
      root.replaceChildren(...items.slice(0, isWhole ? Infinity : FIRST));
      rest.hidden = isWhole || items.length <= FIRST;
      rest.firstElementChild.textContent = `Show all ${items.length}`;
    };
    rest.addEventListener("click", () => { isWhole = true; draw(); });
    const openAt = (at) => {
      view.at = at;
      draw();
      root.querySelector(".detail")?.scrollIntoView({ block: "nearest" });
    };
    const tracks = () => view.cases.flatMap((entry) => entry.tracks.filter((track) => view.scope.devices.has(track.device) && (!track.workaround || view.ways)).map((track) => ({ entry, track })));

    return { show, openAt, tracks };
  };
  return { create };
})();
