"use strict";
// Plain words, as people type them: which cases are nearest, when none has all of the words.
// It knows texts, and nothing of the page.
const Rank = (() => {
  const LITTLE = new Set("a an and are as at be by can do does for from how i if in into is it my not of on or the this to using when why with".split(" "));
  // What people call a thing, and what cases call it.
  const ALSO = {
    lora: ["lora", "adapter", "peft"], qlora: ["lora", "adapter"], finetune: ["trainer", "train"], finetuning: ["trainer", "train"], training: ["train"],
    half: ["half", "fp16", "bf16", "16-bit", "16 bit"], bfloat16: ["bf16"], float16: ["fp16"], float32: ["fp32"],
    wrong: ["wrong"], gibberish: ["wrong numbers", "nan or inf"], garbage: ["wrong numbers", "nan or inf"], corrupt: ["wrong numbers"], silent: ["wrong numbers", "nan or inf", "wrong dtype"],
    infinite: ["inf"], infinity: ["inf"], overflow: ["overflow", "inf"], gpu: ["gpu", "cuda"], eval: ["eval"], evaluation: ["eval"],
    uninitialized: ["uninitialised"], normalization: ["normalisation", "norm"], optimizer: ["optimizer", "optimiser"],
  };
  const squashed = (text) => text.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "");
  const stem = (word) => (word.length > 5 ? word.replace(/(?:ations?|ings?|ed|es|s)$/, "") : word);

  // An address of an issue is known by its owner, name and number.
  const plain = (text) => text.replaceAll(/https?:\/\/github\.com\/([\w.-]+\/[\w.-]+)\/(?:issues|pull)\/(\d+)\S*/g, "$1#$2");

  // A field by how much it tells of the case: its name, its title, then everything that is said.
  const fields = (entry, book) => {
    const precisions = book.precisions.filter((_, i) => entry.tracks.some((track) => !track.workaround && track.cells.some((stack) => stack >= 0 && Book.FAILS.has(book.told[book.stacks[stack][i]].mark))));
    const names = [entry.name, ...entry.models, ...entry.packages.filter((name) => name !== "torch" && name !== "transformers")].join(" ");
    const texts = [names, entry.title, [...entry.badges, ...precisions].join(" "), entry.haystack];
    return texts.map((text) => ({ text: text.toLowerCase(), squashed: squashed(text) }));
  };
  const WEIGHTS = [4, 3, 2, 1];

  const words = (texts) => {
    const all = texts.flatMap((text) => plain(text).toLowerCase().split(/[\s,;()"'`]+/)).filter((word) => squashed(word));
    const telling = all.filter((word) => !LITTLE.has(word));
    return telling.length ? telling : all;
  };
  const formsOf = (word) => [word, ...(ALSO[squashed(word)] ?? [])].map((form) => ({ form: stem(form), bare: squashed(stem(form)) }));
  const weightIn = (entry, forms) => {
    let best = 0;
    entry.fields.forEach((field, i) => {
      const has = forms.some(({ form, bare }) => field.text.includes(form) || (bare.length > 3 && field.squashed.includes(bare)));
      if (has) best = Math.max(best, WEIGHTS[i]);
    });
    return best;
  };

  // Two or three words side by side may be one name: qwen 2.5 vl.
  const joined = (list) => list.flatMap((_, i) => [2, 3].map((size) => list.slice(i, i + size)).filter((some) => some.length > 1 && some.length === new Set(some).size)).map((some) => some.join(""));

  // The cases that have anything of it, the nearest first.
  const nearest = (texts, entries) => {
    const single = words(texts);
    const asked = [...single.map((word) => [word, 1]), ...joined(single).map((word) => [word, 2])];
    const scores = new Map();
    for (const [word, factor] of asked) {
      const forms = factor === 1 ? formsOf(word) : [{ form: word, bare: squashed(word) }];
      const found = entries.map((entry) => [entry, weightIn(entry, forms)]).filter(([, weight]) => weight);
      // What few cases have tells more than what most have.
      const rare = Math.log(1 + entries.length / (found.length || 1));
      for (const [entry, weight] of found) scores.set(entry, (scores.get(entry) ?? 0) + factor * weight * rare);
    }
    const ranked = [...scores].sort((a, b) => b[1] - a[1] || (a[0].name < b[0].name ? -1 : 1));
    return ranked.filter(([, score]) => score >= ranked[0][1] / 3).slice(0, 10).map(([entry]) => entry);
  };

  return { fields, nearest };
})();
