"use strict";
// What somebody has installed, from the text of a file: uv.lock, pylock.toml, poetry.lock,
// requirements or what `pip freeze` prints. Names are keys of maps, never of objects.
const Locks = (() => {
  // What cannot be read, in a sentence, and what to do about it.
  class Fault extends Error {
    constructor(what, fix = "") {
      super(fix ? `${what} ${fix}` : what);
    }
  }
  const LIMIT = 6_000_000; // characters; the largest locks that are known have 5.3 MB
  const READ_LIMIT = 2_500_000; // of those, without the lines of files
  const MOST = 10_000; // packages; more than any environment has
  const AUDIT = "Check that it is a lock, or run `nox -s audit -- FILE`.";
  const SHORT = 40;
  const LONGEST = 16_000;
  const FAULTS = 3;
  const ADDRESS = "an address, not a version";
  const AGAIN = "The file may be cut off: make it again.";
  const ANOTHER = "Paste a uv.lock, pylock.toml, poetry.lock, a requirements file or what `pip freeze` prints.";
  // What every transformers installs: a list without it was not made by a resolver.
  const CLOSURE = ["tokenizers", "huggingface-hub"];

  const shorten = (text, width) => {
    const line = text.replace(/\s+/g, " ").trim();
    return line.length <= width ? line : `${line.slice(0, width - 1)}…`;
  };
  const { canonical } = Pep508;
  const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const list = (value) => (Array.isArray(value) ? value : []);
  const tables = (value) => list(value).filter(isTable);

  // Packages as they are read; one that occurs in two versions is not pinned.
  const gathering = () => {
    const versions = new Map();
    const loose = new Map();
    const passed = [];
    const leave = (name, why) => {
      if (!loose.has(canonical(name))) loose.set(canonical(name), why);
    };
    const pin = (name, text) => {
      const version = Pep440.parse(text);
      if (!version) return leave(name, `'${shorten(text, SHORT)}' is not a version`);
      const key = canonical(name);
      if (!versions.has(key)) versions.set(key, new Set());
      return versions.get(key).add(Pep440.text(version));
    };
    return { versions, loose, passed, pin, leave, conditional: false, nameless: 0 };
  };
  const settledAs = (form, gathered, markers) => {
    const { versions, loose } = gathered;
    const pins = new Map([...versions].filter(([name, all]) => all.size === 1 && !loose.has(name)).map(([name, all]) => [name, [...all][0]]));
    const several = [...versions].filter(([, all]) => all.size > 1).map(([name, all]) => {
      const sorted = [...all].sort((a, b) => Pep440.compare(Pep440.parse(a), Pep440.parse(b)) || (a < b ? -1 : 1));
      return [name, `several versions: ${sorted.join(", ")}`];
    });
    const others = gathered.passed.filter(([name, version]) => version && !versions.get(name)?.has(version));
    const resolved = CLOSURE.every((name) => pins.has(name)) && !gathered.nameless;
    return {
      form,
      pins,
      loose: new Map([...several, ...loose]),
      whole: form !== "requirements" || resolved,
      markers,
      conditional: gathered.conditional,
      others,
      nameless: gathered.nameless,
    };
  };

  const holds = (text, markers) => {
    if (!text) return true;
    if (String(text).length > LONGEST) throw new Fault(`A marker has more than ${LONGEST} characters.`);
    try {
      const tree = Pep508.marker(String(text));
      // It is not known which extras were installed, so what one may bring is not left out.
      const extras = [...String(text).matchAll(/extra\s*==\s*['"]([^'"]+)['"]/g)].map((found) => found[1]);
      return ["", ...extras].some((extra) => Pep508.ask(tree, { ...markers, extra }));
    } catch (error) {
      if (!(error instanceof Pep508.Fault)) throw error;
      throw new Fault(`The marker '${shorten(String(text), 60)}' cannot be read: ${error.message}.`, AGAIN);
    }
  };

  // Requirements

  const logicalLines = function* (text) {
    let [start, parts, number] = [0, [], 0];
    for (const physical of text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)) {
      number += 1;
      start ||= number;
      const line = physical.replace(/(^|\s)#.*$/, "").trimEnd();
      parts.push(line.endsWith("\\") ? line.slice(0, -1) : line);
      if (line.endsWith("\\")) continue;
      const joined = parts.join("").trim();
      if (joined) yield [start, joined];
      [start, parts] = [0, []];
    }
    if (parts.length && parts.join("").trim()) yield [start, `${parts.join("").trim()} \\`];
  };
  const wheel = (text) => {
    const path = text.split(/[?#]/)[0].split("/").pop();
    let name = path;
    try { name = decodeURIComponent(path); } catch { /* it is written as it is */ }
    const found = /^([A-Za-z0-9_.]+?)-([^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl$/.exec(name);
    const version = found && Pep440.parse(found[2]);
    return version ? [found[1], Pep440.text(version)] : null;
  };
  const address = (text, gathered) => {
    const found = wheel(text);
    const egg = /[#&]egg=([\w.-]+)/.exec(text);
    if (found) gathered.pin(...found);
    else if (egg) gathered.leave(egg[1], ADDRESS);
    else gathered.nameless += 1;
  };
  const one = (line, markers, gathered) => {
    if (line.length > LONGEST) throw new Pep508.Fault(`it has ${line.length} characters`);
    const asked = Pep508.requirement(line);
    gathered.conditional ||= asked.marker !== null;
    const [only] = asked.clauses;
    const isExact = asked.clauses.length === 1 && ["==", "==="].includes(only.operator) && !only.isPrefix;
    const version = isExact ? only.written : "";
    if (asked.marker && !Pep508.ask(asked.marker, markers)) {
      if (version) gathered.passed.push([canonical(asked.name), version, asked.markerText]);
    } else if (asked.url) {
      gathered.leave(asked.name, ADDRESS);
    } else if (version) {
      gathered.pin(asked.name, version);
    } else {
      // packaging writes the clauses in the order of their text
      const written = asked.clauses.map((each) => each.operator + each.written).sort().join(",");
      gathered.leave(asked.name, `${written || "any version"}, not a pin`);
    }
  };
  const line = (text, markers, gathered) => {
    if (text.endsWith("\\")) throw new Pep508.Fault("the file ends here and is cut off");
    const editable = /^(?:-e|--editable)[= ]?\s*(\S+)/.exec(text);
    const first = text.split(" ", 1)[0];
    if (/^(?:-r|--requirement)[= ]?\s*\S+$/.test(text)) throw new Pep508.Fault("it names another file, which a page cannot open: paste that one, too");
    if (editable || first.includes("://") || /^[./]/.test(first) || first.endsWith(".whl")) address(editable ? editable[1] : text, gathered);
    else if (!text.startsWith("-")) one(text.replace(/\s--hash[= ]\S+/g, ""), markers, gathered);
  };
  const requirements = (text, markers) => {
    if (text.length > READ_LIMIT) throw new Fault(`As a list of requirements it has more than ${READ_LIMIT / 1e6} MB.`, AUDIT);
    const gathered = gathering();
    const faults = [];
    let lines = 0;
    for (const [number, logical] of logicalLines(text)) {
      lines += 1;
      if (lines > MOST) throw new Fault(`It has more than ${MOST} requirements.`, AUDIT);
      try {
        line(logical, markers, gathered);
      } catch (error) {
        if (!(error instanceof Pep508.Fault)) throw error;
        faults.push(`Line ${number}: cannot read '${shorten(logical, 60)}' (${error.message}).`);
      }
    }
    if (/^Package\s+Version\s*\n-+/m.test(text)) throw new Fault("This is what `pip list` prints.", "Paste what `pip freeze` prints.");
    if (faults.length) {
      const more = faults.length - FAULTS;
      const rest = more > 0 ? [`${more} more ${more === 1 ? "line" : "lines"} cannot be read.`] : [];
      throw new Fault([...faults.slice(0, FAULTS), ...rest].join(" "), "A line is a requirement such as `name==1.2.3`, or an option of pip.");
    }
    return gathered;
  };

  // Locks

  const packagesOf = (table) => {
    const found = tables(table.package).filter((row) => typeof row.name === "string");
    if (!found.length) throw new Fault("It has no packages.", AGAIN);
    if (found.length > MOST) throw new Fault(`It lists more than ${MOST} packages.`, AUDIT);
    return found;
  };
  const source = (row) => (isTable(row.source) ? row.source : {});
  const text = (value) => (value === undefined || value === null ? "" : String(value));

  const poetry = (table, markers) => {
    if (!isTable(table.metadata) || !("lock-version" in table.metadata)) throw new Fault("It has no `lock-version` below `metadata`.", "Lock it with poetry 1.1 or newer.");
    const gathered = gathering();
    for (const row of packagesOf(table)) {
      const value = row.markers ?? "";
      const texts = isTable(value) ? Object.values(value) : [value];
      gathered.conditional ||= texts.some(Boolean);
      if (!texts.some((each) => holds(each, markers))) {
        gathered.passed.push([canonical(row.name), text(row.version), texts.join(" or ")]);
      } else if (["git", "url", "directory", "file"].includes(source(row).type)) {
        gathered.leave(row.name, `an address (${source(row).type}), not a version`);
      } else {
        gathered.pin(row.name, text(row.version));
      }
    }
    return gathered;
  };

  const pylock = (table, markers) => {
    if (!/^1(\.|$)/.test(text(table["lock-version"])) || !Array.isArray(table.packages)) throw new Fault("It is not a lock of PEP 751, version 1.", AGAIN);
    const gathered = gathering();
    const names = (...values) => new Set(values.flatMap(list).map((name) => canonical(String(name))));
    const here = { ...markers, extras: names(table.extras), dependency_groups: names(table["dependency-groups"], table["default-groups"]) };
    delete here.extra;
    for (const row of tables(table.packages)) {
      if (typeof row.name !== "string") throw new Fault("A package of it has no name.", AGAIN);
      gathered.conditional ||= row.marker !== undefined;
      let selected = true;
      try {
        selected = row.marker === undefined || Pep508.ask(Pep508.marker(String(row.marker)), here);
      } catch (error) {
        if (!(error instanceof Pep508.Fault)) throw error;
        throw new Fault(`The marker '${shorten(String(row.marker), 60)}' cannot be read: ${error.message}.`, AGAIN);
      }
      const isDirect = Boolean(row.vcs || row.directory || row.archive);
      if (!selected) gathered.passed.push([canonical(row.name), text(row.version), text(row.marker)]);
      else if (row.version === undefined || isDirect) gathered.leave(row.name, ADDRESS);
      else gathered.pin(row.name, text(row.version));
    }
    return gathered;
  };

  // The graph of a uv.lock, walked along the edges whose markers hold here.
  const uv = (table, markers) => {
    if (!Number.isInteger(table.version)) throw new Fault("It is not a lock of uv: it has no `version`.", AGAIN);
    const packages = packagesOf(table);
    const gathered = gathering();
    const byName = new Map();
    for (const row of packages) byName.set(row.name, [...byName.get(row.name) ?? [], row]);
    const seen = new Map(); // by package the extras that were entered
    const closed = new Map(); // by package the marker of an edge that does not hold here
    const note = (row) => {
      if ("registry" in source(row)) gathered.pin(row.name, text(row.version));
      else gathered.leave(row.name, `an address (${shorten(Object.keys(source(row))[0] ?? "no source", SHORT)}), not a version`);
    };
    const ofRoot = (root) => {
      note(root);
      const groups = ["optional-dependencies", "dev-dependencies"].flatMap((key) => (isTable(root[key]) ? Object.values(root[key]) : []));
      return [root.dependencies, ...groups].flatMap(tables);
    };
    const isForHere = (row) => {
      const texts = list(row["resolution-markers"]);
      gathered.conditional ||= texts.length > 0;
      return !texts.length || texts.some((each) => holds(each, markers));
    };
    const chosen = (rows, version) => {
      const exact = rows.filter((row) => version === undefined || row.version === version);
      return exact.length === 1 ? exact : exact.filter(isForHere);
    };
    const enter = (row, extra) => {
      const extras = seen.get(row) ?? new Set();
      if (extras.has(extra)) return [];
      seen.set(row, extras.add(extra));
      if (extra) return isTable(row["optional-dependencies"]) ? tables(row["optional-dependencies"][extra]) : [];
      note(row);
      return tables(row.dependencies);
    };
    const follow = (edge) => {
      gathered.conditional ||= Boolean(edge.marker);
      if (!holds(edge.marker, markers)) {
        if (!closed.has(text(edge.name))) closed.set(text(edge.name), text(edge.marker));
        return [];
      }
      if (typeof edge.name !== "string" || !byName.has(edge.name)) throw new Fault(`A package depends on '${shorten(text(edge.name), SHORT)}', which is not in the file.`, AGAIN);
      return chosen(byName.get(edge.name), edge.version).flatMap((row) => ["", ...list(edge.extra).map(String)].flatMap((extra) => enter(row, extra)));
    };
    const local = ["editable", "virtual", "directory", "path"];
    const roots = packages.filter((row) => local.some((kind) => kind in source(row)));
    const edges = [...isTable(table.manifest) ? tables(table.manifest.requirements) : [], ...roots.flatMap(ofRoot)];
    if (!edges.length) edges.push(...[...byName.keys()].map((name) => ({ name }))); // of no project
    while (edges.length) edges.push(...follow(edges.pop()));
    for (const row of packages) {
      if (seen.get(row)?.has("") || !("registry" in source(row))) continue;
      const texts = list(row["resolution-markers"]);
      gathered.passed.push([canonical(row.name), text(row.version), texts.length ? texts.join(" or ") : closed.get(row.name) ?? ""]);
    }
    return gathered;
  };

  const READERS = { "uv.lock": uv, "pylock.toml": pylock, "poetry.lock": poetry };
  const formOf = (table, name) => {
    if (name === "poetry.lock" || (isTable(table.metadata) && "lock-version" in table.metadata)) return "poetry.lock";
    if (/^pylock\.([^.]+\.)?toml$/.test(name) || "lock-version" in table) return "pylock.toml";
    if (name === "uv.lock" || ("package" in table && "version" in table)) return "uv.lock";
    const keys = Object.keys(table).slice(0, 5).map((key) => shorten(key, SHORT)).join(", ") || "nothing";
    throw new Fault(`It is TOML, and not the lock of a tool that is known (it starts with ${keys}).`, ANOTHER);
  };
  // No line of a requirements file begins with a bracket or assigns a value.
  const isToml = (content, name) => /\.(toml|lock)$/.test(name) || /^\s*(?:\[\[?[\w".-]+\]\]?\s*(?:#.*)?$|[\w-]+ = )/m.test(content);
  // Most lines of a lock describe files, which say nothing about its packages.
  const isFile = (line) => line.startsWith("    { url = ") && line.endsWith("},") && line.includes('", hash = "');
  const tableOf = (content) => {
    const rest = content.split("\n").map((each) => (isFile(each) ? "" : each)).join("\n"); // lines keep their numbers
    if (rest.length > READ_LIMIT) throw new Fault(`It has more than ${READ_LIMIT / 1e6} MB beside the lines of its files.`, AUDIT);
    try {
      return Toml.read(rest);
    } catch (error) {
      if (!(error instanceof Toml.Fault)) throw error;
      throw new Fault(`It looks like TOML and cannot be read: ${error.message}.`, AGAIN);
    }
  };
  const REFUSED = {
    "{": "This is JSON.",
    "<": "This is HTML.",
  };

  // The packages of a text; raises a Fault with a sentence.
  const read = (raw, markers, name = "") => {
    if (raw.length > LIMIT) throw new Fault(`This has ${(raw.length / 1e6).toFixed(1)} MB; this page reads up to ${LIMIT / 1e6} MB.`, AUDIT);
    const content = raw.replace(/^\ufeff/, "");
    const start = content.trimStart()[0] ?? "";
    if (REFUSED[start]) throw new Fault(REFUSED[start], ANOTHER);
    if (content.includes("\0")) throw new Fault("This is not text.", ANOTHER);
    let installed;
    if (isToml(content, name)) {
      const table = tableOf(content);
      const form = formOf(table, name);
      installed = settledAs(form, READERS[form](table, markers), markers);
    } else {
      installed = settledAs("requirements", requirements(content, markers), markers);
    }
    return withTransformers(installed);
  };
  const withTransformers = (installed) => {
    const { pins, loose, others, nameless } = installed;
    if (pins.has("transformers") || loose.has("transformers")) return installed;
    const count = pins.size + loose.size;
    const other = others.find(([name]) => name === "transformers");
    const elsewhere = other ? ` for this platform (${other[1]} for ${shorten(other[2], SHORT)})` : "";
    const addresses = nameless ? ` ${nameless} ${nameless === 1 ? "address" : "addresses"} without a package name may be it.` : "";
    throw new Fault(`It lists ${count} ${count === 1 ? "package" : "packages"}, but not transformers${elsewhere}.${addresses}`, "Every case is about transformers: paste the set of packages that has it.");
  };

  return { Fault, LIMIT, read, gathering, settledAs };
})();
