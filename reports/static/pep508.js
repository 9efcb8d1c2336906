"use strict";
// Requirements and their markers (PEP 508), as pip reads them.
const Pep508 = (() => {
  class Fault extends Error {}

  const canonical = (name) => name.replace(/[-_.]+/g, "-").toLowerCase();

  // One clause of a specifier; null where it is none.
  const CLAUSE = /^\s*(===|~=|==|!=|<=|>=|<|>)\s*(\S+?)\s*$/;
  const clause = (text) => {
    const found = CLAUSE.exec(text);
    if (!found) return null;
    const [, operator, written] = found;
    if (operator === "===") return { operator, written };
    const isPrefix = written.endsWith(".*") && (operator === "==" || operator === "!=");
    const version = Pep440.parse(isPrefix ? written.slice(0, -2) : written);
    if (!version || (version.local && !["==", "!="].includes(operator))) return null;
    if (operator === "~=" && version.release.length < 2) return null;
    return { operator, written, version, isPrefix };
  };
  const startsWith = (one, prefix) => {
    const padded = prefix.release.map((_, i) => one.release[i] ?? "0");
    return one.epoch === prefix.epoch && Pep440.compareReleases(padded, prefix.release) === 0;
  };
  const equals = (one, wanted) => Pep440.compare(wanted.version.local ? one : Pep440.open(one), wanted.version) === 0;
  const sameRelease = (a, b) => a.epoch === b.epoch && Pep440.compareReleases(a.release, b.release) === 0;
  const contains = (wanted, one) => {
    const sign = () => Pep440.compare(Pep440.open(one), wanted.version);
    switch (wanted.operator) {
      case "==": return wanted.isPrefix ? startsWith(one, wanted.version) : equals(one, wanted);
      case "!=": return !contains({ ...wanted, operator: "==" }, one);
      case ">=": return sign() >= 0;
      case "<=": return sign() <= 0;
      case "<": return sign() < 0 && (Pep440.isPre(wanted.version) || !Pep440.isPre(one) || !sameRelease(one, wanted.version));
      case ">": return sign() > 0 && (wanted.version.post !== null || one.post === null || !sameRelease(one, wanted.version));
      case "~=": return sign() >= 0 && startsWith(one, { ...wanted.version, release: wanted.version.release.slice(0, -1) });
      default: return Pep440.text(one) === wanted.written;
    }
  };

  // Markers: read into a tree, then asked with the values of a platform.
  const TOKEN = /\s*(?:(\(|\))|(===|~=|==|!=|<=|>=|<|>)|'([^']*)'|"([^"]*)"|([a-z][a-z0-9_.]*))/y;
  const NAMES = new Set(["python_version", "python_full_version", "os_name", "sys_platform", "platform_release", "platform_system", "platform_version", "platform_machine", "platform_python_implementation", "implementation_name", "implementation_version", "extra", "extras", "dependency_groups"]);
  const ALIASES = { "os.name": "os_name", "sys.platform": "sys_platform", "platform.version": "platform_version", "platform.machine": "platform_machine", "platform.python_implementation": "platform_python_implementation", python_implementation: "platform_python_implementation" };
  const VERSIONS = new Set(["implementation_version", "platform_release", "python_full_version", "python_version"]);
  const DEEPEST = 200;

  const tokens = (text) => {
    const list = [];
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < text.trimEnd().length) {
      const at = TOKEN.lastIndex;
      const found = TOKEN.exec(text);
      if (!found) throw new Fault(`the marker cannot be read at ${text.slice(at, at + 20).trim()}`);
      const [, bracket, operator, single, double, word] = found;
      list.push(bracket || operator || word ? { kind: bracket ?? (operator ? "operator" : "word"), text: bracket ?? operator ?? word } : { kind: "value", text: single ?? double });
    }
    return list;
  };
  const marker = (text) => {
    const list = tokens(text);
    let at = 0;
    const isWord = (word) => list[at]?.kind === "word" && list[at].text === word;
    const side = () => {
      const token = list[at];
      at += 1;
      if (token?.kind === "value") return { value: token.text };
      const name = token?.kind === "word" ? ALIASES[token.text] ?? token.text : "";
      if (!NAMES.has(name)) throw new Fault("the marker names nothing that is known");
      return { name };
    };
    const comparison = () => {
      const left = side();
      let operator = list[at]?.kind === "operator" ? list[at].text : "";
      if (isWord("in")) operator = "in";
      else if (isWord("not") && list[at + 1]?.text === "in") { operator = "not in"; at += 1; }
      if (!operator) throw new Fault("the marker compares nothing");
      at += 1;
      const right = side();
      if ((left.name === undefined) === (right.name === undefined)) throw new Fault("the marker compares no value with a name");
      return { left, operator, right };
    };
    const atom = (depth) => {
      if (depth > DEEPEST) throw new Fault("the marker is nested too deep");
      if (list[at]?.kind !== "(") return comparison();
      at += 1;
      const inner = either(depth + 1);
      if (list[at]?.kind !== ")") throw new Fault("a parenthesis of the marker is open");
      at += 1;
      return inner;
    };
    const chain = (word, part) => {
      const parts = [part()];
      while (isWord(word)) { at += 1; parts.push(part()); }
      return parts.length > 1 ? { [word]: parts } : parts[0];
    };
    const either = (depth) => chain("or", () => chain("and", () => atom(depth)));
    const tree = either(0);
    if (at < list.length) throw new Fault("the marker does not end where it should");
    return tree;
  };
  const OPERATORS = {
    in: (a, b) => (b instanceof Set ? b.has(a) : b.includes(a)),
    "not in": (a, b) => !OPERATORS.in(a, b),
    "==": (a, b) => a === b, ">=": (a, b) => a === b, "<=": (a, b) => a === b,
    "!=": (a, b) => a !== b, "<": () => false, ">": () => false,
  };
  const compared = ({ left, operator, right }, values) => {
    const key = left.name ?? right.name;
    const read = (part) => {
      if (part.name === undefined) return ["extra", "extras", "dependency_groups"].includes(key) ? canonical(part.value) : part.value;
      const value = values[part.name];
      if (value === undefined) throw new Fault(`nothing is known of ${part.name}`);
      return part.name === "extra" ? canonical(value) : value;
    };
    const [a, b] = [read(left), read(right)];
    if (VERSIONS.has(key)) {
      const wanted = clause(`${operator}${b}`);
      const version = wanted && Pep440.parse(a);
      if (wanted) return Boolean(version) && contains(wanted, version);
    }
    if (!OPERATORS[operator]) throw new Fault(`${operator} does not fit in the marker`);
    return OPERATORS[operator](a, b);
  };
  const ask = (tree, values) => {
    if (tree.or) return tree.or.some((part) => ask(part, values));
    if (tree.and) return tree.and.every((part) => ask(part, values));
    return compared(tree, values);
  };

  // A line of a requirements file without its options and comments.
  const LINE = /^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*([^]*)$/;
  const requirement = (line) => {
    const found = LINE.exec(line);
    if (!found) throw new Fault("it does not begin with the name of a package");
    const [, name, , rest] = found;
    if (rest.startsWith("@")) {
      const [, url, after] = /^@\s*(\S+)([^]*)$/.exec(rest) ?? [];
      if (!url) throw new Fault("there is no address behind @");
      const behind = after.trim();
      if (behind && !behind.startsWith(";")) throw new Fault("there is more behind the address than a marker");
      return { name, url, clauses: [], marker: behind ? marker(behind.slice(1)) : null, markerText: behind.slice(1).trim() };
    }
    const cut = rest.indexOf(";");
    const written = (cut < 0 ? rest : rest.slice(0, cut)).trim();
    const bare = /^\(([^()]*)\)$/.exec(written)?.[1] ?? written;
    const parts = bare.trim() ? bare.replace(/,\s*$/, "").split(",") : [];
    const clauses = parts.map(clause);
    if (clauses.includes(null)) throw new Fault("what stands behind the name is no version");
    const markerText = cut < 0 ? "" : rest.slice(cut + 1).trim();
    if (cut >= 0 && !markerText) throw new Fault("there is no marker behind the semicolon");
    return { name, url: "", clauses, marker: markerText ? marker(markerText) : null, markerText };
  };

  return { Fault, canonical, marker, ask, requirement };
})();
