"use strict";
// The data as the page uses it: rows written out, and what is known of a cell under its names.
const Book = (() => {
  const unfolded = (folded, length) => {
    const row = new Array(length).fill(-1);
    let at = 0;
    for (let i = 0; i < folded.length; i += 2) {
      row.fill(folded[i + 1], at, at + folded[i]);
      at += folded[i];
    }
    return row;
  };
  // Half a character, which an address cannot hold, is a question mark in the names of files too.
  const address = (name) => encodeURIComponent(name.replace(/\p{Surrogate}/gu, "?"));
  const unique = (names) => [...new Set(names)];
  const FAILS = new Set(["fails", "regressed", "changed"]);
  const PASSES = new Set(["passes", "fixed"]);

  // What this machine measured as it is published: the same cells, with a mark of their own.
  const mark = (cases, data, measured) => {
    const tracks = new Map(cases.flatMap((entry) => entry.tracks.map((track) => [[entry.name, track.workaround, track.device].join("\n"), track])));
    const marked = new Map();
    const told = (number) => {
      if (!marked.has(number)) marked.set(number, data.told.push(data.told[number].map((fact, i) => (i === 4 ? 1 : fact))) - 1);
      return marked.get(number);
    };
    const stacks = new Map();
    for (const [name, workaround, device, column, precisions] of measured) {
      const { cells } = tracks.get([name, workaround, device].join("\n"));
      const key = `${cells[column]} ${precisions}`;
      if (!stacks.has(key)) stacks.set(key, data.stacks.push(data.stacks[cells[column]].map((number, i) => (precisions & (1 << i) ? told(number) : number))) - 1);
      cells[column] = stacks.get(key);
    }
  };

  const open = (data, measured = []) => {
    const cases = data.cases.map((entry) => ({
      ...entry,
      // Addresses follow from names: written out they were 2 KB of what the first page loads.
      href: `case/${address(entry.name)}.html`,
      ways: Object.fromEntries(Object.entries(entry.ways).map(([name, way]) => [name, { ...way, anchor: address(`with-${name}`) }])),
      tracks: entry.tracks.map((track) => ({ ...track, cells: unfolded(track.stacks, data.columns.length) })),
    }));
    mark(cases, data, measured);
    const told = data.told.map(([mark, outcome, exercised, stale, here, repeats, text]) => ({
      mark, outcome, exercised, stale: Boolean(stale), here: Boolean(here), repeats, text, verdict: data.marks[mark].verdict,
      style: stale ? `${mark} stale` : mark,
    }));
    const book = { ...data, told, cases };
    book.waits = data.stacks.map((stack) => stack.some((number) => told[number].mark === "needs-gpu"));
    book.columns = data.columns.map((column) => ({ ...column, pins: column.packages.split(", ").map((pin) => pin.replace(" ", "==").toLowerCase()) }));
    for (const entry of book.cases) {
      let found = null;
      Object.defineProperty(entry, "haystack", { get: () => (found ??= haystack(entry, book)) });
    }
    book.lines = linesOf(book.columns);
    book.words = wordsOf(book);
    return book;
  };

  // What is said of each case, loaded when a query asks for it.
  const tell = (book, about) => {
    for (const entry of book.cases) entry.about = about[entry.name];
    book.index = null;
  };
  const haystack = (entry, book) => {
    const stacks = new Set(entry.tracks.flatMap((track) => track.stacks.filter((_, i) => i % 2)));
    // Why a case cannot run somewhere is no property of the bug: its versions would be found.
    const says = [...stacks].flatMap((stack) => (book.stacks[stack] ?? []).map((told) => book.told[told]));
    const texts = new Set(says.filter((told) => told.mark !== "not-applicable").map((told) => told.text));
    const ways = Object.entries(entry.ways).flatMap(([name, way]) => [name, way.says]);
    return [entry.name, entry.title, entry.area, ...entry.models, ...entry.packages, ...entry.badges, entry.about, ...ways, ...texts].join("\n").toLowerCase();
  };

  const linesOf = (columns) => {
    const lines = [];
    columns.forEach((column, place) => {
      const last = lines[lines.length - 1];
      if (last?.label === column.line) last.columns.push(place);
      else lines.push({ label: column.line, columns: [place] });
    });
    return lines;
  };

  const wordsOf = (book) => {
    const labels = book.lines.map((line) => line.label);
    const sorted = (pick) => unique(book.cases.flatMap(pick)).sort();
    return {
      fails: [...book.precisions, "any"],
      passes: [...book.precisions, "any"],
      precision: book.precisions,
      device: book.devices,
      verdict: Object.keys(book.verdicts),
      outcome: book.outcomes,
      is: Query.FLAGS,
      area: sorted((entry) => [entry.area]),
      model: sorted((entry) => [...entry.models, ...entry.shared]).filter((name) => name !== "any"),
      trigger: sorted((entry) => entry.trigger),
      symptom: [...sorted((entry) => entry.symptom), "silent"],
      scope: sorted((entry) => entry.scope),
      "at-fault": sorted((entry) => entry["at-fault"]),
      package: sorted((entry) => entry.packages),
      case: sorted((entry) => [entry.name]),
      workaround: ["none", "any", ...sorted((entry) => Object.keys(entry.ways))],
      with: unique(book.columns.flatMap((column) => column.pins)).filter(Boolean).sort(),
      release: unique([...book.columns.map((column) => column.name), ...labels]),
      since: unique(labels).filter(Query.version),
      until: unique(labels).filter(Query.version),
    };
  };

  // The newest release that is looked at, and whether a case fails on it.
  const newest = (book, scope) => {
    const at = book.columns.findLastIndex((column, place) => column.source === "release" && scope.columns[place]);
    const fails = (told, i) => scope.precisions[i] && FAILS.has(book.told[told].mark);
    const isOpen = (entry) => entry.tracks.some(({ workaround, device, cells }) => !workaround && scope.devices.has(device) && cells[at] >= 0 && book.stacks[cells[at]].some(fails));
    return { name: book.columns[at]?.name ?? "any release", isOpen };
  };

  // A row's numbers, written out when somebody asks.
  const numbers = (book, track, precision, column) => {
    const folded = track.numbers[precision];
    const number = folded ? unfolded(folded, book.columns.length)[column] : -1;
    return number < 0 ? "" : book.numbers[number];
  };

  // Pairs, stacks and main are few cells in many columns: they are shown to who asks for them, and
  // where there is nothing else.
  const shown = (book, scope, more) => {
    const columns = book.columns.map((_, at) => at).filter((at) => scope.columns[at]);
    const releases = columns.filter((at) => book.columns[at].source === "release");
    return more || !releases.length ? columns : releases;
  };

  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);
  const standing = (book, entry, column) => {
    const head = book.columns[column];
    return head.source === "release" || head.source === "main" ? head.name + entry.extras : head.name;
  };
  const command = (book, entry, track, column, precision) => {
    const words = ["--case", entry.name, "--release", standing(book, entry, column), "--precision", precision];
    if (track.workaround) words.push("--workaround", track.workaround);
    if (track.device === "cuda") words.push("--device", "cuda");
    return `nox -s matrix -- ${words.map(quoted).join(" ")} --rerun`;
  };

  // The cell that a link names, with the line to unfold, or why there is none. A link may name a
  // release as commands do, with the extras of the case.
  const locate = (book, { case: name, workaround, device, column }) => {
    const entry = book.cases.find((one) => one.name === name);
    if (!name || !device || !column) return { missing: "its address is not complete" };
    if (!entry) return { missing: `there is no case ${name}` };
    if (!entry.tracks.some((track) => track.workaround === workaround)) return { missing: `${name} has no workaround ${workaround}` };
    const track = entry.tracks.find((one) => one.workaround === workaround && one.device === device);
    if (!track) return { missing: `${name} was not measured on ${device}` };
    const at = book.columns.findIndex((one, place) => one.name === column || standing(book, entry, place) === column);
    const line = book.lines.find((one) => one.columns.includes(at) || one.label === column);
    if (!line) return { missing: `there is no release ${column}` };
    if (at >= 0 && track.cells[at] < 0) return { missing: `${name} has no cell in ${column}` };
    return { missing: "", line: at >= 0 ? line.label : "", column: at >= 0 ? book.columns[at].name : column };
  };

  return { FAILS, PASSES, open, tell, newest, shown, numbers, command, standing, locate };
})();

// What the table shows, as rows for programs and spreadsheets.
const Rows = (() => {
  const COLUMNS = ["case", "workaround", "release", "precision", "device", "outcome", "verdict", "error or reason", "exercised", "measured", "stale", "simulated", "repeats"];

  // A row per cell, as in cells.csv.gz: of the rows, columns and precisions that are looked at.
  const cells = (book, tracks, scope) => tracks.flatMap(({ entry, track }) => track.cells.flatMap((stack, column) => {
    if (stack < 0 || !scope.columns[column]) return [];
    return book.precisions.flatMap((precision, at) => {
      if (!scope.precisions[at]) return [];
      const told = book.told[book.stacks[stack][at]];
      const place = [entry.name, track.workaround, Book.standing(book, entry, column), precision, track.device];
      const measured = Book.numbers(book, track, precision, column);
      return [[...place, told.outcome, told.verdict, told.text, told.exercised, measured, told.stale, entry.simulated, told.repeats]];
    });
  }));

  // No spreadsheet takes a message for a formula.
  const field = (value) => {
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (rows) => [COLUMNS, ...rows].map((row) => `${row.map(field).join(",")}\n`).join("");
  const json = (rows, query) => JSON.stringify({ query, columns: COLUMNS, rows });

  return { cells, csv, json };
})();
