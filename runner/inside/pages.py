"""Memory pages of the zygote: large ones, so that a fork copies few entries.

A fork copies an entry per page of the parent's own memory, and the child's end frees them again;
a large page is one entry in place of 512. `nox -s bench` prints what a forked cell costs.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLLAPSE = 25
"""MADV_COLLAPSE of <linux/mman.h>, since Linux 6.1; elsewhere it fails and nothing changes."""
_LARGE = 1 << 21


def gather() -> None:
    """Gather this process's own memory into large pages where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None, use_errno=True).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, end in list(_anonymous()):
            advise(start, end - start, _COLLAPSE)


def _anonymous() -> Iterator[tuple[int, int]]:
    """Yield the writable regions that belong to no file, cut to whole large pages."""
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - pathlib is not needed otherwise
        for line in maps:
            addresses, rights, *rest = line.split()
            if "w" not in rights or (len(rest) > 3 and rest[3].startswith("/")):  # noqa: PLR2004
                continue
            first, last = (int(text, 16) for text in addresses.split("-"))
            start, end = (first + _LARGE - 1) & -_LARGE, last & -_LARGE
            if start < end:
                yield start, end
