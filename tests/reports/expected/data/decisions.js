var decisions = {
 "says": ["hits", "clear", "not-applicable", "unknown"],
 "levels": ["measured", "derived", "unknown"],
 "precisions": ["fp32", "bf16", "fp16"],
 "moves": {
  "heals": [["hits", "clear"]],
  "keeps": [["hits", "hits"]],
  "loses": [["hits", "unknown"], ["hits", "not-applicable"]],
  "breaks": [["clear", "hits"]],
  "brings": [["not-applicable", "hits"]],
  "doubts": [["unknown", "hits"]]
 },
 "torch": ["2.13.0+cpu"],
 "python": ["3.11"],
 "companions": ["accelerate", "peft"],
 "packages": ["accelerate", "peft", "transformers"],
 "environments": [
  ["4.49.0", "1.5.2", "", "4.49.0"],
  ["4.50.0", "1.5.2", "", "4.50.0"],
  ["4.50.1", "1.5.2", "", "4.50.1"],
  ["4.51.0", "1.5.2", "", "4.51.0"]
 ],
 "releases": [0, 1, 2, 3],
 "grids": [
  {
   "packages": ["transformers"],
   "lines": [["4.49.0", "4.50.0", "4.50.1", "4.51.0"]],
   "near": [1, 0, 1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7, 1, 8]
  }
 ],
 "requirements": [
  {
   "package": "transformers",
   "line": ["4.50"],
   "holds": [0, 1, 1],
   "span": ["4.49.0", "4.51.0"],
   "within": ["not-applicable", "needs transformers>=4.50, has {version}"],
   "outside": ["unknown", "transformers {version} is outside the measured versions"],
   "absent": ["not-applicable", "needs transformers>=4.50, which is not listed"],
   "unlisted": ["unknown", "needs transformers>=4.50, which is not listed"]
  }
 ],
 "series": [
  [1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1, 3, 1, 0, 1, 4, 1, 5],
  [1, 6, 1, 1, 1, 6, 1, 7, 1, 8, 1, 9, 1, 10, 1, 11, 1, 5],
  [1, 0, 1, 1, 1, 0, 1, 12, 1, 0, 1, 13, 1, 0, 1, 11, 1, 5],
  [1, 14, 1, 1, 1, 14, 1, 15, 1, 14, 1, 16, 1, 17, 1, 4, 1, 5],
  [1, 6, 1, 1, 1, 6, 1, 18, 1, 19, 1, 9, 1, 20, 1, 4, 1, 5],
  [1, 6, 1, 1, 1, 6, 1, 18, 1, 21, 1, 22, 1, 21, 1, 4, 1, 5],
  [1, 6, 1, 1, 1, 6, 1, 7, 1, 23, 1, 16, 1, 17, 1, 4, 1, 5]
 ],
 "conclusions": [
  [3, 2, -1, -1, 0],
  [3, 2, -1, -1, 1],
  [3, 2, -1, -1, 2],
  [3, 2, -1, -1, 3],
  [1, 0, 3, -1, -1],
  [3, 2, -1, -1, 4],
  [3, 2, -1, -1, 5],
  [0, 0, 1, -1, -1],
  [3, 2, -1, -1, 6],
  [1, 0, 2, -1, -1],
  [3, 2, -1, -1, 7],
  [0, 0, 3, -1, -1],
  [2, 2, -1, -1, 8],
  [3, 2, -1, -1, 9],
  [3, 2, -1, -1, 10],
  [3, 2, -1, -1, 11],
  [0, 0, 2, -1, -1],
  [3, 2, -1, -1, 12],
  [1, 0, 1, -1, -1],
  [1, 1, 1, 2, -1],
  [1, 1, 2, 3, -1],
  [1, 1, 1, 3, -1],
  [3, 2, -1, -1, 13],
  [0, 1, 1, 2, -1]
 ],
 "texts": [
  "older than what was measured (4.51.0)",
  "4.49.0 was not run",
  "4.50.0 never computed in fp32",
  "4.50.1 is unstable",
  "newer than what was measured (4.51.0)",
  "older than what was measured (4.50.0)",
  "between 4.50.0, which fails, and 4.50.1, which passes",
  "between 4.50.1, which passes, and 4.51.0, which fails",
  "4.50.0 declines to judge",
  "4.50.1 runs out of memory",
  "older than what was measured (4.50.1)",
  "4.50.0 was not run",
  "between 4.50.1, which fails, and 4.51.0, which passes",
  "4.50.1 was not run",
  "changed",
  "The cache has no float",
  "KeyError: other",
  "2.13.0+cpu",
  "regressed",
  "crashes",
  "as-expected",
  "AttributeError: 'HybridCache' object has no attribute 'float'"
 ],
 "cases": [
  {
   "name": "any_adapter",
   "title": "The cache has no float",
   "href": "case/any_adapter.html",
   "families": ["llama"],
   "shared": [],
   "kind": "bug",
   "kinds": ["trainer", "nan or inf"],
   "deciding": ["transformers"],
   "named": ["transformers"],
   "watched": ["torch", "transformers"],
   "requires": [0],
   "workarounds": [
    {"name": "away", "says": "Do not evaluate.", "snippet": "", "skips": true},
    {"name": "cache-off", "says": "Switch the cache off.", "snippet": "model.config.use_cache = False", "skips": false}
   ],
   "grid": 0,
   "spots": [[0, 1, 2], [3, 4, 5], [4, 4, 4]],
   "hits": {
    "1": [9, 0],
    "2": [3, 0, 1, 1, 3, 0, 1, 2, 1, 0],
    "3": [9, 0],
    "4": [7, 0, 1, 3, 1, 0],
    "5": [9, 0],
    "6": [7, 0, 1, 4, 1, 0],
    "7": [9, 0]
   },
   "records": [
    null,
    [14, 15, 16, 2, -1, [17], [[1, 2], [0, 2]]],
    [18, 15, 19, -1, 2, [17], [[1, 2], [0, 2]]],
    [18, 15, 16, -1, -1, [17], [[1, 4], [0, 4]]],
    [18, 15, 19, -1, -1, [17], [[1, 6], [0, 6]]]
   ],
   "at": ["2331", "2010", "2230"]
  },
  {
   "name": "cache_float",
   "title": "The cache has no float",
   "href": "case/cache_float.html",
   "families": ["gemma3"],
   "shared": ["paligemma"],
   "kind": "bug",
   "kinds": ["trainer", "error"],
   "deciding": ["transformers"],
   "named": ["transformers"],
   "watched": ["torch", "transformers"],
   "requires": [0],
   "workarounds": [
    {"name": "away", "says": "Do not evaluate.", "snippet": "", "skips": true},
    {"name": "cache-off", "says": "Switch the cache off.", "snippet": "model.config.use_cache = False", "skips": false}
   ],
   "grid": 0,
   "spots": [[4, 6, 4], [4, 4, 4], [4, 4, 4]],
   "hits": {"1": [9, 0], "2": [3, 0, 3, 1, 3, 0], "3": [9, 0], "4": [9, 0], "5": [9, 0], "6": [9, 0], "7": [9, 0]},
   "records": [null, [20, 15, 21, 3, -1, [17], [[1, 2], [0, 2]]]],
   "at": ["2111", "2001", "2111"]
  }
 ],
 "models": {"gemma3": [0, 1], "llama": [0], "paligemma": [0, 1]},
 "triggers": {
  "load": [],
  "cast": [],
  "autocast": [],
  "trainer": [0, 1],
  "adapter": [],
  "static-cache": [],
  "generate": [],
  "forward": [],
  "backward": [],
  "save": [],
  "compile": [],
  "distributed": []
 },
 "unpinned": "{name} is not pinned ({why})",
 "unlisted": "{name} is not listed"
}
