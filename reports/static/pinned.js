"use strict";
// The case with every pin of an environment that somebody chooses, as a file made in the page.
const pinnedText = (sources, environment) => {
  const [python, numbers] = pins.environments[environment];
  const wanted = numbers.map((number) => `#   ${JSON.stringify(pins.packages[number])},\n`).join("");
  const [told] = sources.told.find(([, names]) => names.includes(environment));
  return `# /// script\n# requires-python = "==${python}.*"\n# dependencies = [\n${wanted}# ]\n# ///\n`
    + `# ${sources.where} of repromatrix with every pin of ${environment}.\n${told}${sources.code}`;
};

(() => {
  const box = document.getElementById("sources");
  if (!box) return;
  const sources = JSON.parse(box.textContent);
  const make = (environment) => save(`${sources.name}-${environment}.py`, "text/x-python", pinnedText(sources, environment));
  document.getElementById("make").addEventListener("click", () => make(document.getElementById("pinned").value));
  document.getElementById("pin")?.addEventListener("click", (event) => make(event.currentTarget.dataset.environment));
})();
