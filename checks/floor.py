"""Time what no runner can save: one import of what the cases need, and one empty fork per cell.

Run by the python of an environment with the preload as JSON; prints both in seconds as JSON.
"""

import gc
import importlib
import json
import os
import sys
import time

FORKS = 50

wanted = json.loads(sys.argv[1])
begin = time.perf_counter()
for module in wanted["modules"]:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:  # as in a worker: this release does not have it
        continue
    for name in wanted["names"].get(module, []):
        getattr(found, name, None)
imported = time.perf_counter() - begin
gc.collect()
gc.freeze()
forks = []
for _ in range(FORKS):
    begin = time.perf_counter()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    forks.append(time.perf_counter() - begin)
print(json.dumps({"import": imported, "fork": sorted(forks)[FORKS // 2]}))
