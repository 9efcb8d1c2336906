"use strict";
// Plain words, as people type them: which cases are nearest, when none has all of the words.
// It knows texts, and nothing of the page.
const Rank = (() => {
  const LITTLE = new Set("a an and are as at be bug but by can do does fix fixed for from got has how i if in into is issue issues it leads my not of on or same should support the this to type using when which why with".split(" "));
  // What people call a thing, and what cases call it.
  const ALSO = {
    lora: ["lora", "adapter", "peft"], qlora: ["lora", "adapter"], finetune: ["trainer", "train"], finetuning: ["trainer", "train"], training: ["train"],
    half: ["half", "fp16", "bf16", "16-bit", "16 bit"], bfloat16: ["bf16"], float16: ["fp16"], float32: ["fp32"], amp: ["autocast"],
    wrong: ["wrong"], gibberish: ["wrong numbers", "nan or inf"], garbage: ["wrong numbers", "nan or inf"], corrupt: ["wrong numbers"], silent: ["wrong numbers", "nan or inf", "wrong dtype"],
    infinite: ["inf"], infinity: ["inf"], overflow: ["overflow", "inf"], gpu: ["gpu", "cuda"], eval: ["eval"], evaluation: ["eval"], rope: ["rope", "rotary"],
    uninitialized: ["uninitialised"], normalization: ["normalisation", "norm"], optimizer: ["optimizer", "optimiser"],
  };
  const MOST = 60; // words of a text that are looked up: a pasted log has thousands
  const LONGEST = 80;
  const squashed = (text) => text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "");
  const stem = (word) => (word.length > 5 ? word.replace(/(?:ations?|ings?|ed|es|s)$/, "") : word);

  // An address of an issue is known by its owner, name and number.
  const plain = (text) => text.replaceAll(/https?:\/\/github\.com\/([\w.-]+\/[\w.-]+)\/(?:issues|pull)\/(\d+)\S*/g, "$1#$2");

  // A field by how much it tells of the case: its name, its title, then everything that is said.
  const fields = (entry, book) => {
    const precisions = book.precisions.filter((_, i) => entry.tracks.some((track) => !track.workaround && track.cells.some((stack) => stack >= 0 && Book.FAILS.has(book.told[book.stacks[stack][i]].mark))));
    const names = [entry.name, ...entry.models, ...namesOf(entry)].join(" ");
    const texts = [names, entry.title, [...entry.badges, ...precisions].join(" "), entry.haystack];
    return texts.map((text) => ({ text: text.toLowerCase(), squashed: squashed(text) }));
  };
  const namesOf = (entry) => entry.packages.filter((name) => name !== "torch" && name !== "transformers");
  const WEIGHTS = [6, 3, 2, 1];
  const UNREPORTED = 0.8; // of its score: what people look for, somebody has mostly reported
  const NAMES = 2; // of the fields, those that name the case

  // Each word with its parts: DebertaForMaskedLM, pixtral-12b.
  const words = (texts) => {
    const all = texts.flatMap((text) => plain(text).split(/[\s,;()[\]{}"'`]+/)).filter((word) => squashed(word)).slice(0, 20 * MOST);
    const telling = all.filter((word) => !LITTLE.has(squashed(word)));
    return [...new Set(telling.length ? telling : all)].slice(0, MOST).map((word) => {
      const parts = word.slice(0, LONGEST).replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").toLowerCase().split(/[^\p{L}\p{N}.]+/u);
      return { word: word.slice(0, LONGEST).toLowerCase(), parts: parts.filter((part) => part.length > 1 && !LITTLE.has(part)) };
    });
  };
  const formsOf = (word) => [word, ...(ALSO[squashed(word)] ?? [])].map((form) => ({ form: stem(form), bare: squashed(stem(form)) }));
  // The first field that has it weighs most, so that the long ones are rarely read.
  const weightIn = (entry, forms, fields = WEIGHTS.length) => {
    const at = entry.fields.slice(0, fields).findIndex((field) => forms.some(({ form, bare }) => field.text.includes(form) || (bare.length > 3 && field.squashed.includes(bare))));
    return at < 0 ? 0 : WEIGHTS[at];
  };
  const having = (entries, forms, fields) => entries.map((entry) => [entry, weightIn(entry, forms, fields)]).filter(([, weight]) => weight);

  // Two or three words side by side may be one name: qwen 2.5 vl.
  const joined = (list) => list.flatMap((_, i) => [2, 3].map((size) => list.slice(i, i + size)).filter((some) => some.length > 1 && some.length === new Set(some).size)).map((some) => some.join(""));

  // The cases that have anything of it, the nearest first; `share` is how many of the words, of 1, a
  // case must have.
  const nearest = (texts, entries, share = 0) => {
    const scores = new Map();
    const add = (found, factor) => {
      // What few cases have tells more than what most have.
      const rare = Math.log(1 + entries.length / (found.length || 1));
      for (const [entry, weight] of found) scores.set(entry, (scores.get(entry) ?? 0) + factor * weight * rare * (entry.reported ? 1 : UNREPORTED));
    };
    const single = words(texts);
    const had = new Map();
    for (const { word, parts } of single) {
      const found = having(entries, formsOf(word));
      for (const [entry] of found) had.set(entry, (had.get(entry) ?? 0) + 1);
      // A word that nobody has may be put together from words that somebody has.
      if (found.length || parts.length < 2) add(found, 1);
      else for (const part of new Set(parts)) add(having(entries, formsOf(part)), 1);
    }
    for (const word of joined(single.map((one) => one.word))) add(having(entries, [{ form: word, bare: squashed(word) }], NAMES), 2);
    const ranked = [...scores].sort((a, b) => b[1] - a[1] || (a[0].name < b[0].name ? -1 : 1));
    const isNear = ([entry, score]) => score >= ranked[0][1] / 3 && (had.get(entry) ?? 0) >= share * single.length;
    return ranked.filter(isNear).slice(0, 10).map(([entry]) => entry);
  };

  // For the words that no case has, those of names and titles that are spelled nearly so.
  const meant = (texts, entries) => {
    const known = new Set(entries.flatMap((entry) => [...entry.models, ...entry.shared, ...namesOf(entry), ...entry.name.split("_"), ...entry.trigger, ...entry.symptom, ...entry.title.toLowerCase().split(/[^\p{L}\p{N}.-]+/u)]).filter((word) => word.length > 3));
    return words(texts).filter(({ word, parts }) => /\p{L}{2}/u.test(word) && ![word, ...parts].some((one) => having(entries, formsOf(one)).length)).flatMap(({ word }) => {
      const near = Query.closest(word, [...known], word.length / 3);
      return near ? [[word, near]] : [];
    });
  };

  // What a text names beside its message: the models and packages of a case.
  const named = (text, entry) => {
    const bare = squashed(text);
    return [...entry.models, ...namesOf(entry)].filter((name) => name !== "any" && bare.includes(squashed(name)));
  };

  return { fields, nearest, meant, named };
})();

// From a query's tree to the cases that it holds for, and the columns and precisions to look at.
// It knows the data and nothing of the page.
const Search = (() => {
  const { version, compare } = Query;
  // 5.0 names the whole line where it is an end: until:5.0 holds for 5.0.1.
  const within = (found, bound) => compare(found.slice(0, bound.length), bound) === 0;

  const columnHolds = (key, value, column) => {
    if (key === "with") return column.pins.some((pin) => Query.holds(pin, value));
    if (key === "release") return column.name.toLowerCase() === value || column.line.toLowerCase() === value;
    const found = version(column.name);
    const bound = version(value);
    if (!found) return false;
    if (key === "since") return compare(found, bound) >= 0;
    return compare(found, bound) <= 0 || within(found, bound);
  };

  const cellHolds = (node, told, precision) => node.values.some((value) => {
    switch (node.key) {
      case "fails": return Book.FAILS.has(told.mark) && (value === "any" || value === precision);
      case "passes": return Book.PASSES.has(told.mark) && (value === "any" || value === precision);
      case "verdict": return told.verdict === value;
      case "outcome": return told.outcome === value;
      case "is": return value === "stale" || value === "here" ? told[value] : told.mark === value || (value === "not-exercised" && told.exercised === "no");
      default: return told.text.toLowerCase().includes(value);
    }
  });
  const caseHolds = (node, entry) => node.values.some((value) => {
    const among = (names) => names.some((name) => name.toLowerCase() === value);
    switch (node.key) {
      case "model": return among([...entry.models, ...entry.shared]) || entry.models.includes("any");
      case "trigger": return among(entry.trigger);
      case "symptom": return value === "silent" ? entry.silent : among(entry.symptom);
      case "scope":
      case "at-fault": return among(entry[node.key]);
      case "area": return among([entry.area]);
      case "package": return among(entry.packages);
      case "case": return entry.name.toLowerCase().includes(value);
      case "workaround": {
        const [names, helps] = [Object.keys(entry.ways), Object.values(entry.ways).some((way) => !way.refuted)];
        return value === "none" ? !helps : value === "any" ? helps : among(names);
      }
      default: return entry.haystack.includes(value);
    }
  });

  // Whether a case ran none of the models that a query names, and shares the code of one of them.
  const modelsIn = (node) => (node.key === "model" ? node.values : node.type === "not" ? [] : (node.parts ?? []).flatMap(modelsIn));
  const sharing = (tree) => {
    const models = new Set(modelsIn(tree));
    const among = (names) => names.some((name) => models.has(name.toLowerCase()));
    return (entry) => among(entry.shared) && !among(entry.models);
  };

  const everything = (book) => ({
    columns: book.columns.map(() => true),
    precisions: book.precisions.map(() => true),
    // A GPU measures little of what a CPU does: who wants to see it says so.
    devices: new Set(book.devices.slice(0, 1)),
    named: false,
  });
  const narrowed = (scope, node, wanted, book) => {
    const holds = (test) => node.values.some(test) === wanted;
    if (node.key === "precision") {
      return { ...scope, precisions: scope.precisions.map((on, i) => on && holds((value) => value === book.precisions[i])) };
    }
    if (node.key === "device") {
      const among = scope.named ? [...scope.devices] : book.devices;
      return { ...scope, named: true, devices: new Set(among.filter((device) => holds((value) => value === device))) };
    }
    // What has no version of its own, a stack, is neither since a release nor before it.
    const placed = (column) => node.key === "release" || node.key === "with" || version(column.name) !== null;
    return { ...scope, columns: scope.columns.map((on, i) => on && placed(book.columns[i]) && holds((value) => columnHolds(node.key, value, book.columns[i]))) };
  };

  // Where nothing is left to look at, every case would be missed without a word.
  const PARTS = { precision: ["precisions", "precision"], device: ["devices", "device"] };
  const sizeOf = (scope, part) => (part === "devices" ? scope.devices.size : scope[part].filter(Boolean).length);
  const refuseEmpty = (before, after, scopes, at) => {
    const partOf = (node) => PARTS[node.key] ?? ["columns", "release"];
    const { node } = scopes[at];
    const [part, noun] = partOf(node);
    if (sizeOf(after, part) || !sizeOf(before, part)) return;
    const termOf = (one) => `${one.wanted ? "" : "-"}${one.node.key}:${one.node.values.join(",")}`;
    const beside = scopes.slice(0, at).filter((one) => partOf(one.node)[0] === part).map(termOf);
    const where = beside.length ? ` beside ${beside.join(" ")}` : " in this table";
    throw new Query.Fault(`${termOf(scopes[at])} leaves no ${noun} to look at${where}.`, node.start, node.end);
  };
  const scoped = (scope, scopes, book) => scopes.reduce((before, { node, wanted }, at) => {
    const after = narrowed(before, node, wanted, book);
    refuseEmpty(before, after, scopes, at);
    return after;
  }, scope);

  const bare = (node) => (node.type === "not" ? { node: node.part, wanted: false } : { node, wanted: true });

  // What a stack shows is asked once for each of the few stacks that there are. That a part is
  // simulated is said of a case, and so of every cell that it has.
  const table = (node, scope, book) => {
    const plain = node.key === "fails" || node.key === "passes";
    const simulated = node.key === "is" && node.values.includes("simulated");
    const hits = book.stacks.map((stack) => stack.some((told, i) => scope.precisions[i] && cellHolds(node, book.told[told], book.precisions[i])));
    return { hits, plain, simulated };
  };
  const applicable = (scope, book) => ({
    hits: book.stacks.map((stack) => stack.some((told, i) => scope.precisions[i] && book.told[told].mark !== "not-applicable")),
    plain: false,
    simulated: false,
  });
  const someCell = (entry, scope, tables) => entry.tracks.some((track) => {
    if (!scope.devices.has(track.device)) return false;
    if (track.workaround && tables.some((one) => one.plain)) return false;
    return track.cells.some((stack, column) => stack >= 0 && scope.columns[column] && tables.every((one) => one.hits[stack] || (one.simulated && entry.simulated)));
  });

  const group = (node, scope, book) => {
    if (node.type === "or") {
      const tests = node.parts.map((part) => group(part, scope, book).test);
      return { scope, test: (entry) => tests.some((test) => test(entry)) };
    }
    const parts = (node.type === "and" ? node.parts : [node]).map(bare);
    const inner = scoped(scope, parts.filter(({ node: part }) => Query.KEYS[part.key]?.kind === "scope"), book);
    const tests = [];
    // Who types a version asks what happens there: a case that cannot run there is no answer.
    const applies = parts.some(({ node: part }) => part.bare) ? [applicable(inner, book)] : [];
    const together = [];
    for (const { node: part, wanted } of parts) {
      const kind = part.type === "atom" ? Query.KEYS[part.key]?.kind ?? "case" : "group";
      if (kind === "scope") continue;
      if (kind === "group") {
        const { test } = group(part, inner, book);
        tests.push((entry) => test(entry) === wanted);
      } else if (kind === "case") {
        tests.push((entry) => caseHolds(part, entry) === wanted);
      } else {
        const asked = table(part, inner, book);
        if (wanted) together.push(asked);
        else tests.push((entry) => !someCell(entry, inner, [asked]));
      }
    }
    tests.push((entry) => someCell(entry, inner, [...together, ...applies]));
    return { scope: inner, test: (entry) => tests.every((test) => test(entry)), together };
  };

  const plainOf = (tree) => (tree.type === "and" ? tree.parts.filter((part) => part.type === "atom" && part.key === "text").flatMap((part) => part.values) : []);

  // The words that are typed rank the cases; what else is asked for still has to hold.
  const byWords = (texts, tree, book) => {
    const others = group({ type: "and", parts: tree.parts.filter((part) => part.key !== "text") }, everything(book), book).test;
    return Rank.nearest(texts, book.cases.filter(others));
  };
  const MESSAGE = 4; // words
  // The columns whose versions a text names: 4.50.3, peft==0.15.2, torch 2.6.0.
  const placesIn = (text, book) => {
    const versions = [...text.matchAll(/(?:([a-z][\w-]*)\s*(?:==|:|version)?\s*)?\b(\d+(?:\.\d+){2,})\b/gi)].map(([, name, number]) => [name?.toLowerCase(), number]);
    return book.columns.flatMap((column, at) => (versions.some(([name, number]) => column.name === number || column.pins.includes(`${name}==${number}`)) ? [at] : []));
  };
  const failsIn = (entry, column, book) => entry.tracks.some((track) => !track.workaround && track.cells[column] >= 0 && book.stacks[track.cells[column]].some((told) => Book.FAILS.has(book.told[told].mark)));
  const namedIn = (text, entry, columns, book) => {
    const column = columns.find((one) => failsIn(entry, one, book));
    return [...Rank.named(text, entry), ...(column === undefined ? [] : [`versions with which it fails (${book.columns[column].name})`])];
  };

  // Parse and compile: which cases it holds for, and the columns and precisions to look at.
  const compile = (text, book, errors) => {
    const { query, error } = Paste.split(text);
    const tree = Query.parse(query, book.words);
    let found;
    try {
      found = group(tree, everything(book), book);
    } catch (fault) {
      if (fault instanceof Query.Fault) fault.tree = tree; // it was read: what is chosen beside it can mend it
      throw fault;
    }
    const read = { tree, scope: found.scope, asked: found.together ?? [], error, texts: plainOf(tree), failures: [], nearest: [], shares: sharing(tree), holds: found.test };
    const entries = new Map(book.cases.filter(error ? found.test : () => true).map((entry) => [entry.name, entry]));
    const ranked = (message) => {
      const columns = placesIn(message, book);
      return errors.rank(message, (name) => (entries.has(name) ? namedIn(message, entries.get(name), columns, book) : null));
    };
    const casesOf = (failures) => failures.map((one) => entries.get(one.one.case));
    if (error) {
      const failures = ranked(error);
      const { name, message } = errors.read(error);
      const nearest = failures.length ? casesOf(failures) : Rank.nearest([name, message], [...entries.values()], 0.5);
      return { ...read, failures, nearest, holds: (entry) => nearest.includes(entry) };
    }
    if (read.texts.length) {
      // A message without its class is words: only a failure that says the same answers it.
      if (errors && read.texts.length >= MESSAGE) read.failures = ranked(text).filter((one) => one.same || one.expects);
      read.nearest = [...new Set([...casesOf(read.failures), ...byWords(read.texts, tree, book)])];
      if (!book.cases.some(read.holds)) read.holds = (entry) => read.nearest.includes(entry);
    }
    return read;
  };

  return { compile };
})();
