"use strict";
// An answer as elements: a sentence first, then what to move to, then every hit.
const Verdict = (() => {
  const plural = (count, noun, several = `${noun}s`) => `${count} ${count === 1 ? noun : several}`;
  const join = (words, last = "and") => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`);
  // Backticks are code.
  const coded = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? element("code", {}, part) : part));
  const versions = (change) => Object.entries(change).map(([name, version]) => `${name} ${version}`);
  const levels = (cells) => [...new Set(cells.map((cell) => cell.level))].join("/");
  const precisions = (cells) => cells.map((cell) => cell.precision).join(", ");

  const subject = (mine) => {
    const [first, ...others] = ["transformers", "accelerate", "peft"].map((name) => [name, mine.pins.get(name)]);
    const start = first[1] ? `transformers ${first[1]}` : "transformers without a version";
    const beside = others.filter(([, version]) => version).map(([name, version]) => `${name} ${version}`);
    return beside.length ? `${start} with ${join(beside)}` : start;
  };
  const about = (asked) => [
    asked.precision ? ` in ${asked.precision}` : "",
    asked.model ? ` for ${asked.model}` : "",
    asked.trigger ? ` (${asked.trigger.replace("-", " ")})` : "",
  ].join("");
  // The whole answer in one sentence.
  const sentence = (found, mine, asked) => {
    const bugs = found.hits.filter((hit) => hit.kind === "bug").length;
    const intended = found.hits.length - bugs;
    const cells = found.hits.flatMap((hit) => hit.cells);
    const derived = cells.filter((cell) => cell.level === "derived").length;
    const unknown = found.unknown.length ? `; ${plural(found.unknown.length, "cell")} unknown, which is not a pass` : "";
    if (!found.hits.length) {
      const none = found.clear.length ? `no known bug can hit you${about(asked)}` : `no evidence for these versions${about(asked)}`;
      if (found.clear.length && found.unknown.length) return `${subject(mine)}: ${found.unknown.length} of ${plural(["clear", "unknown", "not-applicable"].reduce((sum, key) => sum + found[key].length, 0), "cell")} unknown${about(asked)}, which is not a pass; no known bug in the others.`;
      return `${subject(mine)}: ${none}${unknown}.`;
    }
    const and = bugs && intended ? ", and " : "";
    const hitting = bugs ? `${plural(bugs, "known bug")} can hit you${about(asked)}` : "";
    const changed = intended ? `${plural(intended, "intended change")} ${intended === 1 ? "applies" : "apply"}${bugs ? "" : about(asked)}` : "";
    const shared = found.hits.filter((hit) => hit["by-shared-code"]).length;
    const sure = derived ? `${cells.length - derived} of ${plural(cells.length, "cell")} measured at these versions, ${derived} derived` : "all measured at these versions";
    return `${subject(mine)}: ${hitting}${and}${changed}${shared ? `, ${shared} by shared code` : ""} (${sure})${unknown}.`;
  };

  const spotList = (names, titles) => {
    const byCase = Map.groupBy(names.map((name) => name.split(":")), ([name]) => name);
    const items = [...byCase].map(([name, among]) => element("li", {}, element("a", { href: titles.get(name).href }, ...coded(titles.get(name).title)), " ", element("small", {}, among.map(([, precision]) => precision).join(", "))));
    return { count: byCase.size, list: element("ul", {}, ...items) };
  };
  const WORDS = {
    heals: "Fixes", keeps: "Still has", breaks: "Breaks", brings: "Adds, in features that are new",
    doubts: "Fails there, unknown here", loses: "Unknown whether it fixes", unknown: "Unknown there",
  };
  const move = (what, upgrade, titles) => {
    const beside = versions(upgrade.packages).join(", ");
    const parts = Object.entries(WORDS).filter(([name]) => upgrade[name].length).map(([name, words]) => {
      const { count, list } = spotList(upgrade[name], titles);
      return element("details", { class: `move ${name}` }, element("summary", {}, `${words} ${count}`), list);
    });
    return element("li", {},
      element("b", {}, element("a", { href: `release/${encodeURIComponent(upgrade.release)}.html` }, `transformers ${upgrade.release}`)),
      `, the ${what}${beside ? ` (measured with ${beside})` : ""}`,
      ...parts.length ? parts : [element("p", {}, "Fixes and breaks nothing that is known.")]);
  };
  const moves = (found, advice, titles) => {
    const { "nearest-without-hits": nearest, "fewest-hits": fewest, newest } = found.upgrades;
    const items = [];
    if (nearest) items.push(move("nearest newer release on which all of this passes", nearest, titles));
    else if (newest && fewest.release !== newest.release) items.push(move("newer release with the fewest known bugs", fewest, titles));
    if (newest && newest.release !== nearest?.release) items.push(move("newest measured release", newest, titles));
    const none = newest ? "No newer release is measured to pass all of this." : "No newer release is measured.";
    return [element("h2", {}, "What to move to"), ...nearest ? [] : [element("p", {}, none)], element("ul", { class: "moves" }, ...items), advised(advice)];
  };
  const advised = (advice) => {
    if (!advice.newest) {
      const fewest = advice["fewest-failing"];
      const rest = fewest ? ` The fewest fail or are unknown on ${fewest.release}: ${plural(fewest.failing.length + fewest.unknown.length, "cell")}.` : "";
      return element("p", { class: "advice" }, `No release is measured to pass all of these cases.${rest}`);
    }
    const pins = Object.entries(advice.packages).map(([name, version]) => `${name}==${version}`);
    const silent = advice["not-applicable"].length;
    return element("p", { class: "advice" }, "The newest release on which all of these cases pass: ",
      element("code", {}, [`transformers==${advice.newest}`, ...pins].join(" ")),
      silent ? ` (${plural(silent, "cell")} not applicable there).` : ".");
  };

  const avoided = (hit) => {
    const sides = [["newer", hit.newer], ["older", hit.older]].filter(([, change]) => change);
    if (!sides.length) return element("p", { class: "avoid" }, "No measured version avoids it.");
    return element("p", { class: "avoid" }, "Avoided by ", ...sides.flatMap(([side, change], i) => [i ? " or " : "", element("b", {}, versions(change).join(" with ")), ` (${side})`]));
  };
  const remedy = (hit) => (way) => {
    const partial = way.cells.length < hit.cells.length ? `, only in ${precisions(way.cells)}` : "";
    return element("li", {}, element("code", {}, way.name), ": ", ...coded(way.says), " ", element("small", {}, `${levels(way.cells)}${partial}${way.skips ? ", disables the feature" : ""}`));
  };
  const differences = (hit) => {
    const others = hit.differs.filter(({ package: name }) => name !== "torch" && name !== "transformers");
    if (!others.length) return [];
    const words = others.map(({ package: name, ours, measured }) => `${name} ${ours ?? "(not listed)"}, measured with ${join(measured)}`);
    return [element("p", { class: "quiet" }, `Differs: ${words.join("; ")}.`)];
  };
  const derivation = (hit) => {
    const derived = hit.cells.find((cell) => cell.level === "derived");
    return derived ? [element("p", { class: "quiet" }, `Derived: it fails on both sides, in ${join(derived["measured-in"])}.`)] : [];
  };
  const card = (hit) => element("li", { class: "hit", "data-case": hit.case },
    element("h3", {}, element("a", { href: hit.href }, ...coded(hit.title))),
    element("p", { class: "how" }, element("b", {}, precisions(hit.cells)), " ", element("span", { class: "level" }, levels(hit.cells)), " ",
      ...hit.kinds.flatMap((kind) => [element("span", { class: "badge" }, kind), " "]),
      ...hit["by-shared-code"] ? [element("span", { class: "badge" }, `by shared code (measured with ${join(hit.families)})`), " "] : [],
      hit.verdict === "as-expected" ? "" : element("span", { class: "badge" }, "not as the case describes it")),
    element("pre", {}, hit.error),
    ...derivation(hit), ...differences(hit), avoided(hit),
    hit.workarounds.length ? element("div", {}, element("p", {}, "Works at these versions:"), element("ul", {}, ...hit.workarounds.map(remedy(hit)))) : element("p", { class: "quiet" }, "No workaround is known to work at these versions."));

  const unknowns = (found, titles) => {
    if (!found.unknown.length) return [];
    const ordered = [...Map.groupBy(found.unknown, (cell) => cell.why)].sort((a, b) => b[1].length - a[1].length);
    return [element("details", { class: "unknown" }, element("summary", {}, `${plural(found.unknown.length, "cell")} unknown, by reason`),
      ...ordered.flatMap(([why, cells]) => [element("p", {}, `${why}:`), spotList(cells.map((cell) => `${cell.case}:${cell.precision}`), titles).list]))];
  };

  // About the model that was chosen, then silent and wrong before an error that is seen.
  const SILENT = new Set(["wrong-numbers", "nan-or-inf", "wrong-dtype", "not-trained"]);
  const rank = (hit, model) => [hit.kind !== "bug", !hit.families.includes(model), hit.kinds.includes("distributed"), !hit.kinds.some((kind) => SILENT.has(kind))];
  const ordered = (hits, model) => hits.map((hit) => [rank(hit, model).map(Number).join(""), hit]).sort(([a], [b]) => (a < b ? -1 : Number(a > b))).map(([, hit]) => hit);

  const draw = ({ told, found, advice, notes, titles, command, asked }) => [
    ...notes.map((note) => element("p", { class: "note" }, note)),
    element("p", { class: "quiet" }, `${plural(found.clear.length, "cell")} passing (${found.clear.filter((cell) => cell.level === "measured").length} measured), ${found["not-applicable"].length} not applicable.`),
    ...moves(found, advice, titles),
    ...found.hits.length ? [element("h2", {}, "What can hit you"), element("ul", { class: "hits" }, ...ordered(found.hits, asked.model).map(card))] : [],
    ...told,
    ...unknowns(found, titles),
    element("h2", {}, "The same in a terminal"), element("pre", { class: "command" }, command),
  ];
  return { coded, draw, join, sentence };
})();
