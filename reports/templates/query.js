"use strict";
// The query language: from text to a tree, and from a tree to the cases that it holds for.
// It knows the data and nothing of the page.
const Query = (() => {
  class Fault extends Error {
    constructor(message, start, end) {
      super(message);
      Object.assign(this, { start, end });
    }
  }

  // What a key speaks of. A scope narrows the cells that are looked at, beside what it stands with.
  const KEYS = {
    fails: { kind: "cell", says: "some release fails in this precision (plain case)" },
    passes: { kind: "cell", says: "some release passes in this precision (plain case)" },
    verdict: { kind: "cell", says: "some cell has this verdict" },
    outcome: { kind: "cell", says: "some cell has this outcome" },
    is: { kind: "cell", says: "some cell is stale, unstable, simulated, not-exercised …" },
    error: { kind: "cell", says: "some cell's error or reason contains this", open: true },
    model: { kind: "case", says: "about this model" },
    area: { kind: "case", says: "in this area" },
    package: { kind: "case", says: "uses this package" },
    workaround: { kind: "case", says: "has this workaround; none, any" },
    case: { kind: "case", says: "its name contains this", open: true },
    since: { kind: "scope", says: "only this release and later ones", open: true },
    until: { kind: "scope", says: "only this release and earlier ones", open: true },
    release: { kind: "scope", says: "only this release or line", open: true },
    precision: { kind: "scope", says: "only this precision" },
    device: { kind: "scope", says: "only this device" },
  };
  const FLAGS = ["stale", "simulated", "unstable", "not-exercised", "unbuildable", "not-run", "out-of-memory", "not-applicable"];

  // Text to tokens ----------------------------------------------------------------------------
  const tokens = (text) => {
    const found = [];
    let at = 0;
    const quoted = () => {
      const start = at;
      const end = text.indexOf('"', at + 1);
      if (end < 0) throw new Fault("this quote is never closed", start, text.length);
      at = end + 1;
      return { text: text.slice(start + 1, end), start, end: at };
    };
    const word = (stop) => {
      const start = at;
      while (at < text.length && !stop.test(text[at])) at += 1;
      return { text: text.slice(start, at), start, end: at };
    };
    while (at < text.length) {
      const start = at;
      const next = text[at];
      if (/\s/.test(next)) { at += 1; continue; }
      if (next === "(" || next === ")") { at += 1; found.push({ type: next, start, end: at }); continue; }
      if (next === "-" && at + 1 < text.length && !/[\s)]/.test(text[at + 1])) { at += 1; found.push({ type: "-", start, end: at }); continue; }
      if (next === '"') { found.push({ type: "text", ...quoted() }); continue; }
      const head = /^[A-Za-z]+(?=:)/.exec(text.slice(at));
      if (!head) {
        const plain = word(/[\s()"]/);
        found.push({ type: plain.text === "or" ? "or" : "text", ...plain });
        continue;
      }
      const key = { text: head[0], start, end: start + head[0].length };
      at = key.end + 1;
      const values = [];
      do {
        if (values.length) at += 1;
        values.push(text[at] === '"' ? quoted() : word(/[\s()",]/));
      } while (text[at] === ",");
      found.push({ type: "key", key, values, start, end: at });
    }
    return found;
  };

  const distance = (a, b) => {
    let row = [...b].map((_, j) => j + 1);
    [...a].forEach((one, i) => {
      let corner = i;
      let left = i + 1;
      row = row.map((above, j) => {
        const here = Math.min(above + 1, left + 1, corner + (one === b[j] ? 0 : 1));
        corner = above;
        left = here;
        return here;
      });
    });
    return row.length ? row[row.length - 1] : a.length;
  };
  const nearest = (text, names) => {
    const wanted = text.toLowerCase();
    const ranked = names
      .map((name) => [name.toLowerCase().startsWith(wanted) && wanted ? 0 : distance(wanted, name.toLowerCase()), name])
      .sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1));
    return ranked.length && ranked[0][0] <= Math.max(1, wanted.length / 2) ? ` Did you mean ${ranked[0][1]}?` : "";
  };

  // Tokens to a tree --------------------------------------------------------------------------
  const parse = (text, words) => {
    const list = tokens(text);
    let at = 0;
    const either = (open) => {
      const parts = [every(open)];
      while (list[at]?.type === "or") {
        at += 1;
        parts.push(every(open, list[at - 1]));
      }
      return parts.length === 1 ? parts[0] : { type: "or", parts };
    };
    const every = (open, before) => {
      const parts = [];
      while (list[at] && list[at].type !== "or" && !(list[at].type === ")" && open)) parts.push(one());
      if (!parts.length && (before || open || list[at])) {
        const near = before ?? open ?? list[at];
        throw new Fault(`nothing stands beside this ${near.type === "or" ? "or" : "parenthesis"}`, near.start, near.end);
      }
      return { type: "and", parts };
    };
    const one = () => {
      const token = list[at];
      at += 1;
      if (token.type === "-") {
        if (!list[at]) throw new Fault("nothing follows this minus", token.start, token.end);
        return { type: "not", part: one() };
      }
      if (token.type === "(") {
        const inner = either(token);
        if (list[at]?.type !== ")") throw new Fault("this parenthesis is never closed", token.start, token.end);
        at += 1;
        return inner;
      }
      if (token.type === ")") throw new Fault("this parenthesis was never opened", token.start, token.end);
      if (token.type === "or") throw new Fault("nothing stands before this or", token.start, token.end);
      if (token.type === "text") return { type: "atom", key: "text", values: [token.text.toLowerCase()], start: token.start, end: token.end };
      return atom(token, words);
    };
    const tree = list.length ? either() : { type: "and", parts: [] };
    if (list[at]) throw new Fault("this parenthesis was never opened", list[at].start, list[at].end);
    return tree;
  };

  const atom = (token, words) => {
    const key = token.key.text.toLowerCase();
    const known = Object.hasOwn(KEYS, key) ? KEYS[key] : null;
    if (!known) {
      const near = nearest(key, Object.keys(KEYS));
      throw new Fault(`no key is called ${token.key.text}.${near || " For plain text, put it in quotes."}`, token.key.start, token.key.end);
    }
    for (const value of token.values) {
      if (!value.text) throw new Fault(`a value must follow ${key}:`, token.key.start, token.end);
      const wrong = refused(key, value.text, words);
      if (wrong) throw new Fault(wrong, value.start, value.end);
    }
    return { type: "atom", key, values: token.values.map((value) => value.text.toLowerCase()), start: token.start, end: token.end };
  };

  const refused = (key, text, words) => {
    if (key === "since" || key === "until") {
      return text === "main" || /^\d+(\.\d+)*$/.test(text) ? "" : `${key}: takes a release, like 5.0 or 4.50.1, or main; not ${text}.`;
    }
    if (key === "release") {
      const names = words.release ?? [];
      return names.some((name) => name.toLowerCase() === text.toLowerCase()) ? "" : `there is no release ${text}.${nearest(text, names)}`;
    }
    if (KEYS[key].open) return "";
    const names = words[key] ?? [];
    if (names.some((name) => name.toLowerCase() === text.toLowerCase())) return "";
    return `${key}: does not know ${text}.${nearest(text, names)}`;
  };

  // A tree to the cases it holds for ----------------------------------------------------------
  const version = (name) => (name === "main" ? [Infinity] : /^\d/.test(name) ? name.split("+")[0].split(".").map(Number) : null);
  const compare = (a, b) => {
    for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
      const difference = (a[i] ?? 0) - (b[i] ?? 0);
      if (difference) return difference < 0 ? -1 : 1; // also where one side is without end
    }
    return 0;
  };
  // 5.0 names the whole line where it is an end: until:5.0 holds for 5.0.1.
  const within = (found, bound) => compare(found.slice(0, bound.length), bound) === 0;

  const columnHolds = (key, value, column) => {
    if (key === "release") return column.name.toLowerCase() === value || column.line.toLowerCase() === value;
    const found = version(column.name);
    const bound = version(value);
    if (!found) return false;
    if (key === "since") return compare(found, bound) >= 0;
    return compare(found, bound) <= 0 || within(found, bound);
  };

  const FAILS = new Set(["fails", "regressed", "changed"]);
  const PASSES = new Set(["passes", "fixed"]);
  const cellHolds = (node, told, precision) => node.values.some((value) => {
    switch (node.key) {
      case "fails": return FAILS.has(told.mark) && (value === "any" || value === precision);
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
      case "model": return among(entry.models);
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
    return { ...scope, columns: scope.columns.map((on, i) => on && holds((value) => columnHolds(node.key, value, book.columns[i]))) };
  };

  const bare = (node) => {
    let wanted = true;
    let found = node;
    while (found.type === "not" || (found.type === "and" && found.parts.length === 1)) {
      if (found.type === "not") wanted = !wanted;
      found = found.type === "not" ? found.part : found.parts[0];
    }
    return { node: found, wanted };
  };

  // What a stack shows is asked once for each of the few stacks that there are.
  const table = (node, scope, book) => {
    if (node.key === "is" && node.values.includes("simulated")) return null;
    const plain = node.key === "fails" || node.key === "passes";
    const hits = book.stacks.map((stack) => stack.some((told, i) => scope.precisions[i] && cellHolds(node, book.told[told], book.precisions[i])));
    return { hits, plain };
  };
  const someCell = (entry, scope, tables) => entry.tracks.some((track) => {
    if (!scope.devices.has(track.device)) return false;
    if (track.workaround && tables.some((one) => one.plain)) return false;
    return track.cells.some((stack, column) => stack >= 0 && scope.columns[column] && tables.every((one) => one.hits[stack]));
  });

  const group = (node, scope, book) => {
    if (node.type === "or") {
      const tests = node.parts.map((part) => group(part, scope, book).test);
      return { scope, test: (entry) => tests.some((test) => test(entry)) };
    }
    const parts = (node.type === "and" ? node.parts : [node]).map(bare);
    const inner = parts
      .filter(({ node: part }) => KEYS[part.key]?.kind === "scope")
      .reduce((found, { node: part, wanted }) => narrowed(found, part, wanted, book), scope);
    const tests = [];
    const together = [];
    for (const { node: part, wanted } of parts) {
      const kind = part.type === "atom" ? KEYS[part.key]?.kind ?? "case" : "group";
      if (kind === "scope") continue;
      if (kind === "group") {
        const { test } = group(part, inner, book);
        tests.push((entry) => test(entry) === wanted);
      } else if (kind === "case") {
        tests.push((entry) => caseHolds(part, entry) === wanted);
      } else {
        const asked = table(part, inner, book);
        if (!asked) tests.push((entry) => entry.simulated === wanted);
        else if (wanted) together.push(asked);
        else tests.push((entry) => !someCell(entry, inner, [asked]));
      }
    }
    tests.push((entry) => someCell(entry, inner, together));
    return { scope: inner, test: (entry) => tests.every((test) => test(entry)), together };
  };

  // Parse and compile: which cases it holds for, and the columns and precisions to look at.
  const compile = (text, book) => {
    const tree = parse(text, book.words);
    const found = group(tree, everything(book), book);
    return { tree, scope: found.scope, holds: found.test, asked: found.together ?? [] };
  };

  // What may stand at the caret.
  const complete = (text, caret, book) => {
    const start = Math.max(...[..." (\t"].map((stop) => text.lastIndexOf(stop, caret - 1))) + 1;
    const minus = text[start] === "-" ? 1 : 0;
    const typed = text.slice(start + minus, caret);
    const colon = typed.indexOf(":");
    if (colon < 0) {
      const keys = Object.entries(KEYS).filter(([key]) => key.startsWith(typed.toLowerCase()));
      return { start: start + minus, end: caret, options: keys.map(([key, one]) => ({ text: `${key}:`, says: one.says })) };
    }
    const key = typed.slice(0, colon).toLowerCase();
    const from = start + minus + Math.max(colon, typed.lastIndexOf(",")) + 1;
    const wanted = text.slice(from, caret).replace(/^"/, "").toLowerCase();
    const names = (book.words[key] ?? []).filter((name) => name.toLowerCase().includes(wanted));
    names.sort((a, b) => b.toLowerCase().startsWith(wanted) - a.toLowerCase().startsWith(wanted));
    return { start: from, end: caret, options: names.slice(0, 12).map((name) => ({ text: /[\s(),"]/.test(name) ? `"${name.replaceAll('"', "")}"` : name, says: "" })) };
  };

  return { Fault, KEYS, FLAGS, parse, compile, complete, version, compare };
})();
