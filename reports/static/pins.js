"use strict";
// What somebody has installed, from lines such as `transformers==4.57.1`. A lock has conditions and
// edges, which `audit` reads: here it is only recognised. Names are keys of maps, never of objects.
const Pins = (() => {
  // What cannot be read, in a sentence, and what to do about it.
  class Fault extends Error {}
  const LIMIT = 100_000; // characters; a browser lays out a megabyte in a box for seconds
  const SHORT = 60;
  const ADDRESS = "an address, not a version";
  // What every transformers installs: a list without it was not made by a resolver.
  const CLOSURE = ["tokenizers", "huggingface-hub"];
  const LINE = /^([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\]\s*)?(.*)$/;

  const SPECIFIER = /^\(?(?:\s*(?:[<>=!~]=|===|[<>])\s*[\w.*+!-]+\s*,?)+\)?$/;

  const canonical = (name) => name.replace(/[-_.]+/g, "-").toLowerCase();
  const shorten = (text) => (text.length <= SHORT ? text : `${text.slice(0, SHORT - 1)}…`);
  const command = (file) => `run \`repromatrix audit ${file}\`, or \`nox -s audit -- ${file}\` in a checkout.`;

  // The file that a text is, by its name or its look; empty for lines of packages.
  const SIGNS = [
    ["poetry.lock", /^\[\[package\]\][^]*^\[metadata\]\s*$/m],
    ["pylock.toml", /^\[\[packages\]\]\s*$/m],
    ["uv.lock", /^\[\[package\]\]\s*$/m],
    ["FILE", /^\s*(?:[{<]|\[[\w"[].*\]\s*$|[\w-]+ = )|\0/m],
    ["requirements.txt", /--hash|\\\s*$|^[^#]*;|^\s*(?:-r|--requirement|-c|--constraint)\b/m],
  ];
  const fileOf = (text, name) => {
    if (/\.(?:lock|toml|json|ya?ml)$/.test(name)) return shorten(name);
    return SIGNS.find(([, sign]) => sign.test(text))?.[0] ?? "";
  };

  const gathering = () => {
    const versions = new Map();
    const loose = new Map();
    const leave = (name, why) => {
      if (!loose.has(canonical(name))) loose.set(canonical(name), why);
    };
    const pin = (name, version) => {
      const known = versions.get(canonical(name)) ?? new Set();
      versions.set(canonical(name), known.add(Pep440.text(version)));
    };
    return { versions, loose, leave, pin, nameless: 0 };
  };
  const isAddress = (line) => /^(?:-e|--editable)\b|^[./]|^\S+:\/\/|^\S+\.whl\b/.test(line);
  // Whether a line was understood.
  const take = (line, gathered) => {
    if (isAddress(line)) {
      const egg = /[#&]egg=([\w.-]+)/.exec(line);
      if (egg) gathered.leave(egg[1], ADDRESS);
      else gathered.nameless += 1;
      return true;
    }
    if (line.startsWith("-") || /^Package\s+Version\b/.test(line)) return true; // an option of pip, or the head of `pip list`
    const [, name, rest] = LINE.exec(line) ?? [];
    if (name === undefined) return false;
    const [, exact] = /^\(?(?:={2,3}\s*)?(\d[^\s,)]*|v\d[^\s,)]*)\)?(?:\s.*)?$/.exec(rest) ?? [];
    const version = exact && Pep440.parse(exact);
    if (version) gathered.pin(name, version);
    else if (rest.startsWith("@")) gathered.leave(name, ADDRESS);
    else if (!rest || SPECIFIER.test(rest)) gathered.leave(name, `${rest.replace(/\s/g, "").split(",").sort().join(",") || "any version"}, not a pin`);
    else return false;
    return true;
  };
  const settled = ({ versions, loose, nameless }) => {
    const pins = new Map([...versions].filter(([name, all]) => all.size === 1 && !loose.has(name)).map(([name, [only]]) => [name, only]));
    const several = [...versions].filter(([, all]) => all.size > 1).map(([name, all]) => {
      const sorted = [...all].sort((a, b) => Pep440.compare(Pep440.parse(a), Pep440.parse(b)));
      return [name, `several versions: ${sorted.join(", ")}`];
    });
    return { pins, loose: new Map([...several, ...loose]), whole: CLOSURE.every((name) => pins.has(name)) && !nameless, nameless };
  };

  // The packages of a text; raises a Fault with a sentence.
  const read = (text, name = "") => {
    if (text.length > LIMIT) throw new Fault(`This has ${Math.ceil(text.length / 1000)} kB; this page reads up to ${LIMIT / 1000} kB: ${command(fileOf(text.slice(0, LIMIT), name) || "FILE")}`);
    const file = fileOf(text, name);
    if (file) throw new Fault(`This page reads lines such as \`transformers==4.57.1\`. For ${file === "FILE" ? "a file" : file}, ${command(file)}`);
    const gathered = gathering();
    const lines = text.split(/\r\n|[\n\r]/).map((line) => line.replace(/(^|\s)#.*$/, "").trim());
    const odd = lines.findIndex((line) => line && !take(line, gathered));
    if (odd >= 0) throw new Fault(`Line ${odd + 1}: cannot read '${shorten(lines[odd])}'. A line is a package and its version, such as \`transformers==4.57.1\`.`);
    const found = settled(gathered);
    const count = found.pins.size + found.loose.size;
    if (found.pins.has("transformers") || found.loose.has("transformers")) return found;
    throw new Fault(`It lists ${count} ${count === 1 ? "package" : "packages"}, but not transformers. Every case is about transformers: paste the set of packages that has it.`);
  };
  return { Fault, LIMIT, read };
})();
