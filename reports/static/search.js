"use strict";
// From a query's tree to the cases that it holds for, and the columns and precisions to look at.
// It knows the data and nothing of the page.
const Search = (() => {
  const { version, compare } = Query;
  // 5.0 names the whole line where it is an end: until:5.0 holds for 5.0.1.
  const within = (found, bound) => compare(found.slice(0, bound.length), bound) === 0;

  const columnHolds = (key, value, column) => {
    if (key === "with") return column.pins.some((pin) => Query.holds(pin, value));
    if (key === "release") return column.name.toLowerCase() === value || column.line.toLowerCase() === value;
    const found = version(column.name);
    const bound = version(value);
    if (!found) return false;
    if (key === "since") return compare(found, bound) >= 0;
    return compare(found, bound) <= 0 || within(found, bound);
  };

  const PASSES = new Set(["passes", "fixed"]);
  const cellHolds = (node, told, precision) => node.values.some((value) => {
    switch (node.key) {
      case "fails": return Book.FAILS.has(told.mark) && (value === "any" || value === precision);
      case "passes": return PASSES.has(told.mark) && (value === "any" || value === precision);
      case "verdict": return told.verdict === value;
      case "outcome": return told.outcome === value;
      case "is": return value === "stale" ? told.stale : told.mark === value || (value === "not-exercised" && told.exercised === "no");
      default: return told.text.toLowerCase().includes(value);
    }
  });
  const caseHolds = (node, entry) => node.values.some((value) => {
    const among = (names) => names.some((name) => name.toLowerCase() === value);
    switch (node.key) {
      case "model": return among(entry.models) || entry.models.includes("any");
      case "trigger": return among(entry.trigger);
      case "symptom": return value === "silent" ? entry.silent : among(entry.symptom);
      case "area": return among([entry.area]);
      case "package": return among(entry.packages);
      case "case": return entry.name.toLowerCase().includes(value);
      case "workaround": {
        const names = Object.keys(entry.ways);
        return value === "none" ? !names.length : value === "any" ? names.length > 0 : among(names);
      }
      default: return entry.haystack.includes(value);
    }
  });

  const everything = (book) => ({
    columns: book.columns.map(() => true),
    precisions: book.precisions.map(() => true),
    devices: new Set(book.devices),
  });
  const narrowed = (scope, node, wanted, book) => {
    const holds = (test) => node.values.some(test) === wanted;
    if (node.key === "precision") {
      return { ...scope, precisions: scope.precisions.map((on, i) => on && holds((value) => value === book.precisions[i])) };
    }
    if (node.key === "device") {
      return { ...scope, devices: new Set([...scope.devices].filter((device) => holds((value) => value === device))) };
    }
    // What has no version of its own, a stack, is neither since a release nor before it.
    const placed = (column) => node.key === "release" || node.key === "with" || version(column.name) !== null;
    return { ...scope, columns: scope.columns.map((on, i) => on && placed(book.columns[i]) && holds((value) => columnHolds(node.key, value, book.columns[i]))) };
  };

  // Where nothing is left to look at, every case would be missed without a word.
  const PARTS = { precision: ["precisions", "precision"], device: ["devices", "device"] };
  const sizeOf = (scope, part) => (part === "devices" ? scope.devices.size : scope[part].filter(Boolean).length);
  const refuseEmpty = (before, after, scopes, at) => {
    const partOf = (node) => PARTS[node.key] ?? ["columns", "release"];
    const { node } = scopes[at];
    const [part, noun] = partOf(node);
    if (sizeOf(after, part) || !sizeOf(before, part)) return;
    const termOf = (one) => `${one.wanted ? "" : "-"}${one.node.key}:${one.node.values.join(",")}`;
    const beside = scopes.slice(0, at).filter((one) => partOf(one.node)[0] === part).map(termOf);
    const where = beside.length ? ` beside ${beside.join(" ")}` : " in this table";
    throw new Query.Fault(`${termOf(scopes[at])} leaves no ${noun} to look at${where}.`, node.start, node.end);
  };
  const scoped = (scope, scopes, book) => scopes.reduce((before, { node, wanted }, at) => {
    const after = narrowed(before, node, wanted, book);
    refuseEmpty(before, after, scopes, at);
    return after;
  }, scope);

  const bare = (node) => (node.type === "not" ? { node: node.part, wanted: false } : { node, wanted: true });

  // What a stack shows is asked once for each of the few stacks that there are. That a part is
  // simulated is said of a case, and so of every cell that it has.
  const table = (node, scope, book) => {
    const plain = node.key === "fails" || node.key === "passes";
    const simulated = node.key === "is" && node.values.includes("simulated");
    const hits = book.stacks.map((stack) => stack.some((told, i) => scope.precisions[i] && cellHolds(node, book.told[told], book.precisions[i])));
    return { hits, plain, simulated };
  };
  const applicable = (scope, book) => ({
    hits: book.stacks.map((stack) => stack.some((told, i) => scope.precisions[i] && book.told[told].mark !== "not-applicable")),
    plain: false,
    simulated: false,
  });
  const someCell = (entry, scope, tables) => entry.tracks.some((track) => {
    if (!scope.devices.has(track.device)) return false;
    if (track.workaround && tables.some((one) => one.plain)) return false;
    return track.cells.some((stack, column) => stack >= 0 && scope.columns[column] && tables.every((one) => one.hits[stack] || (one.simulated && entry.simulated)));
  });

  const group = (node, scope, book) => {
    if (node.type === "or") {
      const tests = node.parts.map((part) => group(part, scope, book).test);
      return { scope, test: (entry) => tests.some((test) => test(entry)) };
    }
    const parts = (node.type === "and" ? node.parts : [node]).map(bare);
    const inner = scoped(scope, parts.filter(({ node: part }) => Query.KEYS[part.key]?.kind === "scope"), book);
    const tests = [];
    // Who types a version asks what happens there: a case that cannot run there is no answer.
    const applies = parts.some(({ node: part }) => part.bare) ? [applicable(inner, book)] : [];
    const together = [];
    for (const { node: part, wanted } of parts) {
      const kind = part.type === "atom" ? Query.KEYS[part.key]?.kind ?? "case" : "group";
      if (kind === "scope") continue;
      if (kind === "group") {
        const { test } = group(part, inner, book);
        tests.push((entry) => test(entry) === wanted);
      } else if (kind === "case") {
        tests.push((entry) => caseHolds(part, entry) === wanted);
      } else {
        const asked = table(part, inner, book);
        if (wanted) together.push(asked);
        else tests.push((entry) => !someCell(entry, inner, [asked]));
      }
    }
    tests.push((entry) => someCell(entry, inner, [...together, ...applies]));
    return { scope: inner, test: (entry) => tests.every((test) => test(entry)), together };
  };

  const plainOf = (tree) => (tree.type === "and" ? tree.parts.filter((part) => part.type === "atom" && part.key === "text").flatMap((part) => part.values) : []);

  // Parse and compile: which cases it holds for, and the columns and precisions to look at.
  const compile = (text, book) => {
    const tree = Query.parse(text, book.words);
    let found;
    try {
      found = group(tree, everything(book), book);
    } catch (error) {
      if (error instanceof Query.Fault) error.tree = tree; // it was read: what is chosen beside it can mend it
      throw error;
    }
    const texts = plainOf(tree);
    let nearest = [];
    let holds = found.test;
    if (texts.length) {
      // The words that are typed rank the cases; what else is asked for still has to hold.
      const others = group({ type: "and", parts: tree.parts.filter((part) => part.key !== "text") }, everything(book), book).test;
      nearest = Rank.nearest(texts, book.cases.filter(others));
      if (!book.cases.some(holds)) {
        const near = new Set(nearest);
        holds = (entry) => near.has(entry);
      }
    }
    return { tree, scope: found.scope, holds, asked: found.together ?? [], nearest };
  };

  return { compile };
})();
