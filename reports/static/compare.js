"use strict";
// Two releases beside each other. What two answers mean was decided before and is looked up.
const Compare = (() => {
  const unfolded = (row, place) => {
    let at = 0;
    for (let i = 0; i < row.length; i += 2) {
      at += row[i];
      if (place < at) return row[i + 1];
    }
    return -1;
  };

  // Every cell of two releases: how it changed, and what both sides say.
  const cells = (data, from, to) => {
    const [before, after] = [from, to].map((name) => data.releases.indexOf(name));
    return data.cases.flatMap((entry) => entry.rows.map((row) => {
      const [one, other] = [before, after].map((place) => data.said[unfolded(row.said, place)]);
      const change = data.changes[one[0]][other[0]][one[1] === other[1] ? 0 : 1];
      return { entry, row, change, one, other };
    }));
  };

  const grouped = (found, keyOf) => [...Map.groupBy(found, (cell) => JSON.stringify(keyOf(cell))).values()];
  const precisions = (data, group) => data.precisions.filter((name) => group.some((cell) => cell.row.precision === name));

  // How many bugs of each release fail, and which moves account for the difference.
  const bugs = (data, from, to) => {
    const [one, other] = [from, to].map((name) => data.releases.indexOf(name));
    const pairs = data.cases.flatMap((entry) => entry.bugs.map((states) => `${states[one]}${states[other]}`));
    const number = (pattern) => pairs.filter((pair) => pattern.test(pair)).length;
    return { before: number(/^o/), after: number(/o$/), broke: number(/po/), fixed: number(/op/), came: number(/-o/), went: number(/o-/) };
  };

  return { cells, bugs, grouped, precisions };
})();

(() => {
  const place = document.getElementById("result");
  if (!place) return;
  const [from, to, problem] = ["from", "to", "problem"].map((id) => document.getElementById(id));
  const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names[0]);
  const counted = (number, one, many) => `${number} ${number === 1 ? one : many}`;

  const side = (text) => (text === "passes" ? element("span", { class: "good" }, text) : element("code", {}, text));
  const step = (group) => {
    const [{ row, change, one, other }] = group;
    const where = [row.workaround && `with ${row.workaround}`, row.device !== "cpu" && `(${row.device})`].filter(Boolean);
    const says = change === "both" ? [side(other[2])] : [side(one[2]), " → ", side(other[2])];
    return element("div", {}, element("b", {}, listed(Compare.precisions(compared, group))), where.length ? ` ${where.join(" ")}: ` : ": ", ...says);
  };
  const entry = (found) => {
    const { name, title, href, kinds } = found[0].entry;
    const chips = kinds.flatMap((text) => [" ", element("span", { class: "badge" }, text)]);
    const steps = Compare.grouped(found, ({ row, one, other }) => [row.workaround, row.device, one[3], other[3]]);
    return element("li", { class: "entry" },
      element("div", {}, element("a", { href }, title), element("div", {}, element("small", {}, name), ...chips)),
      element("div", {}, ...steps.map(step)));
  };
  const list = (found) => element("ul", { class: "entries" }, ...Compare.grouped(found, (cell) => cell.entry.name).map(entry));
  const FOLDED = new Set(["both", "new", "gone"]);
  const cases = (found) => new Set(found.map((cell) => cell.entry.name)).size;

  const section = ([change, title], found) => {
    const plain = found.filter((cell) => !cell.row.workaround);
    const beside = found.filter((cell) => cell.row.workaround);
    const folded = beside.length
      ? [element("details", {}, element("summary", {}, `With a workaround: ${counted(cases(beside), "case", "cases")}`), list(beside))] : [];
    const what = plain.length ? list(plain) : element("p", { class: "quiet" }, `Nothing that was measured${beside.length ? " without a workaround" : ""}.`);
    const head = element("h2", {}, `${title} `, element("small", {}, counted(cases(plain), "case", "cases")));
    const body = FOLDED.has(change) ? [element("details", {}, element("summary", {}, head), what, ...folded)] : [head, what, ...folded];
    return element("section", { id: `is-${change}` }, ...body);
  };

  const draw = () => {
    const [one, other] = [from.value, to.value];
    const found = Compare.cells(compared, one, other);
    const by = (change) => found.filter((cell) => cell.change === change);
    const bugs = Compare.bugs(compared, one, other);
    const says = one === other ? "Both are the same release."
      : `From ${one} to ${other}: ${counted(bugs.before, "known bug", "known bugs")}, then ${bugs.after}: ${bugs.broke} broke, ${bugs.fixed} fixed, ${bugs.came} came, ${bugs.went} went.`;
    const gap = [["unknown", "without a result on"], ["unmeasured", "measured on"]].filter(([change]) => by(change).length)
      .map(([change, says]) => element("p", {}, `Not compared: ${counted(by(change).length, "cell", "cells")} ${says} one of the two releases${change === "unmeasured" ? " alone" : ""}.`));
    const shown = one === other ? [] : Object.entries(compared.titles).filter(([change]) => ["broke", "fixed"].includes(change) || by(change).length);
    const command = element("p", { class: "quiet" }, "In a checkout: ", element("code", {}, `nox -s diff -- ${one} ${other}`));
    place.replaceChildren(element("p", { class: "lede", id: "says" }, says), ...shown.map((each) => section(each, by(each[0]))), ...gap, command);
  };

  const read = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    const lost = [];
    for (const [name, box] of [["from", from], ["to", to]]) {
      const value = asked.get(name);
      if (value === null) continue;
      if (compared.releases.includes(value)) box.value = value;
      else lost.push(value.length > 40 ? `${value.slice(0, 40)}…` : value);
    }
    problem.hidden = !lost.length;
    problem.textContent = lost.length ? `No release on this site is called ${lost.map((name) => `“${name}”`).join(" or ")}. Choose one from the lists.` : "";
    draw();
  };
  const chosen = () => {
    problem.hidden = true;
    history.replaceState(null, "", `#${new URLSearchParams({ from: from.value, to: to.value })}`);
    draw();
  };
  from.addEventListener("change", chosen);
  to.addEventListener("change", chosen);
  document.getElementById("swap").addEventListener("click", () => {
    [from.value, to.value] = [to.value, from.value];
    chosen();
  });
  addEventListener("hashchange", read);
  read();
})();
