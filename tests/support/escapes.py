"""Ways out of a sandbox: what each case tries, and how it shows, from outside, that it got there.

A case that gets through leaves something that was not there before, or says what it cannot know.
`harmless` ones are tried without a sandbox as well, where they must succeed: else they try nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from programs import started

from repromatrix.runner.paths import ROOT

_CREATE_SHARED = 0o1600
_REMOVE_SHARED = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Escape:
    """One attempt: lines of a case; `{name}` stands for something of the world around it."""

    name: str
    tries: str
    harmless: bool = False
    root: bool = False
    """Whether it succeeds without a sandbox only for root."""

    def case(self, world: World) -> str:
        """Return the script; it says the word of the world where it got through."""
        head = "import ctypes, glob, os, pathlib, socket, subprocess, sys, time"
        lines = [head, f"word = {world.said!r}", _HELP, textwrap.dedent(self.tries)]
        text = "\n".join(lines)
        for name, value in world.named.items():
            text = text.replace(f"<{name}>", value)
        return text


# What several attempts use.
_HELP = """
libc = ctypes.CDLL(None, use_errno=True)
def through(true=True):
    if true: print(word, flush=True)
def names_space(flags):
    user, group = os.getuid(), os.getgid()
    if libc.unshare(flags) < 0: raise OSError(ctypes.get_errno(), 'unshare')
    told = {'setgroups': 'deny', 'uid_map': f'0 {user} 1', 'gid_map': f'0 {group} 1'}
    for name, text in told.items():
        try: pathlib.Path('/proc/self', name).write_text(text)
        except OSError: pass
def mount(source, target, kind, flags):
    done = libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    if done < 0: raise OSError(ctypes.get_errno(), 'mount')
def write(path):
    with open(path, 'x') as file: file.write(word)
def shows(path):
    with open(path, 'rb') as file: print(file.read(1 << 16).decode(errors='replace'))
"""


@dataclass(kw_only=True)
class World:
    """What lies and listens around a sandbox, none of which a case may reach."""

    folder: Path
    secret: str
    said: str
    named: dict[str, str]
    helper: subprocess.Popen[str]
    listening: list[socket.socket] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)

    def signs(self, output: str) -> list[str]:
        """Return what shows that somebody got through since the last look, and undo it."""
        found = [f"it said {word!r}" for word in (self.secret, self.said) if word in output]
        for one in self.listening:
            with contextlib.suppress(BlockingIOError):
                if one.type == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(100)
                found.append("it was heard")
        for path in self.written:
            if path.exists():
                path.unlink()
                found.append("it wrote a file")
        if self.helper.poll() is not None:
            found.append("it killed a process")
        kept = Path(self.named["store"])
        if kept.read_text() != self.secret:
            kept.write_text(self.secret)
            found.append("it changed the store")
        return found


@contextlib.contextmanager
def world(site_packages: Path, library: Path) -> Iterator[World]:
    """Make a world around a sandbox, in the checkout's own folder, and take it away again."""
    state = ROOT / ".repromatrix"
    state.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="escape ", dir=state))
    secret, word = (f"{kind}-{secrets.token_hex(8)}" for kind in ("secret", "through"))
    shared = Path("/dev/shm") / folder.name  # noqa: S108 - it is about what lies there
    shared.write_text(secret)
    home = folder / "home"
    for name in (".netrc", ".config/pip/pip.conf", ".cache/huggingface/token"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(secret)
    (folder / "store.sqlite").write_text(secret)
    sockets = _listening(folder, secret)
    segment = _segment(secret)
    escaped = f"repromatrix-{secrets.token_hex(4)}"
    sleeping = ["sleep", "600"]
    with started(sleeping, env={**os.environ, "SECRET": secret}) as helper:
        tops = {
            "system": Path("/usr"),
            "repository": ROOT,
            "code": ROOT / "runner",
            "site": site_packages,
            "library": library,
            "world": folder,
        }
        named = {
            **{name: str(path) for name, path in tops.items()},
            "home": str(home),
            "store": str(folder / "store.sqlite"),
            "escaped": escaped,
            "helper": str(helper.pid),
            "shared": str(shared),
            "segment": str(segment),
            "port": str(sockets[0].getsockname()[1]),
            "datagrams": str(sockets[1].getsockname()[1]),
            "abstract": secret,
            "user": str(Path.home()),
            "private": repr(sorted(_private_names())),
        }
        try:
            yield World(
                folder=folder,
                secret=secret,
                said=word,
                named=named,
                helper=helper,
                listening=sockets,
                written=[top / escaped for top in tops.values()],
            )
        finally:
            helper.kill()
            for one in sockets:
                one.close()
            shared.unlink()
            ctypes.CDLL(None).shmctl(segment, _REMOVE_SHARED, None)
            shutil.rmtree(folder)


def _private_names() -> set[str]:
    """Return what lies in the user's home, but for where interpreters may have to be seen."""
    shown = {".pyenv", ".local", ".nox", ".cache"}
    return {path.name for path in Path.home().iterdir()} - shown


def _listening(folder: Path, secret: str) -> list[socket.socket]:
    stream = socket.create_server(("127.0.0.1", 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    found = [stream, datagrams]
    for address in (f"\0{secret}", os.path.relpath(folder / "socket")):
        local = socket.socket(socket.AF_UNIX)
        local.bind(address)
        local.listen()
        found.append(local)
    for one in found:
        one.settimeout(0)
    return found


def _segment(secret: str) -> int:
    """Return the key of a segment of System V memory that holds the secret."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    key = 0x5EC0000 + secrets.randbelow(1 << 16)
    number = libc.shmget(key, 4096, _CREATE_SHARED)
    address = libc.shmat(number, None, 0)
    ctypes.memmove(address, secret.encode(), len(secret))
    return int(number)


_NEW_USER, _NEW_MOUNTS, _NEW_PIDS = "0x10000000", "0x20000", "0x20000000"

ESCAPES = (
    Escape(
        name="connects to a port of the machine",
        tries="socket.create_connection(('127.0.0.1', <port>), 2).close()",
        harmless=True,
    ),
    Escape(
        name="sends a datagram to the machine",
        tries="socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', <datagrams>))",
        harmless=True,
    ),
    Escape(
        name="connects to an abstract socket",
        tries="socket.socket(socket.AF_UNIX).connect('\\0<abstract>')",
        harmless=True,
    ),
    Escape(
        name="connects to a socket in the file system",
        tries="os.chdir('<world>'); socket.socket(socket.AF_UNIX).connect('socket')",
        harmless=True,
    ),
    Escape(
        name="finds a way to another machine",
        tries="""
        routes = open('/proc/net/route').read().splitlines()[1:]
        through(any(line.split()[1] == '00000000' for line in routes))
        socket.getaddrinfo('example.org', 443)
        through()
        """,
    ),
    Escape(
        name="reads a netrc, pip's settings and a token in a home",
        tries="""
        for name in ('.netrc', '.config/pip/pip.conf', '.cache/huggingface/token'):
            try: shows(os.path.join('<home>', name))
            except OSError: pass
        """,
        harmless=True,
    ),
    Escape(
        name="lists the user's home",
        tries="through(set(os.listdir('<user>')) & set(<private>))",
        harmless=True,
    ),
    Escape(
        name="reads the password file of the system",
        tries="through(len(open('/etc/shadow').read()))",
        harmless=True,
        root=True,
    ),
    Escape(
        name="reads environment variables of another process",
        tries="""
        for path in ['/proc/<helper>/environ', *glob.glob('/proc/[0-9]*/environ')]:
            try: shows(path)
            except OSError: pass
        """,
        harmless=True,
    ),
    Escape(
        name="writes to the system",
        tries="write('<system>/<escaped>')",
    ),
    Escape(
        name="writes to the repository",
        tries="write('<repository>/<escaped>')",
        harmless=True,
    ),
    Escape(name="writes to the runner's code", tries="write('<code>/<escaped>')"),
    Escape(name="writes to its own script", tries="open(__file__, 'a').write('#'); through()"),
    Escape(
        name="changes the store",
        tries="open('<store>', 'w').write('x')",
        harmless=True,
    ),
    Escape(name="reads the store", tries="shows('<store>')", harmless=True),
    Escape(
        name="writes to the environment's packages",
        tries="write('<site>/<escaped>')",
    ),
    Escape(
        name="writes to the interpreter's library",
        tries="write('<library>/<escaped>')",
    ),
    Escape(
        name="renames a package of the environment",
        tries="""
        first = sorted(glob.glob('<site>/*'))[0]
        os.rename(first, first + '-escaped')
        os.rename(first + '-escaped', first)
        through()
        """,
    ),
    Escape(
        name="reads what another left in shared memory",
        tries="shows('<shared>')",
        harmless=True,
    ),
    Escape(
        name="attaches System V memory of another",
        tries="""
        libc.shmat.restype = ctypes.c_void_p
        there = libc.shmat(<segment>, None, 0o10000)
        if there not in (None, ctypes.c_void_p(-1).value): print(ctypes.string_at(there, 100))
        """,
        harmless=True,
    ),
    Escape(
        name="kills a process of the machine",
        tries="os.kill(<helper>, 9); time.sleep(0.2)",
    ),
    Escape(
        name="kills every process",
        tries="os.kill(-1, 9); time.sleep(0.2)",
    ),
    Escape(
        name="kills its parent's group",
        tries="os.killpg(os.getpgid(os.getppid()), 9); time.sleep(0.2)",
    ),
    Escape(
        name="traces a process of the machine",
        tries="""
        libc.ptrace.argtypes = [ctypes.c_long] * 4
        through(libc.ptrace(0x4206, <helper>, 0, 0) == 0)
        """,
        harmless=True,
    ),
    Escape(
        name="traces every process it can name",
        tries="""
        libc.ptrace.argtypes = [ctypes.c_long] * 4
        for name in filter(str.isdigit, os.listdir('/proc')):
            if int(name) != os.getpid(): through(libc.ptrace(0x4206, int(name), 0, 0) == 0)
        """,
    ),
    Escape(
        name="looks into the first process",
        tries="""
        for part in ('environ', 'mem', 'cwd', 'root', 'fd/0', 'fd/1', 'ns/mnt'):
            try:
                os.close(os.open('/proc/1/' + part, 0))
                through()
            except OSError: pass
        """,
    ),
    Escape(
        name="writes through the root of another process",
        tries="""
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try: write(f'/proc/{pid}/root<world>/<escaped>')
            except OSError: pass
        """,
        harmless=True,
    ),
    Escape(
        name="writes through its own root and folder in /proc",
        tries="""
        for way in ('/proc/self/root', '/proc/thread-self/root', '/proc/self/cwd/../../../..'):
            try: write(way + '<world>/<escaped>')
            except OSError: pass
        """,
        harmless=True,
    ),
    Escape(
        name="enters the namespaces of another process",
        tries="""
        for path in glob.glob('/proc/[0-9]*/ns/mnt'):
            if path.split('/')[2] == str(os.getpid()): continue
            try: through(libc.setns(os.open(path, 0), 0) == 0)
            except OSError: pass
        """,
    ),
    Escape(
        name="mounts the system writable again",
        tries="mount('', '<system>', '', 32 | 4096); write('<system>/<escaped>')",
    ),
    Escape(
        name="mounts the environment writable again",
        tries="mount('', '<site>', '', 32 | 4096); write('<site>/<escaped>')",
    ),
    Escape(
        name="mounts it writable in namespaces of its own",
        tries=f"""
        names_space({_NEW_USER} | {_NEW_MOUNTS})
        for path in ('<system>', '<site>', '<library>', '/'):
            for flags in (32 | 4096, 32 | 4096 | 2 | 4):
                try:
                    mount('', path, '', flags)
                    write(path + '/<escaped>')
                except OSError: pass
        """,
    ),
    Escape(
        name="takes away what is mounted over the machine",
        tries=f"""
        names_space({_NEW_USER} | {_NEW_MOUNTS})
        for path in ('/proc', '/tmp', '/dev/shm', '/sys', '/dev', os.getcwd()):
            for _ in range(9): through(libc.umount2(path.encode(), 2) == 0)
        """,
    ),
    Escape(
        name="mounts a writable /proc in namespaces of its own",
        tries=f"""
        names_space({_NEW_USER} | {_NEW_MOUNTS} | {_NEW_PIDS})
        if not os.fork():
            try:
                os.mkdir('proc')
                mount('proc', 'proc', 'proc', 0)
                os.close(os.open('proc/sys/kernel/core_pattern', os.O_WRONLY))
                through()
            finally: os._exit(0)
        os.wait()
        """,
    ),
    Escape(
        name="changes a setting of the kernel",
        tries="os.close(os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)); through()",
        harmless=True,
        root=True,
    ),
    Escape(
        name="asks the kernel by its request key",
        tries="os.close(os.open('/proc/sysrq-trigger', os.O_WRONLY)); through()",
    ),
    Escape(
        name="writes to the system's devices",
        tries="""
        groups = glob.glob('/sys/fs/cgroup/*/cgroup.procs')
        for path in ('/sys/kernel/uevent_helper', '/sys/kernel/mm/ksm/run', *groups):
            try: os.close(os.open(path, os.O_WRONLY)); through()
            except OSError: pass
        """,
        harmless=True,
        root=True,
    ),
    Escape(
        name="opens a device of the machine",
        tries="""
        for path in glob.glob('/dev/*'):
            kind = os.stat(path).st_mode >> 12
            through(kind == 6 or os.path.basename(path) in ('mem', 'kmsg', 'port', 'kvm', 'fuse'))
        """,
        harmless=True,
    ),
    Escape(
        name="makes a device",
        tries="os.mknod('zero', 0o20666, os.makedev(1, 5)); open('zero', 'rb').read(4); through()",
        harmless=True,
        root=True,
    ),
    Escape(
        name="gains rights from a program that lends them",
        tries="""
        import shutil
        shutil.copy(shutil.which('grep'), 'lends')
        os.chmod('lends', 0o4755)
        said = subprocess.check_output(['./lends', 'CapEff', '/proc/self/status'], text=True)
        through(int(said.split()[1], 16))
        """,
        harmless=True,
        root=True,
    ),
    Escape(
        name="becomes another user",
        tries="os.setuid(1); through(os.getuid() == 1)",
        harmless=True,
        root=True,
    ),
    Escape(
        name="sets the clock",
        tries="time.clock_settime(time.CLOCK_REALTIME, time.time()); through()",
    ),
    Escape(
        name="names the machine anew",
        tries="socket.sethostname(socket.gethostname()); through()",
        harmless=True,
        root=True,
    ),
    Escape(
        name="loads a module into the kernel",
        tries="through(libc.syscall(175, b'x' * 64, 64, b'') < 0 and ctypes.get_errno() == 8)",
    ),
    Escape(
        name="types into the terminal",
        tries="""
        import fcntl
        own = [f'/proc/self/fd/{number}' for number in range(3)]
        for path in ('/dev/tty', '/dev/console', '/dev/tty1', *own):
            try: fcntl.ioctl(os.open(path, os.O_RDWR), 0x5412, b'x'); through()
            except OSError: pass
        """,
    ),
    Escape(
        name="restarts the machine",
        tries="through(libc.syscall(169, 0xfee1dead, 672274793, 0x89ABCDEF, 0) == 0)",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A case that reaches for its neighbour, and the neighbour, which passes where it is spared."""

    name: str
    does: str
    suffers: str
    beside: bool = True
    """Whether they run at the same time; else the neighbour comes after."""


# It waits until the other has had its time, and then looks at what it has.
_HELD = """
import os, time
open('mine', 'w').write('mine')
time.sleep(1.5)
assert open('mine').read() == 'mine'
assert os.listdir() == ['mine'], os.listdir()
"""
_LEFT = """
import os
for folder in (os.environ['HOME'], os.environ['HF_HOME'], '..', '/tmp', '/dev/shm'):
    assert 'left-by-a-neighbour' not in os.listdir(folder), folder
"""

PAIRS = (
    Pair(
        name="writes into its neighbour's folder",
        does=textwrap.dedent("""
            import glob, os, time
            end = time.monotonic() + 1
            while time.monotonic() < end:
                for folder in (*glob.glob('../cell-*'), *glob.glob('/proc/[0-9]*/cwd')):
                    if os.path.exists(folder + '/mine') and not os.path.samefile(folder, '.'):
                        open(folder + '/mine', 'w').write('not yours')
                time.sleep(0.05)
            """),
        suffers=_HELD,
    ),
    Pair(
        name="kills its neighbour",
        does=textwrap.dedent("""
            import glob, os, time
            end = time.monotonic() + 1
            while time.monotonic() < end:
                for folder in glob.glob('/proc/[0-9]*/cwd'):
                    try:
                        if os.path.exists(folder + '/mine'): os.kill(int(folder.split('/')[2]), 9)
                    except OSError: pass
                time.sleep(0.05)
            """),
        suffers=_HELD,
    ),
    Pair(
        name="forges its neighbour's answer",
        does=textwrap.dedent("""
            import glob, json, os
            forged = {'id': 2, 'outcome': 'fails', 'output': 'escaped', 'wall': 0}
            for path in (*glob.glob(f'/proc/{os.getppid()}/fd/*'), *glob.glob('/proc/1/fd/*')):
                if os.getppid() == 0 or path.startswith(f'/proc/{os.getppid()}/'):
                    try:
                        if os.readlink(path).startswith('pipe:'):
                            os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK),
                                b'\\n' + json.dumps(forged).encode() + b'\\n')
                    except OSError: pass
            """),
        suffers=_HELD,
    ),
    Pair(
        name="leaves something for the next one",
        does=textwrap.dedent("""
            import os
            for folder in (os.environ['HOME'], os.environ['HF_HOME'], '..'):
                open(folder + '/left-by-a-neighbour', 'w').close()
            """),
        suffers=_LEFT,
        beside=False,
    ),
    Pair(
        name="leaves something for the one beside it",
        does=textwrap.dedent("""
            import os, time
            time.sleep(0.5)  # the other begins only where nothing lies
            for folder in (os.environ['HOME'], os.environ['HF_HOME']):
                open(folder + '/left-by-a-neighbour', 'w').close()
            """),
        suffers=f"import time\ntime.sleep(1.5)\n{_LEFT}",
    ),
)
