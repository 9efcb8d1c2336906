"use strict";
// The page: what was pasted or typed, the address that carries it, and the answer.
(() => {
  const tables = decisions;
  const decide = Decide.open(tables);
  const at = (id) => document.getElementById(id);
  const fields = [...document.querySelectorAll("[data-package]")];
  const choices = ["precision", "model", "trigger"];
  const packages = new Set([...tables.packages, "torch"]);
  const titles = new Map(tables.cases.map((entry) => [entry.name, entry]));
  const EXAMPLE = "transformers=4.51.3&peft=0.15.2&precision=bf16&model=qwen2.5-vl";
  const WAIT = 120;
  const SHOWN = 60; // characters of a text that somebody else wrote

  // What was read from a text or an address; versions that are typed stand over it.
  const nothing = () => ({ pins: new Map(), loose: new Map(), absent: new Set(), whole: false, nameless: 0 });
  let base = nothing();
  let foreign = []; // names in the address that no case is about
  let linked = []; // what is wrong with the address
  let waiting = 0;

  const typed = () => {
    const faults = [];
    const mine = { ...base, pins: new Map(base.pins), loose: new Map(base.loose), absent: new Set(base.absent) };
    for (const field of fields) {
      const name = field.dataset.package;
      const text = field.value.trim();
      const version = text ? Pep440.parse(text) : null;
      field.setAttribute("aria-invalid", String(Boolean(text) && !version));
      if (text && !version) faults.push(`'${text.slice(0, SHOWN)}' is not a version of ${name}.`);
      if (text) for (const others of [mine.loose, mine.absent]) others.delete(name);
      if (version) mine.pins.set(name, Pep440.text(version));
      else mine.pins.delete(name);
    }
    return { mine, faults };
  };

  // The address

  const written = (mine, asked) => {
    const parts = new URLSearchParams();
    for (const name of packages) if (mine.pins.has(name)) parts.set(name, mine.pins.get(name));
    for (const name of packages) if (mine.loose.has(name)) parts.append("unpinned", name);
    for (const name of packages) if (mine.absent.has(name)) parts.append("absent", name);
    if (mine.whole) parts.set("complete", "1");
    for (const key of choices) if (asked[key]) parts.set(key, asked[key]);
    return parts.toString();
  };
  const write = (text) => {
    if (text !== location.hash.slice(1)) location.replace(`#${text}`);
  };
  const wanted = { precision: "", model: "", trigger: "" }; // what the address asks for
  const pinned = (name, text) => {
    const version = Pep440.parse(text);
    if (version || fields.some((field) => field.dataset.package === name)) base.pins.set(name, version ? Pep440.text(version) : text); // a field shows what is wrong
    else linked.push(`'${text.slice(0, SHOWN)}' is not a version of ${name}.`);
  };
  const read = () => {
    linked = [];
    const parts = new URLSearchParams(location.hash.slice(1));
    base = nothing();
    foreign = [];
    for (const [key, value] of parts) {
      if (choices.includes(key) || key === "complete") continue;
      else if (key === "unpinned" && packages.has(value)) base.loose.set(value, "the link does not say why");
      else if (key === "absent" && packages.has(value)) base.absent.add(value);
      else if (packages.has(key)) pinned(key, value);
      else if (location.hash.includes("=")) foreign.push(key === "unpinned" || key === "absent" ? value : key); // else an anchor
    }
    base.whole = parts.get("complete") === "1";
    for (const key of choices) {
      wanted[key] = parts.get(key) ?? "";
      at(key).value = [...at(key).options].some((option) => option.value === wanted[key]) ? wanted[key] : "";
    }
    fill();
  };
  const fill = () => {
    for (const field of fields) field.value = base.pins.get(field.dataset.package) ?? "";
  };

  // What is asked

  const asked = () => Object.fromEntries(choices.map((key) => [key, at(key).value]));
  const chosen = (question) => {
    const about = question.model && !tables.models[question.model] ? [] : tables.models[question.model]; // one that was only swept
    const among = [about, tables.triggers[question.trigger]].filter(Boolean).map((numbers) => new Set(numbers));
    const cases = tables.cases.map((_, number) => number).filter((number) => among.every((numbers) => numbers.has(number)));
    const all = tables.precisions.map((_, number) => number);
    return { cases, model: question.model, precisions: question.precision ? [tables.precisions.indexOf(question.precision)] : all };
  };
  const named = () => foreign.slice(0, 5).map((name) => name.slice(0, SHOWN)).join(", ");
  const notes = (mine, question, found) => {
    const all = [];
    const ours = mine.pins.get("transformers");
    const { releases } = decide;
    if (ours && releases.length) {
      const place = Pep440.place(releases.map(Pep440.parse), Pep440.parse(ours));
      if (place === 0) all.push(`transformers ${ours} is older than the oldest measured release, ${releases[0]}: nothing is known of it.`);
      else if (place === 2 * releases.length) all.push(`transformers ${ours} is newer than the newest measured release, ${releases.at(-1)}, if it exists: nothing is known of it.`);
      else if (place % 2 === 0) all.push(`transformers ${ours} is no release that was measured, if it exists: the answer comes from the releases on both sides.`);
    }
    const torch = mine.pins.get("torch");
    const measured = `Measured on a CPU with torch ${tables.torch.join(", ")}; a GPU runs other kernels.`;
    if (tables.torch.length) all.push(torch && !tables.torch.some((build) => [build, build.split("+")[0]].includes(torch)) ? `${measured} Yours is torch ${torch}.` : measured);
    if (mine.nameless) all.push(`${mine.nameless} ${mine.nameless === 1 ? "address" : "addresses"} without a package name: packages that are not listed may be installed.`);
    const shared = Object.entries(found["shared-code"]).map(([name, families]) => `${name} (measured with ${Verdict.join(families)})`);
    if (shared.length) all.push(`By shared code: ${shared.join(", ")}.`);
    if (question.trigger) all.push("The commands have no option for a trigger: they answer for every trigger.");
    if (foreign.length) all.push(`The link names what no case is about: ${named()}.`);
    return all;
  };
  const command = (question) => {
    const options = ["precision", "model"].filter((key) => question[key]).map((key) => ` --${key} ${question[key]}`).join("");
    return `pip freeze | nox -s audit -- -${options}\nnox -s advise --${options || " --precision bf16"}`;
  };

  const clear = () => {
    at("verdict").textContent = "";
    at("answer").replaceChildren();
  };
  const refuse = (faults) => {
    at("fault").replaceChildren(...faults.map((text) => element("p", {}, ...Verdict.coded(text))));
  };
  const choiceFaults = () => choices.filter((key) => wanted[key] && at(key).value !== wanted[key]).map((key) => `'${wanted[key].slice(0, SHOWN)}' is not a ${key} that is known; choose one of the list.`);

  // The answer to what stands on the page; a fault leaves none, since an old one would be wrong.
  const answer = () => {
    const { mine, faults } = typed();
    const question = asked();
    const isEmpty = !mine.pins.size && !mine.loose.size;
    const lost = isEmpty && foreign.length ? [`The link names nothing that this page knows: ${named()}.`] : [];
    const all = [...linked, ...faults, ...choiceFaults(), ...lost];
    clear();
    refuse(all);
    if (all.length) return;
    write(written(mine, question));
    if (isEmpty) return;
    const cells = chosen(question);
    const { page } = at("model").selectedOptions[0].dataset;
    const told = page ? [element("p", {}, element("a", { href: page }, `What tiny random models of ${question.model} do on each release`))] : [];
    if (!cells.cases.length) {
      at("verdict").textContent = `No case is about ${question.model || "this"}${question.trigger ? " with this trigger" : ""}.`;
      at("answer").append(...told);
      return;
    }
    const found = decide.audit(mine, cells);
    at("verdict").textContent = Verdict.sentence(found, mine, question);
    at("answer").append(...Verdict.draw({ told,  found, advice: decide.advise(cells), notes: notes(mine, question, found), titles, command: command(question), asked: question }));
  };

  const readText = (text, name = "") => {
    foreign = [];
    linked = [];
    base = nothing();
    at("read").textContent = "";
    try {
      if (text.trim()) base = Pins.read(text, name);
    } catch (error) {
      if (!(error instanceof Pins.Fault)) throw error;
      fill();
      clear();
      refuse([error.message]);
      return;
    }
    at("read").textContent = text.trim() ? Pins.sentence(base, packages) : "";
    for (const name of [...base.pins.keys()]) if (!packages.has(name)) base.pins.delete(name);
    fill();
    answer();
  };
  const soon = (then) => {
    clearTimeout(waiting);
    waiting = setTimeout(then, WAIT);
  };
  const put = (text, name) => {
    if (text.length <= Pins.LIMIT) at("packages").value = text;
    readText(text, name);
  };

  at("packages").addEventListener("input", () => soon(() => readText(at("packages").value)));
  at("packages").addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text") ?? "";
    if (text.length <= Pins.LIMIT) return;
    event.preventDefault(); // to lay it out alone would take seconds
    readText(text);
  });
  at("asked").addEventListener("dragover", (event) => event.preventDefault());
  at("asked").addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    put(await file.slice(0, Pins.LIMIT + 1).text(), file.name);
  });
  for (const field of fields) field.addEventListener("input", () => soon(answer));
  for (const key of choices) at(key).addEventListener("change", () => { wanted[key] = at(key).value; answer(); });
  at("clear").addEventListener("click", () => {
    for (const [id, what] of [["packages", "value"], ["read", "textContent"]]) at(id)[what] = "";
    location.hash = "";
    read();
    answer();
    at("packages").focus();
  });
  at("example").addEventListener("click", () => { location.hash = EXAMPLE; });
  addEventListener("hashchange", () => {
    const { mine } = typed();
    if (location.hash.slice(1) === written(mine, asked())) return; // we wrote it
    read();
    answer();
  });
  at("asked").hidden = false;
  if (location.hash.length > 1) {
    read();
    answer();
  }
})();
