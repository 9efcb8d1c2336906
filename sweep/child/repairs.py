"""What an error message says of the inputs that a model wants.

Pure: a message, the words of the failing line and what is known in, a change out.
"""

from __future__ import annotations

import re
from typing import Any

Change = tuple[str, Any]
"""`("wanted", argument)`, `("refused", argument)`, `("tokens", (modality, rows in all))`, or
`("sizes", (name, number))`."""

_COUNTS = re.compile(r"tokens?\D{0,20}?(\d+)\D{1,40}?features?\D{0,20}?(\d+)", re.IGNORECASE)
_PLACED = re.compile(r"tokens \((\d+)\) and features \((\d+)\)")
_TOLD = re.compile(r"[Gg]ot (\d+) \w+ tokens in the text but (\d+) tokens from")


def changes(message: str, line: str, arguments: list[str]) -> list[Change]:
    """Return what may help against an error, the likeliest first.

    `line` is the failing line of the library, `arguments` are those that forward takes.
    """
    found: list[Change] = []
    for rule in RULES:
        found += [one for one in rule(message, line, arguments) if one not in found]
    return found


def _missing(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    if "missing" not in message or "argument" not in message:
        return []
    return [("wanted", name) for name in re.findall(r"'(\w+)'", message)]


def _counts(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    match = _COUNTS.search(message) or _PLACED.search(message) or _TOLD.search(message)
    if not match:
        return []
    lower = message.lower()
    kind = next((one for one in ("video", "audio", "image") if one in lower), "image")
    return [("tokens", (kind, int(match[2])))]


def _scattered(message: str, _line: str, arguments: list[str]) -> list[Change]:
    """Find how many features were to be put in the place of tokens of which there are none."""
    pattern = r"value tensor of shape \[(\d+), \d+\] .* indexing result of shape \[0, \d+\]"
    if match := re.search(pattern, message):
        audio = {"input_features", "input_values"} & {*arguments}
        return [("tokens", ("audio" if audio else "image", int(match[1])))]
    return []


def _strange(message: str, _line: str, arguments: list[str]) -> list[Change]:
    """Find an argument that forward hands on to a part that does not take it."""
    match = re.search(r"got an unexpected keyword argument '(\w+)'", message)
    return [("refused", match[1])] if match and match[1] in arguments else []


def _images(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    pattern = r"[Ii](?:nput i)?mage size \((\d+)\D+(\d+)\) doesn't match model \((\d+)\D+(\d+)\)"
    if match := re.search(pattern, message):
        return [("sizes", ("height", int(match[3]))), ("sizes", ("width", int(match[4])))]
    return []


def _mel(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    if match := re.search(r"mel input features to be of length (\d+)", message):
        return [("sizes", ("frames", int(match[1])))]
    return []


def _asked(message: str, _line: str, arguments: list[str]) -> list[Change]:
    """Find arguments named in a sentence such as "You have to specify pixel_values"."""
    if not re.search(r"specif|provid|must be|required|either|cannot be None|need|pass", message):
        return []
    named = re.findall(r"\w+", message)
    return [("wanted", name) for name in arguments if name in named]


def _nothing(message: str, line: str, arguments: list[str]) -> list[Change]:
    if "NoneType" not in message:
        return []
    named = re.findall(r"\w+", line)
    return [("wanted", name) for name in arguments if name in named]


def _sections(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    """Find multimodal rotary sections that were meant for a larger head."""
    pattern = r"sum exactly to (\d+) .*got split_sizes=\[([\d, ]+)\]"
    if match := re.search(pattern, message):
        return [("sections", ([int(one) for one in match[2].split(",")], int(match[1])))]
    return []


def _rotary(message: str, line: str, _arguments: list[str]) -> list[Change]:
    """Find rotary settings that a config leaves open, and whether the model cuts heads by them."""
    if "NoneType" in message and re.search(r"rope_(scaling|parameters)\b", line):
        return [("rotary", "mrope_section" in line)]
    return []


def _pairs(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    if re.search(r"5D tensor of shape \(batch_size, 2", message):
        return [("layout", {"pixel dimensions": 5, "images": 2})]
    return []


def _open_fields(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    """Find fields of the config that a sentence asks for."""
    found: list[Change] = []
    if match := re.search(r"`(\w+)` (?:argument in the config|config needs to be)", message):
        found.append(("field", match[1]))
    if "no padding token is defined" in message:
        found.append(("field", "pad_token_id"))
    if "does not define the vocabulary size" in message:
        found.append(("field", "vocab_size"))
    if match := re.search(r"config\.(\w+_token_id) has to be defined", message):
        found.append(("field", match[1]))
    if match := re.search(r"'(\w+)Config' object has no attribute '(\w+)'", message):
        found.append(("attribute", (match[1] + "Config", match[2])))
    pattern = r"`(\w+)\.(\w+)` \((\d+)\) must match `\w+\.\w+` \((\d+)\)"
    if match := re.search(pattern, message):
        found.append(("nested", (match[1], match[2], int(match[4]))))
    return found


def _ends(message: str, _line: str, arguments: list[str]) -> list[Change]:
    """Find that a class reads a text at the token that ends it, in both halves."""
    pattern = r"number of <eos> tokens|tensor of 0 elements|index -1 is out of .* with size 0"
    if re.search(pattern, message):
        return [("sizes", ("end", 1))]
    if "shape of the mask" in message and "decoder_input_ids" in arguments:
        return [("refused", "decoder_input_ids")]
    return []


def _both(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    if match := re.search(r"cannot specify both (\w+) and (\w+)", message):
        return [("refused", match[2])]
    return []


def _axes(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    """Find images that have an axis of their own: of each row there are several."""
    if re.search(r"not enough values to unpack \(expected 5, got [34]\)", message):
        return [("layout", {"pixel dimensions": 5})]
    return []


def _too_small(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    if re.search(
        r"size is too small|spatial size \(\d+, \d+\), kernel|greater than actual", message
    ):
        return [("grow", "image")]
    return []


def _lengths(message: str, _line: str, _arguments: list[str]) -> list[Change]:
    """Find a size of an input that a sentence compares with another one."""
    patterns = (
        (r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", False),
        (r"expected input\[[\d, ]+\] to have (?P<want>\d+) channels, but got (\d+)", False),
        (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", True),
        (r"with shape \[\*, (?P<want>\d+)\], but got input of size ?\[[\d, ]*?(\d+)\]", False),
    )
    for pattern, either in patterns:
        if match := re.search(pattern, message):
            want = match.groupdict().get("want")
            have, want = (match[2], want) if want else (match[1], match[2])
            pairs = [(int(have), int(want)), *([(int(want), int(have))] if either else [])]
            return [("dimension", pair) for pair in pairs]
    pattern = r"multiple of .*?\(?(\d+)\)?,? but got (\d+)"
    if match := re.search(pattern, message):
        return [("dimension", (int(match[2]), _up(int(match[2]), int(match[1]))))]
    if match := re.search(r"length (\d+) is not a multiple of (\d+)", message):
        return [("dimension", (int(match[1]), _up(int(match[1]), int(match[2]))))]
    return []


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


RULES = (
    *(
        _missing,
        _strange,
        _counts,
        _scattered,
        _sections,
        _rotary,
        _open_fields,
        _images,
        _pairs,
        _axes,
        _ends,
        _mel,
        _both,
        _too_small,
    ),
    *(_lengths, _asked, _nothing),
)
