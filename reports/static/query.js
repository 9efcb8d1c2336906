"use strict";
// The query language: from text to a tree, or to a fault that points at its characters. It knows
// words, and nothing of the page.
const Query = (() => {
  class Fault extends Error {
    // `open`: what would mend it may still come behind the text.
    constructor(message, start, end, open = false) {
      super(message);
      Object.assign(this, { start, end, open });
    }
  }

  // What a key speaks of. A scope says where to look, for the whole query.
  const KEYS = {
    fails: { kind: "cell", says: "some release fails in this precision (plain case)" },
    passes: { kind: "cell", says: "some release passes in this precision (plain case)" },
    verdict: { kind: "cell", says: "some cell has this verdict" },
    outcome: { kind: "cell", says: "some cell has this outcome" },
    is: { kind: "cell", says: "some cell is stale, unstable, measured here, simulated, not-exercised …; with commas, any of them" },
    error: { kind: "cell", says: "some cell's error or reason contains this", open: true },
    model: { kind: "case", says: "about this model, be it by shared code, or about any" },
    trigger: { kind: "case", says: "can hit you when you do this: load, cast, autocast, trainer, adapter …" },
    symptom: { kind: "case", says: "you see this: error, wrong-numbers, nan-or-inf …; silent: no error at all" },
    area: { kind: "case", says: "in this area" },
    scope: { kind: "case", says: "half: not in fp32; mixed: under autocast only; every: in fp32 as well; some, unknown" },
    "at-fault": { kind: "case", says: "this package has the fault" },
    package: { kind: "case", says: "uses this package" },
    workaround: { kind: "case", says: "has this workaround; none, any" },
    case: { kind: "case", says: "its name contains this", open: true },
    since: { kind: "scope", says: "look at this release and later ones only; -since: at earlier ones", open: true },
    until: { kind: "scope", says: "look at this release and earlier ones only; -until: at later ones", open: true },
    release: { kind: "scope", says: "look at this release or line only; -release: leaves it out", open: true },
    with: { kind: "scope", says: "look where this version is installed only: with:peft==0.15.2", open: true },
    precision: { kind: "scope", says: "look at this precision only" },
    device: { kind: "scope", says: "look at this device only" },
  };
  const DEEPEST = 100;
  const VERSION = /^\d+(\.\d+)*$/;
  const FLAGS = ["stale", "here", "simulated", "unstable", "not-exercised", "unbuildable", "not-run", "not-due", "out-of-memory", "not-applicable", "needs-gpu"];

  // Releases in time -------------------------------------------------------------------------
  const version = (name) => (name === "main" ? [Infinity] : /^\d/.test(name) ? name.split("+")[0].split(".").map(Number) : null);
  const compare = (a, b) => {
    for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
      const difference = (a[i] ?? 0) - (b[i] ?? 0);
      if (difference) return difference < 0 ? -1 : 1; // also where one side is without end
    }
    return 0;
  };
  const newest = (names) => names
    .filter((name) => version(name) && name !== "main")
    .reduce((found, name) => (!found || compare(version(name), version(found)) > 0 ? name : found), "");

  // Whether `peft==0.15.2` is what `peft==0.15` asks for.
  const holds = (pin, wanted) => pin === wanted || pin.startsWith(`${wanted}.`);

  // Text to tokens ----------------------------------------------------------------------------
  const tokens = (text) => {
    const found = [];
    let at = 0;
    const quoted = () => {
      const start = at;
      const end = text.indexOf('"', at + 1);
      if (end < 0) throw new Fault("this quote is never closed", start, text.length, true);
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
      if (text.startsWith("()", at)) { at += 2; continue; } // a call, in somebody's words
      if (next === "(" || next === ")") { at += 1; found.push({ type: next, start, end: at }); continue; }
      if (next === "-" && at + 1 < text.length && !/[\s)]/.test(text[at + 1])) { at += 1; found.push({ type: "-", start, end: at }); continue; }
      if (next === '"') { found.push({ type: "text", quoted: true, ...quoted() }); continue; }
      const head = /^(?!https?:\/\/)[A-Za-z]+(?=:(?!:))/i.exec(text.slice(at));
      // `ValueError: cost` is a message; only what a value follows at once is a key. At the end it may follow.
      const follows = head ? text[at + head[0].length + 1] ?? "" : " ";
      if (follows ? /\s/.test(follows) : !Object.hasOwn(KEYS, head[0].toLowerCase())) {
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
  // The name that is spelled nearly so, by at most so many letters; empty where there is none.
  const closest = (text, names, most) => {
    const wanted = text.toLowerCase();
    const ranked = names
      .map((name) => [name.toLowerCase().startsWith(wanted) && wanted ? 0 : distance(wanted, name.toLowerCase()), name])
      .sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1));
    return ranked.length && ranked[0][0] <= Math.max(1, most) ? ranked[0][1] : "";
  };
  const nearest = (text, names) => {
    const found = closest(text, names, text.length / 2);
    return found ? ` Did you mean ${found}?` : "";
  };

  // Tokens to a tree --------------------------------------------------------------------------
  const parse = (text, words) => {
    const list = tokens(text);
    let at = 0;
    let depth = 0;
    const either = (open) => {
      const parts = [every(open)];
      while (list[at]?.type === "or") {
        at += 1;
        parts.push(every(open, list[at - 1]));
      }
      return parts.length === 1 ? parts[0] : { type: "or", parts: parts.map(alone) };
    };
    const every = (open, before) => {
      const parts = [];
      // Parentheses around what holds together anyway change nothing.
      while (list[at] && list[at].type !== "or" && !(list[at].type === ")" && open)) {
        const next = one();
        parts.push(...(next.type === "and" ? next.parts : [next]));
      }
      if (!parts.length && (before || open || list[at])) {
        const near = before ?? open ?? list[at];
        throw new Fault(`nothing stands beside this ${near.type === "or" ? "or" : "parenthesis"}`, near.start, near.end, !list[at]);
      }
      return { type: "and", parts };
    };
    // A text that was pasted by mistake must not exhaust the stack.
    const one = () => {
      depth += 1;
      const found = term(list[at]);
      depth -= 1;
      return found;
    };
    const term = (token) => {
      at += 1;
      if (depth > DEEPEST) throw new Fault(`more than ${DEEPEST} parentheses and minuses stand inside each other`, token.start, token.end);
      if (token.type === "-") {
        if (!list[at]) throw new Fault("nothing follows this minus", token.start, token.end);
        const part = alone(one());
        return part.type === "not" ? part.part : { type: "not", part };
      }
      if (token.type === "(") {
        const inner = either(token);
        if (list[at]?.type !== ")") throw new Fault("this parenthesis is never closed", token.start, token.end, true);
        at += 1;
        return inner;
      }
      if (token.type === ")") throw new Fault("this parenthesis was never opened", token.start, token.end);
      if (token.type === "or") throw new Fault("nothing stands before this or", token.start, token.end);
      if (token.type === "text") return versionOf(token) ?? { type: "atom", key: "text", values: [token.text.toLowerCase()], raw: token.text, start: token.start, end: token.end };
      return atom(token, words);
    };
    // `5.23.0` is that release, and `peft 0.15.2` or `peft==0.15.2` are the environments with it.
    // Quotes make either a text.
    const versionOf = (token) => {
      if (token.quoted) return null;
      const bare = (text) => text.toLowerCase().replace(/[,;]$/, ""); // of a list in a sentence
      const value = bare(token.text);
      const names = words.release ?? [];
      const [name, pinned] = value.split("==");
      const next = list[at];
      const beside = pinned === undefined && next?.type === "text" && !next.quoted && VERSION.test(bare(next.text)) ? next : null;
      if ((words.with ?? []).some((known) => known.startsWith(`${name}==`)) && (pinned || beside)) {
        const wanted = `${name}==${pinned || bare(beside.text)}`;
        const end = beside ? beside.end : token.end;
        const wrong = refused("with", wanted, words);
        if (wrong) throw new Fault(wrong, token.start, end);
        if (beside) at += 1;
        return { type: "atom", key: "with", values: [wanted], bare: true, start: token.start, end };
      }
      if (!VERSION.test(value) || value.split(".").length < 2) return null;
      if (names.includes(value)) return { type: "atom", key: "release", values: [value], bare: true, start: token.start, end: token.end };
      // Two numbers may be the name of a model; three are a version.
      if (value.split(".").length < 3) return null;
      throw new Fault(`there is no release ${value} of transformers.${nearest(value, names)} For another package write its name before the version: peft 0.15.2.`, token.start, token.end);
    };
    const tree = list.length ? either() : { type: "and", parts: [] };
    if (list[at]) throw new Fault("this parenthesis was never opened", list[at].start, list[at].end);
    refuseScopes(tree, text);
    return tree;
  };

  const alone = (node) => (node.type === "and" && node.parts.length === 1 ? node.parts[0] : node);

  // A scope holds for the whole query: on one side of an or, or denied with others, it could not.
  const refuseScopes = (tree, text) => {
    const scope = (node) => node.type === "atom" && KEYS[node.key]?.kind === "scope";
    const look = (node, where) => {
      if (where && scope(node)) {
        const term = text.slice(node.start, node.end);
        throw new Fault(`${node.key}: says where the whole query looks, so it cannot stand ${where[0]}; put it beside the parentheses: ${where[1]} ${term}`, node.start, node.end);
      }
      if (node.type === "or") for (const part of node.parts) look(part, ["on one side of an or", "(… or …)"]);
      else if (node.type === "and") for (const part of node.parts) look(part, where);
      else if (node.type === "not" && !(scope(node.part) && !where)) look(node.part, where ?? ["in a denied group", "-(…)"]);
    };
    look(tree, null);
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
      if (text === "main") return "";
      if (!/^\d+(\.\d+)*$/.test(text)) return `${key}: takes a release, like 5.0 or 4.50.1, or main; not ${text}.`;
      const names = words.release ?? [];
      const last = newest(names);
      if (!last || compare(version(text), version(last)) <= 0) return "";
      return `there is no release ${text}. ${key}: takes a release up to ${last}, the nearest${names.includes("main") ? ", or main" : ""}.`;
    }
    if (key === "release") {
      const names = words.release ?? [];
      return names.some((name) => name.toLowerCase() === text.toLowerCase()) ? "" : `there is no release ${text}.${nearest(text, names)}`;
    }
    if (key === "with") {
      const names = words.with ?? [];
      return names.some((name) => holds(name, text.toLowerCase())) ? "" : `no environment has ${text.replace("==", " ")}.${nearest(text, names).replace("==", " ")}`;
    }
    if (KEYS[key].open) return "";
    const names = words[key] ?? [];
    if (names.some((name) => name.toLowerCase() === text.toLowerCase())) return "";
    return `${key}: does not know ${text}.${nearest(text, names)}`;
  };

  return { Fault, KEYS, FLAGS, parse, closest, version, compare, holds };
})();
