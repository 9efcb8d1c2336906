"use strict";
// From a pasted message or traceback to the cases that fail so. Nothing of it leaves the page.
const Paste = (() => {
  const LIMIT = 300;
  const DEEPEST = 4;
  const NEAR = 42; // below this a case is only of the same kind
  const PART = 4; // words of a message that are as good as the whole
  const SHOWN = 8;
  const HUGE = 200000; // the end of a log is where the error stands
  const LONG = 5000; // a signature is the beginning of a message
  const NAMED = 4; // what a name beside the message is worth: less than the class of the error

  // A text is a pasted error where it has lines, or begins as a traceback or an exception does.
  const CLASSES = "(?:Error|Exception|Warning|Interrupt|Exit|Invalid|Failure|Unavailable)";
  const IS_CLASS = new RegExp(CLASSES);
  const BEFORE = "(?:\\[[^\\]\\n]{0,80}\\]:?\\s*|[\\d:.,T/-]+\\s+|[A-Z]{4,8}:?\\s+|[\\w.]+:\\s+)*"; // of a log
  const BEGINS = new RegExp(`^\\s*${BEFORE}(?:Traceback \\(most recent|File "|(?:\\w+\\.)*\\w*${CLASSES}:\\s*\\S)`);
  const isError = (text) => /\n\s*\S/.test(text.trim()) || BEGINS.test(text);
  // Lines that hold nothing but keys with values are the query, wherever they stand in an error.
  const TERMS = new RegExp(`^(?:\\s*-?(?:${Object.keys(Query.KEYS).join("|")}):(?:"[^"]*"|[^\\s"])+(?=\\s|$))+\\s*$`, "i");
  const split = (text) => {
    if (!isError(text)) return { query: text, error: "" };
    const lines = text.split("\n");
    const isQuery = lines.map((line) => TERMS.test(line));
    const kept = (wanted) => lines.map((line, at) => (isQuery[at] === wanted ? line : " ".repeat(line.length))).join("\n");
    // In the query a term stands where it stands in the text, so that it can be written over.
    return { query: kept(true), error: kept(false).trim() };
  };

  const create = (known) => {
    const noise = known.noise.map(([pattern, put]) => [new RegExp(pattern, "gu"), put]);
    const clean = (message) => {
      let text = message.slice(0, LONG).split(/\s+/).filter(Boolean).join(" ");
      for (let before = null; before !== text;) {
        before = text;
        for (const [pattern, put] of noise) text = text.replace(pattern, () => put);
      }
      return text;
    };
    const signature = (name, message) => `${name}: ${clean(message)}`.slice(0, LIMIT).trimEnd();

    const wordsOf = (text) => new Set(text.toLowerCase().match(/[\p{L}_][\p{L}\p{N}_.]+/gu) ?? []);
    // A message as its words alone: people drop a comma, or copy a part.
    const plain = (text) => ` ${(text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []).join(" ")} `;
    const isPart = (part, whole) => whole.includes(part) && part.split(" ").length >= PART + 2;
    const messageOf = (trace) => trace.signature.slice(trace.signature.indexOf(":") + 2);
    const traces = known.cases.flatMap((one) => one.traces.map((trace) => ({ one, trace, words: wordsOf(trace.signature), plain: plain(messageOf(trace)) })));
    const seenIn = new Map();
    for (const { words } of traces) for (const word of words) seenIn.set(word, (seenIn.get(word) ?? 0) + 1);
    const weight = (word) => Math.log(1 + traces.length / (1 + (seenIn.get(word) ?? 0)));
    const weightOf = (words) => [...words].reduce((sum, word) => sum + weight(word), 0);
    const likeness = (a, b) => {
      const common = weightOf(new Set([...a].filter((word) => b.has(word))));
      const all = weightOf(new Set([...a, ...b]));
      return all ? common / all : 0;
    };

    // The last line that names a class ends a traceback; without one everything is message.
    const CLASS = /^(?:[\w.]+: )?(?:[\p{L}\p{N}_]+\.)*([\p{Lu}_][\p{L}\p{N}_]*)(?::\s?(.*))?$/u;
    const read = (pasted) => {
      const lines = pasted.slice(-HUGE).replace(/\x1b\[[0-9;]*m/g, "").split("\n").map((line) => (/\S/.test(line) ? line.match(/^\s*/)[0] + Pins.bare(line.replace(/^[│|]\s?/, "")) : ""));
      const frames = lines.map((line) => /File "([^"]*)", line \d+, in (?:[\p{L}\p{N}_<>.]+\.)?([\p{L}\p{N}_<>]+)/u.exec(line)).filter(Boolean).map((found) => `${inside(found[1])}:${found[2]}`);
      for (let at = lines.length - 1; at >= 0; at -= 1) {
        const found = CLASS.exec(lines[at].trim());
        if (found && IS_CLASS.test(found[1])) {
          return { name: found[1], message: [found[2] ?? "", ...lines.slice(at + 1)].join("\n").trim(), frames };
        }
      }
      const rest = lines.filter((line) => !/^\s*(File "|Traceback)/.test(line));
      return { name: "", message: rest.join("\n").trim(), frames };
    };
    const inside = (path) => {
      const plain = path.replaceAll("\\", "/");
      const at = Math.max(plain.lastIndexOf("site-packages/"), plain.lastIndexOf("dist-packages/"));
      return at >= 0 ? plain.slice(at + "site-packages/".length) : plain.split("/").slice(-2).join("/");
    };

    const judge = ({ one, trace, words, plain: wanted }, error) => {
      const why = [];
      let score = 0;
      const name = trace.signature.split(":")[0];
      const isWhole = error.signature === trace.signature || (wanted.trim() && error.plain === wanted);
      const same = error.message && (!error.name || error.name === name) && (isWhole || isPart(wanted, error.plain) || isPart(error.plain, wanted));
      const text = one.matches.find((match) => match && error.message.includes(match));
      if (same) { score += 100; why.push(isWhole ? "the same message" : "a part of the message"); }
      if (text) { score += 45; why.push(`the case expects “${text}”`); }
      if (error.name && error.name === name) { score += 10; why.push(`the same class, ${name}`); }
      if (!same) {
        const like = likeness(error.words, words);
        score += 45 * like;
        if (like > 0.3) why.push(`${Math.round(100 * like)} % of the words`);
      }
      const deepest = error.frames.slice(-DEEPEST);
      const common = trace.frames.filter((frame) => deepest.includes(frame));
      if (common.length) {
        score += 8 * common.length + (common.includes(deepest[deepest.length - 1]) ? 12 : 0);
        why.push(`${common.length === 1 ? "a frame" : `${common.length} frames`} of the traceback: ${common[common.length - 1]}`);
      }
      return { one, trace, score, why, same: Boolean(same), expects: Boolean(text && !same) };
    };
    // What a file expects can be met although no run has failed so yet.
    const unseen = (one) => ({ one, words: new Set(), plain: "", trace: { signature: `${one.raises[0] ?? ""}: `, headline: "", anchor: "expectations", frames: [], where: "expected, not seen failing", fixes: [] } });
    const every = [...traces, ...known.cases.filter((one) => !one.traces.length).map(unseen)];

    // `namesOf` says what the text names of a case, or null for a case that is not asked for.
    const rank = (pasted, namesOf = () => []) => {
      const found = read(pasted);
      if (!found.message && !found.name && !found.frames.length) return [];
      const error = { ...found, signature: signature(found.name, found.message), clean: clean(found.message), plain: plain(clean(found.message)), words: wordsOf(`${found.name}: ${clean(found.message)}`) };
      const best = new Map();
      for (const one of every) {
        const judged = judge(one, error);
        const name = judged.one.case;
        if (judged.score >= NEAR && judged.score > (best.get(name)?.score ?? 0)) best.set(name, judged);
      }
      for (const judged of best.values()) {
        const names = namesOf(judged.one.case);
        if (!names) { best.delete(judged.one.case); continue; }
        judged.score += NAMED * names.length;
        if (names.length) judged.why.push(`your text names ${names.join(", ")}`);
      }
      return [...best.values()].sort((a, b) => b.score - a.score || a.one.place - b.one.place).slice(0, SHOWN);
    };
    return { rank, read, signature, measured: known.measured };
  };

  const item = (found, tied) => {
    const { one, trace, why, same, expects } = found;
    // What fixed the failure that stands here, wherever it was seen; of a similar one nothing is known.
    const what = same ? "it" : "the failure above";
    const fixes = (same || expects) && trace.fixes.length ? ` (${trace.fixes.join(", ")} ${trace.fixes.length > 1 ? "were" : "was"} measured to fix ${what})` : "";
    return element("li", {},
      element("a", { href: `${one.href}#${trace.anchor}` }, one.title), " ", element("code", {}, one.case),
      trace.headline ? element("div", {}, element("code", {}, trace.headline)) : "",
      element("div", { class: "quiet" }, trace.where),
      element("div", { class: "quiet" }, `Why: ${why.join("; ")}${tied ? "; others are equally near; what fails in newer releases comes first" : ""}.`),
      element("div", {}, element("a", { href: `${one.href}#workarounds` }, "What to do"), fixes, " · ", element("a", { href: `${one.href}#ranges` }, "which releases")));
  };
  // Which of the measured failures are as the pasted one, in a sentence and a list.
  const answer = (found, measured) => {
    const nothing = "Nothing near: no case here was seen to fail like this. It may be new, or no dtype bug; a case that shows it is welcome.";
    const very = found.filter((one) => one.same).length;
    const cases = (count, verb) => `${count} ${count === 1 ? `case ${verb}s` : `cases ${verb}`}`;
    const awaited = found.filter((one) => one.expects).length;
    const others = found.length - very - awaited;
    const parts = [`${very ? cases(very, "fail") : "No case fails"} with this message`];
    if (awaited) parts.push(`${cases(awaited, "expect")} its words`);
    if (others) parts.push(`${others} similar`);
    const says = `${found.length ? `${parts.join("; ")}, the nearest first.` : nothing} Compared with what was measured on ${measured}.`;
    // The order of what is equally near says only what is likelier.
    const tied = (at) => [at - 1, at + 1].some((beside) => found[beside] && Math.abs(found[beside].score - found[at].score) < 1e-9);
    return { says, items: found.map((one, at) => item(one, tied(at))) };
  };
  return { create, split, answer };
})();
