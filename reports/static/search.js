"use strict";
// Plain words, as people type them: which cases are nearest, and whether any is near enough.
// It knows texts, and nothing of the page.
const Rank = (() => {
  const LITTLE = new Set("a after all although also am an and any are as at be but by can do does doesn fail failing fails fix fixed error errors exception for from get gets give gives got has have how i if in instead into is issue issues it know leads me my new no not now of on only or same should since support t the there this to type up upgrade using value warning was we what when which why with without bug bugs error known problem problems broken break breaks safe wrong work works".split(" "));
  // What people call a thing, and what cases call it.
  const ALSO = {
    lora: ["adapter", "peft"], qlora: ["lora", "adapter", "4bit"], finetune: ["trainer", "train"], finetuning: ["trainer", "train"], training: ["train"],
    half: ["fp16", "bf16", "16bit"], bfloat16: ["bf16"], float16: ["fp16"], float32: ["fp32"], float: ["fp32"], amp: ["autocast"], "16bit": ["fp16", "bf16"],
    gibberish: ["wrong-numbers", "garbage"], garbage: ["wrong-numbers", "gibberish"], corrupted: ["wrong-numbers", "noise"], nonsense: ["wrong-numbers", "badly"],
    infinite: ["inf"], infinity: ["inf"], overflow: ["inf"], gpu: ["cuda"], evaluation: ["eval"], rope: ["rotary"], v5: ["5.0"], random: ["uninitialised"],
    embedding: ["embeddings"], parameters: ["weights"], discrepancy: ["drift", "rounds"], quantization: ["quantised"], autograd: ["gradients"],
  };
  const MOST = 60; // words of a text that are looked up: a pasted log has thousands
  const LONGEST = 80;
  const squashed = (text) => text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "");
  const stem = (word) => (word.length > 4 ? word.replace(/(?:ations?|ing|ed|es|s)$/, "") : word).replace("iz", "is");

  // An address of an issue is known by its owner, name and number.
  const plain = (text) => text.replaceAll(/https?:\/\/github\.com\/([\w.-]+\/[\w.-]+)\/(?:issues|pull)\/(\d+)\S*/g, "$1#$2");
  // Each word, and its parts where it has any: DebertaForMaskedLM, pixtral-12b, e_score_correction_bias.
  const CLASS = /(?<=\w)(?:For[A-Z][A-Za-z]+|Model|Config)$/;
  const split = (text) => (plain(text).match(/[\p{Script=Latin}\p{N}][\p{Script=Latin}\p{N}_.+-]*/gu) ?? []).map((one) => one.replace(CLASS, "")).map((word) => {
    const parts = word.replaceAll(/([a-z\d])([A-Z])/g, "$1 $2").toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean).map(stem);
    return { word: word.replace(/[._+-]+$/, ""), whole: stem(squashed(word)), parts };
  });

  const namesOf = (entry) => entry.packages.filter((name) => name !== "torch" && name !== "transformers");
  const UNREPORTED = 0.8; // of its score: what people look for, somebody has mostly reported
  const FIELDS = [3, 2.5, 1.5, 1]; // what a word weighs in the name, the title, the badges, all that is said
  const TELLS = [1, 1, 0.7, 0.5]; // how much of a word it explains there
  const NEAR = 0.32; // of what a text says, explained by a case that is near
  const UNKNOWN = 3.5; // what a word tells that no case has
  const BESIDE = 0.3; // of the best score, and the case is listed beside it
  const ABOUT = 0.6; // of what a case must explain, where the text names its model
  const ELSEWHERE = 0.4; // of the score, where the text names other models

  // By each word the cases that have it, with the first field that does.
  const index = (book) => {
    const found = new Map();
    const models = new Map();
    const put = (word, entry, field) => {
      if (!found.has(word)) found.set(word, new Map());
      if (!found.get(word).has(entry)) found.get(word).set(entry, field);
    };
    for (const entry of book.cases) {
      const precisions = book.precisions.filter((_, i) => entry.tracks.some((track) => !track.workaround && track.cells.some((stack) => stack >= 0 && Book.FAILS.has(book.told[book.stacks[stack][i]].mark))));
      const names = [entry.name, ...entry.models, ...namesOf(entry)].join(" ");
      [names, entry.title, [...entry.badges, ...entry.symptom, ...entry.trigger, ...precisions].join(" "), entry.haystack].forEach((text, field) => {
        const words = split(text);
        for (const { whole, parts } of words) for (const form of [whole, ...parts]) put(form, entry, field);
        // Two or three words side by side may be one name: qwen 2.5 vl.
        if (field < 2) for (const form of joined(words)) if (/\d/.test(form)) put(form, entry, field);
      });
      for (const name of [...entry.models, ...entry.shared]) {
        for (const form of new Set([squashed(name), squashed(name.replace(/[\d._-].*/, ""))])) {
          if (form.length > 1) put(stem(form), entry, 0);
          models.set(stem(form), (models.get(stem(form)) ?? new Set()).add(entry));
        }
      }
    }
    return Object.assign(found, { models });
  };
  const joined = (words) => words.flatMap((_, i) => [2, 3].map((size) => words.slice(i, i + size)).filter((some) => some.length > 1).map((some) => stem(some.map(({ word }) => squashed(word)).join(""))));

  const indexOf = (book) => (book.index ??= index(book));
  const hitsOf = (known, form) => {
    const hits = new Map();
    for (const each of [form, ...(ALSO[form] ?? []).map((one) => stem(squashed(one)))]) for (const [entry, field] of known.get(each) ?? []) hits.set(entry, Math.min(field, hits.get(entry) ?? field));
    return hits;
  };
  // What is looked up: words that tell something, or their parts where nobody has the whole.
  const lookedUp = (texts, known) => {
    const words = texts.flatMap(split).filter(({ word }) => word.length <= LONGEST);
    const telling = words.filter(({ word, whole }) => !LITTLE.has(word.toLowerCase()) && !LITTLE.has(whole));
    const kept = (telling.length ? telling : words).slice(0, MOST);
    const names = joined(words).filter((form) => known.models.has(form) || (/\d/.test(form) && known.has(form)));
    const forms = kept.flatMap(({ whole, parts }) => (known.has(whole) || ALSO[whole] || parts.length < 2 ? [whole] : parts.filter((part) => part.length > 1 && !LITTLE.has(part))));
    return [...new Set([...names, ...forms.filter((form) => !names.some((name) => name.includes(form)))])];
  };

  // The cases that have what a text says, the nearest first; none where no case explains enough of it.
  const nearest = (texts, entries, book, share = NEAR) => {
    const known = indexOf(book);
    const among = new Set(entries);
    const scores = new Map();
    const forms = lookedUp(texts, known);
    const about = new Set(forms.flatMap((form) => [...known.models.get(form) ?? []]));
    const isElsewhere = (entry) => about.size && !about.has(entry) && !entry.models.includes("any");
    let total = 0;
    for (const form of forms) {
      const hits = hitsOf(known, form);
      // What few cases have tells more than what most have.
      const rare = hits.size ? Math.log(1 + book.cases.length / hits.size) : UNKNOWN;
      total += rare;
      for (const [entry, field] of hits) {
        const [score, explained] = scores.get(entry) ?? [0, 0];
        scores.set(entry, [score + rare * FIELDS[field] * (entry.reported ? 1 : UNREPORTED) * (isElsewhere(entry) ? ELSEWHERE : 1), explained + rare * TELLS[field]]);
      }
    }
    const ranked = [...scores].filter(([entry, [, explained]]) => among.has(entry) && explained >= share * total * (about.has(entry) ? ABOUT : 1))
      .sort((a, b) => b[1][0] - a[1][0] || (a[0].name < b[0].name ? -1 : 1));
    return ranked.filter(([, [score]]) => score >= BESIDE * ranked[0][1][0]).map(([entry]) => entry);
  };

  // For the words that no case has, those of names and titles that are spelled nearly so.
  const meant = (texts, book) => {
    const known = indexOf(book);
    const names = [...new Set(book.cases.flatMap((entry) => [...entry.models, ...entry.shared, ...namesOf(entry), ...entry.name.split("_"), ...entry.trigger, ...entry.symptom, ...entry.title.toLowerCase().split(/[^\p{L}\p{N}.-]+/u)]).filter((word) => word.length > 3))];
    return texts.flatMap(split).filter(({ word, whole, parts }) => /\p{L}{2}/u.test(word) && ![whole, ...parts].some((form) => hitsOf(known, form).size)).flatMap(({ word }) => {
      const near = Query.closest(word, names, word.length / 3);
      return near ? [[word, near]] : [];
    });
  };

  // What a text names beside its message: the models and packages of a case.
  const named = (text, entry) => {
    const bare = squashed(text);
    return [...entry.models, ...namesOf(entry)].filter((name) => name !== "any" && bare.includes(squashed(name)));
  };

  // The pages of what a text names. They lead where it names nothing else.
  const PRECISIONS = /^(?:fp32|bf16|fp16|bfloat16|float16|float32|half|precision)$/;
  const pages = (texts, terms, book) => {
    const releases = terms.filter((term) => term.key === "release").flatMap((term) => term.values);
    const pins = terms.filter((term) => term.key === "with").flatMap((term) => term.values.map((value) => value.split("==")));
    const words = texts.flatMap((text) => text.split(/[\s,;?!]+/)).map((word) => word.toLowerCase()).filter((word) => word && !LITTLE.has(word) && !PRECISIONS.test(word));
    const models = book.words.model.map((name) => [squashed(name), name]).sort((a, b) => b[0].length - a[0].length);
    const modelOf = (word) => {
      const bare = squashed(word.replace(/^[\w.-]+\//, "").replace(/(?:for[a-z]+|model|config|tokenizer|processor)$/, ""));
      return models.find(([name]) => name === bare || (word.includes("/") && name.length > 3 && bare.startsWith(name)))?.[1];
    };
    const packages = [...pins.map(([name]) => name), ...words].filter((name) => book.packages.includes(name));
    const release = [...releases, ...pins.filter(([name]) => name === "transformers").map(([, version]) => version)];
    const found = [
      ...release.filter((name) => book.columns.some((column) => column.name === name && column.source !== "stack")).map((name) => [`release/${name}.html`, `transformers ${name}: what it broke and fixed`]),
      ...packages.filter((name) => name !== "transformers" || !release.length).map((name) => [`package/${name}.html`, `${name}: the bugs that depend on it`]),
      ...words.map(modelOf).filter(Boolean).map((name) => [`model/${encodeURIComponent(name)}.html`, `${name}: every case about it`]),
    ];
    const leads = words.every((word) => book.packages.includes(word) || modelOf(word));
    return { leads: leads && found.length > 0, isBare: !words.length && found.length > 0, pages: [...new Map(found)].map(([href, text]) => ({ href, text })) };
  };

  return { nearest, meant, named, pages };
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

  // The words that are typed; in a sentence an `or` or a minus is one of them.
  const plainOf = (node, deep) => {
    if (node.type === "atom") return node.key === "text" ? [node.raw] : [];
    if (node.type === "not") return deep ? plainOf(node.part, deep) : [];
    return node.type === "or" && !deep ? [] : node.parts.flatMap((part) => plainOf(part, deep));
  };
  const textsOf = (tree) => {
    const every = plainOf(tree, true);
    return every.length >= MESSAGE ? every : plainOf(tree, false);
  };

  // The words rank the cases; what else is asked for still has to hold.
  const byWords = (texts, tree, book) => {
    const others = group({ type: "and", parts: (tree.parts ?? []).filter((part) => part.type === "atom" && part.key !== "text") }, everything(book), book).test;
    return Rank.nearest(texts, book.cases.filter(others), book);
  };
  const MESSAGE = 4; // words
  const KIND = 0.66; // of an error, explained by a case that may be of its kind
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
    const read = { tree, scope: found.scope, asked: found.together ?? [], error, texts: textsOf(tree), failures: [], nearest: [], pages: [], shares: sharing(tree), holds: found.test };
    const entries = new Map(book.cases.filter(error ? found.test : () => true).map((entry) => [entry.name, entry]));
    const ranked = (message) => {
      const columns = placesIn(message, book);
      return errors.rank(message, (name) => (entries.has(name) ? namedIn(message, entries.get(name), columns, book) : null));
    };
    const casesOf = (failures) => failures.map((one) => entries.get(one.one.case));
    if (error) {
      const failures = ranked(error);
      const { name, message } = errors.read(error);
      const nearest = failures.length ? casesOf(failures) : Rank.nearest([name, message], [...entries.values()], book, KIND);
      return { ...read, failures, nearest, holds: (entry) => nearest.includes(entry) };
    }
    const terms = tree.type === "and" ? tree.parts.filter((part) => part.bare) : [];
    Object.assign(read, Rank.pages(read.texts, terms, book));
    if (read.isBare) {
      // Of a question about a release or a package nothing is left to look for.
      read.texts = [];
      read.holds = group({ ...tree, parts: tree.parts.filter((part) => part.key !== "text") }, everything(book), book).test;
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
