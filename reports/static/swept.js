"use strict";
// What the sweep says of a model at a version: the answer that `audit --model` adds.
const Swept = (() => {
  const [BAD, , UNKNOWN, HOLDS] = [0, 1, 2, 3]; // 1 does not apply
  const STATES = ["unknown", "holds", "skipped"];
  const plain = (name) => name.replace(/[.-]/g, "_");

  const open = (tables) => {
    const versions = tables.releases.map((name) => Pep440.parse(name));
    const measured = (one) => tables.releases.map((_, place) => place).filter((place) => place >= one.first && !one.missing.includes(place));
    const among = (one, probe, place) => one.runs.find(([number, first, last]) => number === probe && first <= place && place <= last);
    // What a probe did on a release: the kind of its state and, where it is bad, the words; null where it was not run.
    const state = (one, probe, place) => {
      if (tables.lacking[place].includes(probe)) return null;
      if (probe !== 0 && among(one, 0, place)) return null; // it was not built
      const run = among(one, probe, place);
      return run ? { kind: run[3], run } : { kind: HOLDS };
    };
    const sides = (places, ours) => {
      if (!ours) return ["unknown", []];
      const below = places.filter((place) => Pep440.compare(versions[place], ours) <= 0).at(-1);
      const above = places.find((place) => Pep440.compare(versions[place], ours) >= 0);
      if (below === undefined || above === undefined) return ["unknown", []];
      return below === above ? ["measured", [below]] : ["derived", [below, above]];
    };
    const says = (one, probe, places) => {
      const states = places.map((place) => state(one, probe, place));
      if (states.some((each) => !each || each.kind === UNKNOWN)) return "unknown";
      if (states.every((each) => each.kind === BAD)) return states[0].run;
      if (states.some((each) => each.kind === BAD)) return "unknown";
      return states.some((each) => each.kind === HOLDS) ? "holds" : "skipped";
    };
    const further = tables.classes && open({ ...tables.classes, probes: tables.probes });
    // What does not hold of further classes, and is not told of their architecture.
    const beside = (name, failing, version, precisions) => {
      const known = failing.map((one) => `${one.error} ${one.where}`);
      return (further ? further.names : []).filter((each) => each.startsWith(`${name}:`))
        .map((each) => further.answer(each, version, precisions))
        .map((found) => ({ class: found.class, failing: found.failing.filter((one) => !known.includes(`${one.error} ${one.where}`)) }))
        .filter((found) => found.failing.length);
    };
    const answer = (name, version, precisions) => {
      const one = tables.architectures[name];
      const probes = tables.probes.map((_, number) => number).filter((number) => precisions.includes(tables.probes[number][1]));
      const places = measured(one);
      const [level, rests] = sides(places, version);
      const told = rests.length ? probes.map((probe) => [probe, says(one, probe, rests)]) : [];
      const count = (words) => told.filter(([probe, said]) => probe !== 0 && said === words).length;
      const good = places.filter((place) => probes.every((probe) => state(one, probe, place)?.kind !== BAD)).at(-1);
      const failing = told.filter(([, said]) => !STATES.includes(said)).map(([probe, [, , , , outcome, error, where]]) => ({
        probe: tables.probes[probe][0], precision: tables.probes[probe][1], outcome, error, where,
      }));
      return {
        architecture: name,
        class: one.class,
        level,
        "rests-on": rests.map((place) => tables.releases[place]),
        failing,
        holding: count("holds"),
        unknown: count("unknown"),
        "newest-good": tables.releases[good] ?? null,
        classes: beside(name, failing, version, precisions),
      };
    };
    const named = (model) => Object.keys(tables.architectures).filter((name) => plain(name) === plain(model));
    return { answer, named, names: Object.keys(tables.architectures) };
  };

  const summary = (found) => {
    const total = found.failing.length + found.holding;
    const unknown = found.unknown ? `, ${found.unknown} unknown` : "";
    if (!total) return "nothing is known of these versions";
    const where = `${found.level} on ${found["rests-on"].join(" and ")}`;
    const counted = `${total} ${total === 1 ? "probe" : "probes"}`;
    return found.failing.length ? `${found.failing.length} of ${counted} ${found.failing.length === 1 ? "does" : "do"} not hold${unknown} (${where})` : `${counted} hold${unknown} (${where})`;
  };
  const said = (one, of = "") => element("p", {}, element("b", {}, `${one.precision} ${one.probe}`), ...of ? [" of ", element("code", {}, of)] : [], ` ${one.outcome}: ${one.error}`, ...one.where ? [" ", element("small", {}, "in ", element("code", {}, one.where))] : []);
  const card = (found, href) => element("li", { class: "hit", "data-architecture": found.architecture },
    element("h3", {}, element("a", { href }, found.architecture), " ", element("small", {}, found.class)),
    element("p", {}, `${summary(found)}.`),
    ...found.failing.map((one) => said(one)),
    found.failing.length ? element("p", { class: "quiet" }, found["newest-good"] ? `${found["newest-good"]} is the newest swept release on which all of them hold.` : "There is no swept release on which all of them hold.") : "",
    ...found.classes.flatMap((one) => one.failing.map((each) => said(each, one.class))));
  const draw = (answers, hrefs) => (answers.length ? [
    element("h2", {}, "Swept: tiny random models"),
    element("p", { class: "quiet" }, "What needs large values or trained weights does not show."),
    element("ul", { class: "hits" }, ...answers.map((found) => card(found, hrefs[found.architecture]))),
  ] : []);
  return { draw, open };
})();
