"use strict";
// The answers of `audit` and `advise`, looked up in the tables that they were written into.
// What an answer is, and how sure, was decided there; here versions only find their place.
const Decide = (() => {
  const HITS = "hits";
  const TORCH = "torch";

  // Pairs of a count and a number, as the ends of the runs and their numbers.
  const unfolded = (runs) => {
    const ends = [];
    const numbers = [];
    for (let i = 0; i < runs.length; i += 2) {
      ends.push((ends.at(-1) ?? 0) + runs[i]);
      numbers.push(runs[i + 1]);
    }
    return { ends, numbers };
  };
  const at = ({ ends, numbers }, place) => {
    let [low, high] = [0, ends.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] <= place) low = middle + 1;
      else high = middle;
    }
    return numbers[low];
  };

  const open = (tables) => {
    const once = (make) => {
      const made = new Map();
      return (given) => {
        if (!made.has(given)) made.set(given, make(given));
        return made.get(given);
      };
    };
    const runsOf = once(unfolded);
    const line = once((texts) => texts.map(Pep440.parse));
    const look = (runs, place) => at(runsOf(runs), place);
    const spotsOf = (chosen) => chosen.cases.flatMap((number) => chosen.precisions.map((precision) => ({ number, precision })));
    const nameOf = ({ number, precision }) => `${tables.cases[number].name}:${tables.precisions[precision]}`;
    const environment = (number) => tables.environments[number][0];
    const versionIn = (number, name) => tables.environments[number][tables.packages.indexOf(name) + 1] ?? "";
    const releases = tables.releases.map(environment);

    // Why a set of packages has no place among the environments of a case; null where it has one.
    const filled = (template, values) => template.replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
    const unmet = (asked, mine) => {
      const name = asked.package;
      if (mine.loose.has(name)) return ["unknown", filled(tables.unpinned, { name, why: mine.loose.get(name) })];
      const text = mine.pins.get(name);
      if (text === undefined) return mine.whole || mine.absent?.has(name) ? asked.absent : asked.unlisted;
      const version = Pep440.parse(text);
      if (asked.holds[Pep440.place(line(asked.line), Pep440.open(Pep440.settled(version)))]) return null;
      const place = asked.span.length ? Pep440.place(line(asked.span), version) : -1;
      const [says, template] = place > 0 && place < 2 * asked.span.length ? asked.within : asked.outside;
      return [says, filled(template, { version: text })];
    };
    const obstacle = (entry, mine) => {
      const name = entry.deciding.find((each) => mine.loose.has(each));
      if (name) return ["unknown", filled(tables.unpinned, { name, why: mine.loose.get(name) })];
      for (const number of entry.requires) {
        const why = unmet(tables.requirements[number], mine);
        if (why) return why;
      }
      const missing = entry.deciding.find((each) => !mine.pins.has(each));
      return missing ? ["unknown", filled(tables.unlisted, { name: missing })] : null;
    };

    // The number of the neighbourhood of some versions on the grid of a case.
    const placed = (grid, mine) => {
      const place = grid.packages.reduce((sum, name, axis) => {
        const version = Pep440.parse(mine.pins.get(name));
        const points = line(grid.lines[axis]);
        return sum * (2 * points.length + 1) + Pep440.place(points, name === TORCH ? Pep440.open(version) : version);
      }, 0);
      return look(grid.near, place);
    };
    const cell = (entry, variant, precision, near) => {
      const [says, level, low, high, why] = tables.conclusions[look(tables.series[entry.spots[variant][precision]], near)];
      return {
        case: entry.name,
        workaround: variant ? entry.workarounds[variant - 1].name : "",
        precision: tables.precisions[precision],
        says: tables.says[says],
        level: tables.levels[level],
        why: why < 0 ? "" : tables.texts[why],
        "measured-in": [low, high].filter((each) => each >= 0).map(environment),
      };
    };

    const isListed = (entry, mine) => entry.requires.every((number) => [TORCH, ...mine.pins.keys(), ...mine.loose.keys()].includes(tables.requirements[number].package));
    const positions = (chosen, mine) => {
      const nears = new Map();
      return chosen.cases.map((number) => {
        const entry = tables.cases[number];
        const why = obstacle(entry, mine);
        if (!why && !nears.has(entry.grid)) nears.set(entry.grid, placed(tables.grids[entry.grid], mine));
        return { entry, why, near: nears.get(entry.grid) };
      });
    };
    const answers = ({ entry, why, near }, precisions) => precisions.map((precision) => (why
      ? { case: entry.name, workaround: "", precision: tables.precisions[precision], says: why[0], level: "unknown", why: why[1], "measured-in": [] }
      : cell(entry, 0, precision, near)));

    const changes = (entry, number, mine) => {
      if (number < 0) return null;
      const all = entry.deciding.map((name) => [name, versionIn(number, name)]);
      return Object.fromEntries(all.filter(([name, version]) => version !== mine.pins.get(name)));
    };
    const chosenOf = (mask) => tables.precisions.map((_, bit) => bit).filter((bit) => (mask >> bit) & 1);
    // The cases that ran another family than the chosen one, and which.
    const sharedIn = (chosen) => {
      const entries = chosen.cases.map((number) => tables.cases[number]).filter((entry) => entry.shared.includes(chosen.model));
      return Object.fromEntries(entries.map((entry) => [entry.name, entry.families]));
    };
    const hit = ({ entry, near }, cells, mine, model) => {
      const mask = cells.reduce((sum, each) => sum | (1 << tables.precisions.indexOf(each.precision)), 0);
      const [verdict, title, error, newer, older, builds, remedies] = entry.records[look(entry.hits[mask], near)];
      const [first] = cells;
      const measuredIn = (name) => first["measured-in"].map((where) => versionIn(tables.environments.findIndex((row) => row[0] === where), name));
      const differs = entry.watched.map((name) => ({
        package: name,
        ours: mine.pins.get(name) ?? null,
        measured: name === TORCH ? builds.map((each) => tables.texts[each]) : [...new Set(measuredIn(name))],
      }));
      return {
        case: entry.name,
        title: tables.texts[title],
        href: entry.href,
        kinds: entry.kinds,
        kind: entry.kind,
        verdict: tables.texts[verdict],
        families: entry.families,
        "by-shared-code": entry.shared.includes(model),
        error: tables.texts[error],
        cells,
        differs: differs.filter(({ ours, measured }) => measured.length !== 1 || measured[0] !== (ours ?? "")),
        newer: changes(entry, newer, mine),
        older: changes(entry, older, mine),
        workarounds: remedies.map(([way, passing]) => ({
          ...entry.workarounds[way],
          cells: chosenOf(passing).map((precision) => cell(entry, way + 1, precision, near)),
        })),
      };
    };

    // What moving to a release, with the packages of its day, fixes and breaks
    const there = (place, { number, precision }) => tables.says[tables.cases[number].at[precision][place]];
    const move = (place, now) => {
      const saysThere = now.map((each) => there(place, each.spot));
      const those = (before, after) => now.filter((each, i) => each.says === before && saysThere[i] === after).map((each) => nameOf(each.spot));
      const groups = Object.entries(tables.moves).map(([name, moves]) => [name, moves.flatMap((pair) => those(...pair))]);
      const unknown = now.filter((_, i) => saysThere[i] === "unknown").map((each) => nameOf(each.spot));
      const packages = tables.companions.map((name) => [name, versionIn(tables.releases[place], name)]).filter(([, version]) => version);
      return { release: releases[place], packages: Object.fromEntries(packages), ...Object.fromEntries(groups), unknown };
    };
    const badIn = (move_) => ["keeps", "breaks", "brings", "doubts", "unknown"].reduce((sum, name) => sum + move_[name].length, 0);
    const least = (items, measure) => items.reduce((best, item) => (measure(item) < measure(best) ? item : best));
    const upgrades = (now, mine) => {
      const ours = mine.pins.has("transformers") ? Pep440.parse(mine.pins.get("transformers")) : null;
      const places = releases.map((_, place) => place).filter((place) => ours && Pep440.compare(Pep440.parse(releases[place]), ours) > 0
        && now.some(({ spot }) => [HITS, "clear"].includes(there(place, spot))));
      if (!places.length) return { "nearest-without-hits": null, "fewest-hits": null, newest: null };
      const failing = new Map(places.map((place) => [place, now.filter(({ spot }) => there(place, spot) === HITS).length]));
      const to = (place) => move(place, now);
      const nearest = places.filter((place) => !failing.get(place)).map(to).find((each) => !badIn(each) && !each.loses.length);
      let fewest = to(least(places, (place) => failing.get(place)));
      if (fewest.unknown.length) fewest = least(places.map(to), badIn); // little may be known of it
      return { "nearest-without-hits": nearest ?? null, "fewest-hits": fewest, newest: to(places.at(-1)) };
    };

    // `mine` holds pins, loose, whole; `chosen` the numbers of cases and of precisions, and the model.
    const audit = (mine, chosen) => {
      const every = positions(chosen, mine).map((position) => ({ position, cells: answers(position, chosen.precisions) }));
      const cells = every.flatMap((each) => each.cells);
      const now = spotsOf(chosen).map((spot, i) => ({ says: cells[i].says, spot }));
      const those = (says) => cells.filter((each) => each.says === says);
      const failing = every.map(({ position, cells: own }) => ({ position, own: own.filter((each) => each.says === HITS) }));
      return {
        hits: failing.filter(({ own }) => own.length).map(({ position, own }) => hit(position, own, mine, chosen.model)),
        unknown: those("unknown"),
        clear: those("clear"),
        "not-applicable": those("not-applicable"),
        upgrades: upgrades(now.filter(({ spot }) => isListed(tables.cases[spot.number], mine)), mine),
        "shared-code": sharedIn(chosen),
      };
    };

    const advise = (chosen) => {
      const spots = spotsOf(chosen);
      const standings = releases.map((release, place) => {
        const those = (says) => spots.filter((spot) => there(place, spot) === says).map(nameOf);
        return { release, passing: those("clear"), failing: those(HITS), "not-applicable": those("not-applicable"), unknown: those("unknown") };
      });
      const good = standings.findLastIndex((each) => each.passing.length && !each.failing.length && !each.unknown.length);
      const decided = standings.filter((each) => each.failing.length || each.passing.length).reverse();
      const names = [...new Set(chosen.cases.flatMap((number) => tables.cases[number].named))].filter((name) => name !== "transformers").sort();
      const best = standings[good] ?? (decided.length ? least(decided, (each) => each.failing.length + each.unknown.length) : null);
      const packages = best ? names.map((name) => [name, versionIn(tables.releases[standings.indexOf(best)], name)]).filter(([, version]) => version) : [];
      return {
        newest: good < 0 ? null : releases[good],
        "not-applicable": good < 0 ? [] : standings[good]["not-applicable"],
        packages: Object.fromEntries(packages),
        "fewest-failing": good < 0 ? best : null,
        "not-enough-evidence": standings.slice(good + 1).filter((each) => each.unknown.length && !each.failing.length).map((each) => each.release),
        releases: standings,
        "shared-code": sharedIn(chosen),
      };
    };

    return { audit, advise, releases };
  };
  return { open };
})();
