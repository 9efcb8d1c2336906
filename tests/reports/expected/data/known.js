var known = {
 "measured": "cpu, torch 2.13.0, Python 3.11",
 "noise": [
  ["0x[0-9a-fA-F]+", "<address>"],
  ["(?:[A-Za-z]:)?(?:/[\\p{L}\\p{N}_.+@~-]+){2,}/?", "<path>"],
  ["\\bline \\d+", "line <n>"],
  ["\\b\\d+(?:\\.\\d+)?\\s?(?:ms|s|seconds?|minutes?|[KMGT]i?B|bytes)\\b", "<amount>"],
  ["(?:torch\\.Size\\()?\\[\\s*\\d+(?:\\s*[,x]\\s*\\d+)*\\s*\\]\\)?", "<shape>"],
  ["\\(\\s*\\d+(?:\\s*[,x]\\s*\\d+)+,?\\s*\\)", "<shape>"],
  ["(?<![\\p{L}\\p{N}_.])-?\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?(?![\\p{L}\\p{N}_.]*[\\p{L}\\p{N}_])", "<n>"]
 ],
 "cases": [
  {
   "case": "any_adapter",
   "title": "The cache has no float",
   "href": "case/any_adapter.html",
   "raises": ["AttributeError"],
   "matches": ["no attribute 'float'"],
   "place": 0,
   "traces": [
    {
     "signature": "KeyError: other",
     "headline": "KeyError: other",
     "anchor": "failure-1",
     "frames": [],
     "where": "bf16: 4.50.0; fp16: 4.51.0",
     "fixes": ["cache-off"]
    },
    {
     "signature": "crashes: signal 11",
     "headline": "crashes: signal 11",
     "anchor": "failure-2",
     "frames": [],
     "where": "bf16: 4.51.0",
     "fixes": []
    },
    {
     "signature": "times out: 60 s",
     "headline": "times out: 60 s",
     "anchor": "failure-3",
     "frames": [],
     "where": "fp32 with away: 4.50.1",
     "fixes": []
    }
   ]
  },
  {
   "case": "cache_float",
   "title": "The cache has no float",
   "href": "case/cache_float.html",
   "raises": ["AttributeError"],
   "matches": ["no attribute 'float'"],
   "place": 1,
   "traces": [
    {
     "signature": "AttributeError: no float",
     "headline": "AttributeError: 'HybridCache' object has no attribute 'float'",
     "anchor": "failure-1",
     "frames": [],
     "where": "bf16: 4.50.0 to 4.50.1",
     "fixes": ["cache-off"]
    }
   ]
  }
 ]
}
