"""What comes out of a running cell: its report and its output, read as they come."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

from runner.inside.report import read_report

if TYPE_CHECKING:
    from collections.abc import Callable

_KEEP = 16_384
_REPORT_LIMIT = 1 << 22


class Pipes:
    """The zygote's ends of what a cell writes to; the other ends are the cell's."""

    def __init__(self) -> None:
        """Open both."""
        self.content = bytearray()
        self.output = bytearray()
        self.dropped = 0
        self.silent: set[int] = set()
        """Descriptors that were closed at the other end: asked again, they answer at once."""
        self.nonce = secrets.token_hex(8).encode()
        self.reports, self.report_end = os.pipe()
        self.outputs, self.output_end = os.pipe()
        os.set_blocking(self.reports, False)
        os.set_blocking(self.outputs, False)

    def begin(self) -> None:
        """Leave the cell's ends to the cell, which has them now."""
        os.close(self.report_end)
        os.close(self.output_end)

    def drain(self) -> None:
        """Read what there is."""
        for chunk in self._chunks(self.reports):
            self.content += chunk[: max(0, _REPORT_LIMIT - len(self.content))]
        for chunk in self._chunks(self.outputs):
            self.output += chunk
            if len(self.output) > 2 * _KEEP:
                self.dropped += len(self.output) - 2 * _KEEP
                del self.output[_KEEP:-_KEEP]

    def _chunks(self, descriptor: int) -> list[bytes]:
        chunks = []
        for _ in range(64):  # bounded: a flood must not keep the zygote from its other cells
            try:
                chunk = os.read(descriptor, 1 << 18)
            except BlockingIOError:
                break
            if not chunk:
                self.silent.add(descriptor)
                break
            chunks.append(chunk)
        return chunks

    def close(self) -> None:
        """Close what it is read through."""
        os.close(self.reports)
        os.close(self.outputs)

    def report(self) -> dict[str, Any] | None:
        """Return what the child reported, if it did, and nobody else in its place."""
        if not self.content.startswith(self.nonce):
            return None
        return read_report(bytes(self.content[len(self.nonce) :]))

    def said(self) -> str:
        """Return what was printed: its beginning and its end."""
        text = bytes(self.output)
        if self.dropped:
            note = f"\n… {self.dropped} bytes left out …\n".encode()
            text = text[:_KEEP] + note + text[-_KEEP:]
        return text.decode("utf-8", "backslashreplace")


def sender(channel: int, nonce: bytes) -> Callable[[bytes], None]:
    """Return the function by which a child reports; bound early, before a case can change `os`."""
    write = os.write

    def send(content: bytes) -> None:
        rest = nonce + content
        while rest:
            rest = rest[write(channel, rest) :]

    return send
