var matrix = {
 "precisions": ["fp32", "bf16", "fp16"],
 "devices": ["cpu"],
 "packages": ["transformers", "accelerate"],
 "outcomes": [
  "passes",
  "fails",
  "times-out",
  "crashes",
  "out-of-memory",
  "declines",
  "not-applicable",
  "not-measured",
  "unbuildable",
  "not-run",
  "not-due"
 ],
 "verdicts": {
  "as-expected": "as expected",
  "regressed": "regressed",
  "fixed": "unexpected pass",
  "changed": "changed",
  "not-applicable": "not applicable",
  "unproven": "unproven"
 },
 "marks": {
  "passes": {"glyph": "✓", "words": "passes", "verdict": "as-expected"},
  "fails": {"glyph": "✕", "words": "fails as described", "verdict": "as-expected"},
  "regressed": {"glyph": "R", "words": "regressed: fails, expected to pass", "verdict": "regressed"},
  "fixed": {"glyph": "F", "words": "unexpected pass: expected to fail", "verdict": "fixed"},
  "changed": {"glyph": "C", "words": "changed: fails, not as described", "verdict": "changed"},
  "not-applicable": {"glyph": "–", "words": "not applicable", "verdict": "not-applicable"},
  "needs-gpu": {"glyph": "G", "words": "not measured: needs a GPU", "verdict": "unproven"},
  "unstable": {"glyph": "~", "words": "unstable: repeats or machines disagree", "verdict": "unproven"},
  "not-exercised": {"glyph": "○", "words": "never computed in its precision", "verdict": "unproven"},
  "out-of-memory": {"glyph": "M", "words": "out of memory", "verdict": "unproven"},
  "unbuildable": {"glyph": "U", "words": "environment not buildable", "verdict": "unproven"},
  "not-run": {"glyph": "·", "words": "not run", "verdict": "unproven"},
  "not-due": {"glyph": "∘", "words": "not due: no rule asks for it, nothing is known", "verdict": "unproven"}
 },
 "columns": [
  {
   "name": "4.49.0",
   "line": "4.49",
   "label": "0",
   "source": "release",
   "packages": "transformers 4.49.0, torch 2.13.0, accelerate 1.5.2"
  },
  {
   "name": "4.50.0",
   "line": "4.50",
   "label": "0",
   "source": "release",
   "packages": "transformers 4.50.0, torch 2.13.0, accelerate 1.5.2"
  },
  {
   "name": "4.50.1",
   "line": "4.50",
   "label": "1",
   "source": "release",
   "packages": "transformers 4.50.1, torch 2.13.0, accelerate 1.5.2"
  },
  {
   "name": "4.51.0",
   "line": "4.51",
   "label": "0",
   "source": "release",
   "packages": "transformers 4.51.0, torch 2.13.0, accelerate 1.5.2"
  },
  {
   "name": "main",
   "line": "main",
   "label": "",
   "source": "main",
   "packages": "transformers 4.52.0.dev0, torch 2.13.0, accelerate 1.5.2"
  }
 ],
 "told": [
  ["not-run", "not-run", "", 0, 0, 0, ""],
  ["not-applicable", "not-applicable", "", 0, 0, 0, "needs transformers>=4.50"],
  ["passes", "passes", "", 0, 0, 0, ""],
  ["fails", "fails", "", 0, 0, 0, "AttributeError: 'HybridCache' object has no attribute 'float'"],
  ["unbuildable", "unbuildable", "", 0, 0, 0, "no route to host"],
  ["not-exercised", "passes", "no", 0, 1, 0, ""],
  ["changed", "fails", "", 0, 1, 0, "KeyError: other"],
  ["not-applicable", "declines", "", 0, 1, 0, "no"],
  ["unstable", "passes", "", 0, 1, 3, ""],
  ["fixed", "passes", "", 0, 1, 0, ""],
  ["out-of-memory", "out-of-memory", "", 0, 1, 0, "2 GB"],
  ["passes", "passes", "", 0, 1, 0, ""],
  ["regressed", "crashes", "", 0, 1, 0, "signal 11"],
  ["regressed", "fails", "", 0, 1, 0, "KeyError: other"],
  ["regressed", "times-out", "", 0, 1, 0, "60 s"],
  ["passes", "passes", "", 1, 1, 0, ""]
 ],
 "stacks": [
  [1, 1, 1],
  [2, 3, 2],
  [2, 2, 2],
  [4, 4, 4],
  [5, 6, 7],
  [8, 9, 10],
  [11, 12, 13],
  [0, 11, 11],
  [14, 11, 15],
  [11, 11, 11]
 ],
 "numbers": ["error = 0.5", "error = nan", "error = 2"],
 "cases": [
  {
   "name": "cache_float",
   "title": "The cache has no float",
   "area": "kv-cache",
   "models": ["gemma3"],
   "shared": ["paligemma"],
   "packages": ["torch", "transformers"],
   "trigger": ["trainer"],
   "symptom": ["error"],
   "silent": false,
   "scope": ["half"],
   "at-fault": ["transformers"],
   "reported": true,
   "badges": ["by shared code: paligemma", "trainer", "error", "half precision only"],
   "simulated": false,
   "extras": "",
   "ways": {
    "away": {"says": "Do not evaluate.", "skips": true, "snippet": "", "refuted": false},
    "cache-off": {"says": "Switch the cache off.", "skips": false, "snippet": "model.config.use_cache = False", "refuted": false}
   },
   "tracks": [
    {
     "workaround": "",
     "device": "cpu",
     "stacks": [1, 0, 2, 1, 1, 2, 1, 3],
     "numbers": {"fp32": [1, -1, 3, 0, 1, -1], "bf16": [3, -1, 1, 0, 1, -1], "fp16": [1, -1, 3, 0, 1, -1]}
    },
    {
     "workaround": "away",
     "device": "cpu",
     "stacks": [1, 0, 3, 2, 1, 3],
     "numbers": {"fp32": [1, -1, 3, 0, 1, -1], "bf16": [1, -1, 3, 0, 1, -1], "fp16": [1, -1, 3, 0, 1, -1]}
    },
    {
     "workaround": "cache-off",
     "device": "cpu",
     "stacks": [1, 0, 3, 2, 1, 3],
     "numbers": {"fp32": [1, -1, 3, 0, 1, -1], "bf16": [1, -1, 3, 0, 1, -1], "fp16": [1, -1, 3, 0, 1, -1]}
    }
   ]
  },
  {
   "name": "any_adapter",
   "title": "The cache has no float",
   "area": "loading",
   "models": ["any"],
   "shared": [],
   "packages": ["torch", "transformers"],
   "trigger": ["trainer"],
   "symptom": ["nan-or-inf"],
   "silent": true,
   "scope": ["half"],
   "at-fault": ["transformers"],
   "reported": true,
   "badges": ["trainer", "nan or inf", "half precision only"],
   "simulated": true,
   "extras": "",
   "ways": {
    "away": {"says": "Do not evaluate.", "skips": true, "snippet": "", "refuted": false},
    "cache-off": {"says": "Switch the cache off.", "skips": false, "snippet": "model.config.use_cache = False", "refuted": false}
   },
   "tracks": [
    {
     "workaround": "",
     "device": "cpu",
     "stacks": [1, 0, 1, 4, 1, 5, 1, 6, 1, 3],
     "numbers": {"fp32": [1, -1, 2, 0, 1, 1, 1, -1], "bf16": [3, -1, 1, 0, 1, -1], "fp16": [1, -1, 3, 0, 1, -1]}
    },
    {
     "workaround": "away",
     "device": "cpu",
     "stacks": [1, 0, 1, 7, 1, 8, 1, 9, 1, 3],
     "numbers": {"fp32": [1, -1, 3, 0, 1, -1], "bf16": [1, -1, 3, 0, 1, -1], "fp16": [1, -1, 3, 0, 1, -1]}
    },
    {
     "workaround": "cache-off",
     "device": "cpu",
     "stacks": [1, 0, 3, 9, 1, 3],
     "numbers": {"fp32": [1, -1, 2, 0, 1, 2, 1, -1], "bf16": [1, -1, 3, 0, 1, -1], "fp16": [1, -1, 3, 0, 1, -1]}
    }
   ]
  }
 ]
}
