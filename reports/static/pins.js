"use strict";
// What somebody has installed, from what `env` commands, tables and issues say, by the patterns that
// `audit` reads by, or from lines such as `transformers==4.57.1`. A lock has conditions and edges,
// which `audit` reads: here it is only recognised. Names are keys of maps, never of objects.
const Pins = (() => {
  // What cannot be read, in a sentence, and what to do about it.
  class Fault extends Error {
    isFile = false; // whether a file, or more than one environment, was pasted
  }
  const fault = (message, isFile) => Object.assign(new Fault(message), { isFile });
  const LIMIT = 100_000; // characters; a browser lays out a megabyte in a box for seconds
  const SHORT = 60;
  const FEW = 6; // versions that a sentence names
  const WINDOW = 24; // characters before a version that say whose it is
  const ADDRESS = "an address, not a version";
  // What every transformers installs: a list without it was not made by a resolver.
  const CLOSURE = ["tokenizers", "huggingface-hub"];
  const LINE = /^([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\]\s*)?(.*)$/;
  const SPECIFIER = /^\(?(?:\s*(?:[<>=!~]=|===|[<>])\s*[\w.*+!-]+\s*,?)+\)?$/;

  const compiled = (flags) => Object.fromEntries(Object.entries(pasted.patterns).map(([name, text]) => [name, new RegExp(text, flags)]));
  const [any, here] = [compiled("gim"), compiled("iym")]; // all of a text, and what stands at a place
  const FORMS = ["pin", "have", "satisfied", "version", "row"];
  const ALIASES = new Map(Object.entries(pasted.aliases));
  const match = (name, text, place = 0) => {
    here[name].lastIndex = place;
    return here[name].exec(text);
  };
  const all = (name, text) => [...text.matchAll(any[name])];

  const canonical = (name) => name.replace(/[-_.]+/g, "-").toLowerCase();
  const named = (text) => canonical(text.replace(/^ +| +$/g, "").replaceAll(" ", "-"));
  const shorten = (text) => (text.length <= SHORT ? text : `${text.slice(0, SHORT - 1)}…`);
  const command = (file) => `run \`repromatrix audit ${file}\`, or \`nox -s audit -- ${file}\` in a checkout.`;

  // The file that a text is, by its name or its look; empty for lines of packages.
  const LOCKS = [
    ["poetry.lock", /^\[\[package\]\][^]*^\[metadata\]\s*$/m],
    ["pylock.toml", /^\[\[packages\]\]\s*$/m],
    ["uv.lock", /^\[\[package\]\]\s*$/m],
    ["FILE", /^\s*(?:\{|\[(?!\w+\]))|\0/],
  ];
  const FILES = [
    ["FILE", /^\s*(?:[{<]|\[[\w"[].*\]\s*$|[\w-]+ = )/m],
    ["requirements.txt", /--hash|\\\s*$|^[^#]*;|^\s*(?:-r|--requirement|-c|--constraint)\b/m],
  ];
  const fileOf = (text, name, signs) => (/\.(?:lock|toml|json|ya?ml)$/.test(name) ? shorten(name) : signs.find(([, sign]) => sign.test(text))?.[0] ?? "");

  // Each line without what stands before it, as `_lines` of `audit` yields them.
  const bare = (line) => {
    let [at, end] = [0, line.length];
    for (let lead = match("lead", line); lead?.[0]; lead = match("lead", line, at)) at += lead[0].length;
    while (" \t".includes(line[at] || "?")) at += 1;
    while (end > at && " \t".includes(line[end - 1])) end -= 1;
    return line.slice(at, end);
  };
  const linesOf = (text) => {
    const whole = text.replace(any.breaks, "\n");
    const left = whole.search(any.added) < 0 ? whole : whole.replace(any.removed, "");
    const lines = left.replace(any.shown, (_, name, above) => `${name ?? ""}${above ?? ""} version: `).split("\n");
    return lines.map((stood) => ({ stood, line: bare(stood.replaceAll("`", "").replaceAll("**", "")) })).filter(({ line }) => line);
  };
  const saidIn = (line) => {
    if (match("skip", line)) return [];
    if (match("installed", line)) return all("archive", line).map(([, name, version]) => ({ name, version }));
    const form = FORMS.map((name) => match(name, line)).find(Boolean);
    if (form) return [{ name: form[1], version: form[2] ?? "" }];
    const other = ({ index }) => line.slice(Math.max(0, index - WINDOW), index).search(any.other) >= 0;
    return all("within", line).filter((found) => !other(found)).map(([, name, version]) => ({ name, version, isProse: true }));
  };
  const isPin = ({ stood, line }) => line === stood.replace(/^[ \t]+/, "").trimEnd() && Boolean(match("pin", line) || "#-".includes(line[0]));
  const tells = (line) => !line.startsWith("#") && (FORMS.some((name) => match(name, line)) || all("within", line).some(([text]) => !text.includes("=")));
  const isPasted = (text, isTyped = true) => {
    const lines = linesOf(text);
    return isTyped && text.search(any.words) >= 0 ? lines.some(({ line }) => saidIn(line).length) : lines.some((one) => !isPin(one) && tells(one.line));
  };

  const gathering = () => ({ versions: new Map(), loose: new Map(), absent: new Set(), became: [], unread: [], python: "", nameless: 0 });
  const leave = (gathered, name, why) => {
    if (!gathered.loose.has(name)) gathered.loose.set(name, why);
  };
  const pin = (gathered, name, version) => gathered.versions.set(name, (gathered.versions.get(name) ?? new Set()).add(Pep440.text(name === "torch" ? version : Pep440.open(version)))); // builds of one version are one

  const readPasted = (text, gathered) => {
    const said = [];
    for (const { line } of linesOf(text)) {
      const every = saidIn(line).map((one) => ({ ...one, name: ALIASES.get(named(one.name)) ?? named(one.name) }));
      const [about] = every.length || match("skip", line) ? [] : all("named", line);
      if (about && line.slice(about.index + about[0].length).search(any.number) >= 0) gathered.unread.push(shorten(line));
      said.push(...every);
    }
    const formal = new Set(said.filter((one) => !one.isProse && one.version).map(({ name }) => name));
    for (const { name, version, isProse } of said) {
      if (!version || (isProse && formal.has(name))) continue;
      const parsed = Pep440.parse(version);
      if (name === "python") gathered.python = version.split(".").slice(0, 2).join(".");
      else if (!parsed) leave(gathered, name, `'${shorten(version)}' is not a version`);
      else if (parsed.dev === null) pin(gathered, name, parsed);
      else {
        gathered.became.push(`${name} ${version} is taken to be ${Pep440.text(Pep440.settled(parsed))}`);
        pin(gathered, name, Pep440.settled(parsed));
      }
    }
    for (const { name, version } of said) if (!version && !gathered.versions.has(name)) gathered.absent.add(name);
  };

  const isAddress = (line) => /^(?:-e|--editable)\b|^[./]|^\S+:\/\/|^\S+\.whl\b/.test(line);
  // Whether a line of a requirements file was understood.
  const take = (line, gathered) => {
    if (isAddress(line)) {
      const egg = /[#&]egg=([\w.-]+)/.exec(line);
      if (egg) leave(gathered, canonical(egg[1]), ADDRESS);
      else gathered.nameless += 1;
      return true;
    }
    if (line.startsWith("-") || /^Package\s+Version\b/.test(line)) return true; // an option of pip, or the head of `pip list`
    const [, name, rest] = LINE.exec(line) ?? [];
    if (name === undefined) return false;
    const [, exact] = /^\(?(?:={2,3}\s*)?(\d[^\s,)]*|v\d[^\s,)]*)\)?(?:\s.*)?$/.exec(rest) ?? [];
    const version = exact && Pep440.parse(exact);
    if (version) pin(gathered, canonical(name), version);
    else if (rest.startsWith("@")) leave(gathered, canonical(name), ADDRESS);
    else if (!rest || SPECIFIER.test(rest)) leave(gathered, canonical(name), `${rest.replace(/\s/g, "").split(",").sort().join(",") || "any version"}, not a pin`);
    else return false;
    return true;
  };
  const readLines = (text, gathered) => {
    const lines = text.split(/\r\n|[\n\r]/).map((line) => line.replace(/(^|\s)#.*$/, "").trim());
    const odd = lines.findIndex((line) => line && !take(line, gathered));
    if (odd >= 0) throw new Fault(`Line ${odd + 1}: cannot read '${shorten(lines[odd])}'. A line is a package and its version, such as \`transformers==4.57.1\`.`);
  };
  const settled = (gathered) => {
    const { versions, loose, nameless } = gathered;
    const pins = new Map([...versions].filter(([name, every]) => every.size === 1 && !loose.has(name)).map(([name, [only]]) => [name, only]));
    const several = [...versions].filter(([, every]) => every.size > 1).map(([name, every]) => {
      const sorted = [...every].sort((a, b) => Pep440.compare(Pep440.parse(a), Pep440.parse(b)));
      return [name, `several versions: ${sorted.join(", ")}`];
    });
    return { ...gathered, pins, loose: new Map([...several, ...loose]), whole: CLOSURE.every((name) => pins.has(name)) && !nameless };
  };
  // What was read and what was not, in one line; `known` are packages that a case is about.
  const sentence = (found, known) => {
    const list = (names) => (names.length > FEW ? [...names.slice(0, FEW - 1), `${names.length - FEW + 1} more`] : names).join(", ");
    const [read, rest] = [true, false].map((wanted) => [...found.pins].filter(([name]) => known.has(name) === wanted).map((one) => one.join(" ")));
    const unread = found.unread.length ? `${found.unread.length} ${found.unread.length === 1 ? "line" : "lines"}, such as '${found.unread[0]}'` : "";
    const parts = [["Read", list(found.python ? [...read, `Python ${found.python}`] : read)], ["no case depends on", list(rest)], ["without a version", list([...found.loose.keys()])], ["not installed", list([...found.absent])], ["not read", unread]];
    return `${[...parts.filter(([, text]) => text).map((part) => part.join(": ")), ...found.became].join("; ")}.`;
  };

  // The packages of a text; raises a Fault with a sentence.
  const read = (text, name = "") => {
    if (text.length > LIMIT) throw new Fault(`This has ${Math.ceil(text.length / 1000)} kB; this page reads up to ${LIMIT / 1000} kB: ${command(fileOf(text.slice(0, LIMIT), name, LOCKS) || "FILE")}`);
    const isText = !fileOf(text, name, LOCKS) && isPasted(text, !name);
    if (!isText && text.includes("Traceback (most recent call last)")) throw new Fault(`This is a traceback, without versions. Paste what \`pip freeze\`, \`pip list\` or \`transformers env\` prints. The search of the first page compares an error.`);
    const file = isText ? "" : fileOf(text, name, [...LOCKS, ...FILES]);
    if (file) throw fault(`This page reads lists of versions. For ${file === "FILE" ? "a file" : file}, ${command(file)}`, true);
    const gathered = gathering();
    (isText ? readPasted : readLines)(text, gathered);
    const found = settled(gathered);
    if (isText && gathered.versions.get("transformers")?.size > 1) throw fault(`It holds transformers with ${found.loose.get("transformers")}: several environments in one. Paste one of them.`, true);
    const count = found.pins.size + found.loose.size;
    if (found.pins.has("transformers") || found.loose.has("transformers")) return found;
    throw new Fault(`It lists ${count} ${count === 1 ? "package" : "packages"}, but not transformers. Every case is about transformers: paste the set of packages that has it.`);
  };
  return { Fault, LIMIT, bare, gathering, isPasted, read, readPasted, sentence, settled };
})();
