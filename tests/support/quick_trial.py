"""What a trial says to git and to the journal, without anything that takes time to import."""

import json
import sys
from pathlib import Path

ANSWERS = {"works": "no", "breaks": "yes"}
BY_ENVIRONMENT = {
    "works only in the older": {"4.51.0": "yes", "4.50.3": "no"},
    "imported only in the older": {"4.50.3": "no"},
    "imported only in the newer": {"4.51.0": "yes"},
}

ONCE = {"works once": ("no", "yes"), "breaks once": ("yes", "no")}

plan = Path(sys.argv[1])
tree = plan.parent / "tree"
state = (tree / "src" / "transformers" / "state.txt").read_text()
told = json.loads(plan.read_text())
names = [side["environment"]["name"] for side in told["sides"]]
always = ONCE[state][told["again"]] if state in ONCE else ANSWERS.get(state, "unknown")
said = BY_ENVIRONMENT.get(state, dict.fromkeys(names, always))
environment = next((name for name in names if name in said), names[0])
answer = said.get(environment, "unknown")
trial = {
    "commit": (tree / ".git" / "HEAD").read_text().strip(),
    "answer": answer,
    "environment": environment,
    "reason": state,
}
with (plan.parent / "journal").open("a") as journal:
    journal.write(json.dumps(trial) + "\n")
sys.exit(125 if answer == "unknown" else int(answer == sys.argv[2]))
