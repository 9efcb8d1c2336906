var compared = {
 "releases": ["4.49.0", "4.50.0", "4.50.1", "4.51.0", "main"],
 "precisions": ["fp32", "bf16", "fp16"],
 "changes": [
  [
   ["same", "changed"],
   ["broke", "broke"],
   ["changed", "changed"],
   ["unknown", "unknown"],
   ["gone", "gone"],
   ["unmeasured", "unmeasured"]
  ],
  [
   ["fixed", "fixed"],
   ["both", "changed"],
   ["changed", "changed"],
   ["unknown", "unknown"],
   ["gone", "gone"],
   ["unmeasured", "unmeasured"]
  ],
  [
   ["changed", "changed"],
   ["changed", "changed"],
   ["same", "changed"],
   ["unknown", "unknown"],
   ["gone", "gone"],
   ["unmeasured", "unmeasured"]
  ],
  [
   ["unknown", "unknown"],
   ["unknown", "unknown"],
   ["unknown", "unknown"],
   ["unknown", "unknown"],
   ["unknown", "unknown"],
   ["unmeasured", "unmeasured"]
  ],
  [["new", "new"], ["new", "new"], ["new", "new"], ["unknown", "unknown"], ["same", "same"], ["same", "same"]],
  [
   ["unmeasured", "unmeasured"],
   ["unmeasured", "unmeasured"],
   ["unmeasured", "unmeasured"],
   ["unmeasured", "unmeasured"],
   ["same", "same"],
   ["same", "same"]
  ]
 ],
 "titles": {
  "broke": "What broke",
  "fixed": "What is fixed",
  "changed": "What fails in another way",
  "both": "What fails in both",
  "new": "Newly applicable",
  "gone": "No longer applicable"
 },
 "order": ["broke", "fixed", "changed", "new", "gone"],
 "said": [
  [4, 0, "is not applicable: needs transformers>=4.50, has 4.49.0", 0],
  [2, 1, "passes", 1],
  [3, 1, "passes", 1],
  [0, 1, "passes", 1],
  [3, 2, "cannot be built: no route to host", 2],
  [1, 3, "KeyError: other", 3],
  [1, 4, "crashes: signal 11", 4],
  [2, 5, "declines to judge: no", 5],
  [3, 6, "runs out of memory: 2 GB", 6],
  [3, 7, "was not run", 7],
  [1, 8, "times out: 60 s", 8],
  [1, 9, "AttributeError: 'HybridCache' object has no attribute 'float'", 9]
 ],
 "cases": [
  {
   "name": "any_adapter",
   "title": "The cache has no float",
   "href": "case/any_adapter.html",
   "sort": "silent",
   "kinds": ["trainer", "nan or inf"],
   "bugs": ["-o-o-"],
   "rows": [
    {"workaround": "", "device": "cpu", "precision": "fp32", "said": [1, 0, 1, 1, 1, 2, 1, 3, 1, 4]},
    {"workaround": "", "device": "cpu", "precision": "bf16", "said": [1, 0, 1, 5, 1, 3, 1, 6, 1, 4]},
    {"workaround": "", "device": "cpu", "precision": "fp16", "said": [1, 0, 1, 7, 1, 8, 1, 5, 1, 4]},
    {"workaround": "away", "device": "cpu", "precision": "fp32", "said": [1, 0, 1, 9, 1, 10, 1, 3, 1, 4]},
    {"workaround": "away", "device": "cpu", "precision": "bf16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "away", "device": "cpu", "precision": "fp16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "cache-off", "device": "cpu", "precision": "fp32", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "cache-off", "device": "cpu", "precision": "bf16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "cache-off", "device": "cpu", "precision": "fp16", "said": [1, 0, 3, 3, 1, 4]}
   ]
  },
  {
   "name": "cache_float",
   "title": "The cache has no float",
   "href": "case/cache_float.html",
   "sort": "error",
   "kinds": ["trainer", "error"],
   "bugs": ["-oop-"],
   "rows": [
    {"workaround": "", "device": "cpu", "precision": "fp32", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "", "device": "cpu", "precision": "bf16", "said": [1, 0, 2, 11, 1, 3, 1, 4]},
    {"workaround": "", "device": "cpu", "precision": "fp16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "away", "device": "cpu", "precision": "fp32", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "away", "device": "cpu", "precision": "bf16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "away", "device": "cpu", "precision": "fp16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "cache-off", "device": "cpu", "precision": "fp32", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "cache-off", "device": "cpu", "precision": "bf16", "said": [1, 0, 3, 3, 1, 4]},
    {"workaround": "cache-off", "device": "cpu", "precision": "fp16", "said": [1, 0, 3, 3, 1, 4]}
   ]
  }
 ]
}
