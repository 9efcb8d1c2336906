"""A document in its three forms."""

from __future__ import annotations

import json

from repromatrix.runner.document import (
    Code,
    Document,
    Fact,
    Listing,
    Paragraph,
    Part,
    Reference,
    Table,
    write,
)

DOCUMENT = Document(
    headline="1 known bug.",
    parts=[
        Paragraph(["It is known.", "Find it: nox -s blame -- toy"]),
        Paragraph([]),
        Listing(
            (Reference("toy", "https://example.org/toy"), ": bf16"),
            [
                "A toy breaks",
                Listing(Code("plain"), [Fact("before", "passes"), Fact("after", Code("a | `b`"))]),
            ],
        ),
        Listing("", [("also ", Reference("other", ""))]),
        Table(["commit", "answer"], [[Code("abc"), "bad"], ["longer", "not | judged"]]),
        Table(["nothing"], []),
        Listing("Nothing:", []),
        Table(["commit"], [["abc"]], fold="2 trials"),
    ],
    data={"found": ["é"]},
    repeat="nox -s bisect -- toy",
)

TEXT = """\
1 known bug.

It is known.
Find it: nox -s blame -- toy

toy: bf16
  A toy breaks
  plain
    before  passes
    after   a | `b`

also other

  abc     bad
  longer  not | judged
"""

PASTED = """\
**1 known bug.**

It is known.  
Find it: `nox -s blame -- toy`

**[`toy`](https://example.org/toy): bf16**

- A toy breaks
- `plain`
  - before: passes
  - after: `` a | `b` ``

- also `other`

| commit | answer |
| --- | --- |
| `abc` | bad |
| longer | not \\| judged |

<details><summary>2 trials</summary>

| commit |
| --- |
| abc |

</details>

Repeat it:

```sh
nox -s bisect -- toy
```
"""  # noqa: W291 - two spaces at the end break a line in Markdown


def test_a_document_is_written_in_three_forms() -> None:
    assert write(DOCUMENT, "text") == TEXT
    assert write(DOCUMENT, "markdown") == PASTED
    assert write(DOCUMENT, "json") == '{\n "found": [\n  "é"\n ]\n}\n'
    assert json.loads(write(DOCUMENT, "json")) == DOCUMENT.data


def test_what_others_wrote_stays_text_in_every_form() -> None:
    hostile = "<img src=x> @someone | *x*\x1b[31m"
    parts: list[Part] = [
        Table(["error"], [[hostile], [Code(hostile)]]),
        Listing("", [Code(hostile)]),
    ]
    document = Document(headline=hostile, parts=parts, data=None)
    shown, fenced = "<img src=x> @someone | *x*�[31m", "`<img src=x> @someone \\| *x*�[31m`"

    assert write(document, "text") == f"{shown}\n\n  {shown}\n  {shown}\n\n{shown}\n"
    pasted = write(document, "markdown")
    assert f"| &lt;img src=x> @\u200bsomeone \\| \\*x\\*�\\[31m |\n| {fenced} |\n" in pasted
    assert pasted.endswith("\n- `<img src=x> @someone | *x*�[31m`\n")
