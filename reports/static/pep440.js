"use strict";
// Versions as PEP 440 orders and writes them. It knows nothing of packages.
const Pep440 = (() => {
  const FORM = /^\s*v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d+)?)?(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d+)?)?(?:[-_.]?(dev)[-_.]?(\d+)?)?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$/i;
  const LETTERS = { alpha: "a", beta: "b", c: "rc", pre: "rc", preview: "rc" };
  const LONGEST = 1000; // characters; no version of a package is as long

  // A number is a text of digits without leading zeros: of any length, and no digit is lost.
  const digits = (text) => (text ?? "0").replace(/^0+(?=\d)/, "");
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const compareDigits = (a, b) => a.length - b.length || order(a, b);

  // The parts of a version; null where a text is none.
  const parse = (text) => {
    const found = text.length <= LONGEST ? FORM.exec(text) : null;
    if (!found) return null;
    const [, epoch, release, letter, pre, implicit, post, postNumber, dev, devNumber, local] = found;
    const name = letter?.toLowerCase();
    return {
      epoch: digits(epoch),
      release: release.split(".").map(digits),
      pre: name ? [LETTERS[name] ?? name, digits(pre)] : null,
      post: implicit !== undefined ? digits(implicit) : post ? digits(postNumber) : null,
      dev: dev ? digits(devNumber) : null,
      local: local ? local.toLowerCase().split(/[-_.]/).map((part) => (/^\d+$/.test(part) ? digits(part) : part)) : null,
    };
  };

  const compareReleases = (a, b) => {
    for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
      const result = compareDigits(a[i] ?? "0", b[i] ?? "0");
      if (result) return result;
    }
    return 0;
  };
  // 1.0.dev1 comes before 1.0a1, and that before 1.0.
  const rankOfPre = (one) => (one.pre ? 1 : one.dev !== null && one.post === null ? 0 : 2);
  const comparePre = (a, b) => rankOfPre(a) - rankOfPre(b) || (a.pre && b.pre ? order(a.pre[0], b.pre[0]) || compareDigits(a.pre[1], b.pre[1]) : 0);
  const compareOptional = (a, b, absent) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? absent : -absent;
    return compareDigits(a, b);
  };
  const isNumber = (part) => /^\d+$/.test(part);
  const compareLocal = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? -1 : 1;
    for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
      if (a[i] === undefined || b[i] === undefined) return a[i] === undefined ? -1 : 1;
      const numbers = isNumber(a[i]) - isNumber(b[i]);
      const result = numbers || (isNumber(a[i]) ? compareDigits(a[i], b[i]) : order(a[i], b[i]));
      if (result) return result;
    }
    return 0;
  };
  const compare = (a, b) =>
    compareDigits(a.epoch, b.epoch) || compareReleases(a.release, b.release) || comparePre(a, b) ||
    compareOptional(a.post, b.post, -1) || compareOptional(a.dev, b.dev, 1) || compareLocal(a.local, b.local);

  const text = (one) => [
    one.epoch === "0" ? "" : `${one.epoch}!`,
    one.release.join("."),
    one.pre ? one.pre.join("") : "",
    one.post === null ? "" : `.post${one.post}`,
    one.dev === null ? "" : `.dev${one.dev}`,
    one.local === null ? "" : `+${one.local.join(".")}`,
  ].join("");
  const isPre = (one) => one.pre !== null || one.dev !== null;
  const open = (one) => ({ ...one, local: null });
  // The release that a version is or will become.
  const settled = (one) => (isPre(one) ? { ...one, pre: null, post: null, dev: null, local: null } : one);

  // Where a version stands on a line of them: points are odd, the gaps around them even.
  const place = (line, one) => {
    let [low, high] = [0, line.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(line[middle], one) < 0) low = middle + 1;
      else high = middle;
    }
    return 2 * low + (low < line.length && compare(line[low], one) === 0 ? 1 : 0);
  };

  return { parse, compare, compareReleases, text, isPre, open, settled, place };
})();
