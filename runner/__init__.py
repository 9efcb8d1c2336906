"""Measures reported dtype bugs on every release of transformers, and says what it means.

Layers, lowest first; a module imports only from layers before its own (a test holds this):
`errors`, `searching` (over any oracle), `model` (the words), `judging` (what an outcome means),
`planning` (what to run), `evidence` (what was measured), `environments` (pinned virtualenvs),
`installed` (what others have), `engine` (running cells), `campaign` (one whole run, before it
begins), `running` (brought to its end), `cluster` (the same on a Ray cluster), `answering`
(answers from evidence), `carrying` (on a machine without a network), and `cli` on top.
`inside` stands apart: it is executed by the python of the environment under test.
"""
