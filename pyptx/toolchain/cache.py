"""The disk cache of machine code: cubins, each in a folder beside the PTX text from which it was made.

Owns the layout of the folders, and the rules under which processes share them:

- ``ROOT/ENTRY-DIGEST/TOOL/`` has ``kernel.ptx``, ``kernel.cubin`` and ``entry.json``, which has checksums.
  The file ``used`` grows by a byte at each hit: its time is that of the last use, its size their number.
- A folder is written under another name and renamed, so that no process sees a part of an entry.
- An entry that is damaged is removed, and made again.  A disk that is full or read-only costs only time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ..core.errors import SpecError
from ..core.records import dataclass
from ..core.version import VERSION

__all__ = [
    "CachedCubin",
    "CubinCache",
    "CubinEntry",
    "CubinSource",
    "default_folder",
    "make_root",
    "shipped_caches",
    "user_cache",
]

#: Environment variables: the folder, ``0`` for none, more folders that are only read, the bound in bytes.
FOLDER, SWITCH, SHIPPED, LIMIT = "PYPTX_CACHE_DIR", "PYPTX_CACHE", "PYPTX_CACHE_PATH", "PYPTX_CACHE_LIMIT"

DEFAULT_LIMIT = 512 << 20

#: Changes when the layout of an entry changes.
_FORMAT = "1"
_PTX, _CUBIN, _ENTRY, _USED = "kernel.ptx", "kernel.cubin", "entry.json", "used"
_NEW, _OLD = ".new-", ".old-"
#: Seconds after which a folder that a process left half written is removed.
_ABANDONED = 3600.0
#: Entries that a process writes before it looks again how much other processes have written.
_LOOK_EVERY = 32
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True)
class CubinSource:
    """What a cubin is made from: all that machine code and lines depend on, but for the tool.

    Attributes:
        entry: name of a kernel in the text, for people who read the folder.
        text: the PTX text.
        target: architecture of the machine code, such as ``"sm_90a"``.
        options: options of the compiler.
    """

    entry: str
    text: str
    target: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the folder."""
        parts = (_FORMAT, VERSION, self.target, str(len(self.options)), *self.options, self.text)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"{_UNSAFE.sub('_', self.entry)[:64]}-{digest[:32]}"


@dataclass(frozen=True)
class CachedCubin:
    """A cubin, the tool that made it, and what the tool printed."""

    image: bytes
    tool: str
    log: str = ""


@dataclass(frozen=True)
class CubinEntry:
    """What ``pyptx cache show`` shows of an entry.

    Attributes:
        folder: the folder with PTX, cubin and ``entry.json``.
        entry: name of a kernel.
        target: architecture of the machine code.
        tool: the compiler with its version.
        nbytes: size of all files in bytes.
        used: time of the last use, in seconds since the epoch.
        hits: number of times that the cubin was found.
    """

    folder: Path
    entry: str
    target: str
    tool: str
    nbytes: int
    used: float
    hits: int


class CubinCache:
    """A folder of cubins that many processes may read and write at the same time.

    Attributes:
        root: the folder.
        limit: bytes that all entries together may have; the entries that were not used for longest go first.
        shipped: whether the folder is part of a program: others than its writer read it too, and reading
            changes nothing in it, not even what is damaged.
    """

    def __init__(
        self, root: str | os.PathLike[str], limit: int = DEFAULT_LIMIT, *, shipped: bool = False
    ) -> None:
        self.root = Path(root)
        self.limit = limit
        self.shipped = shipped
        self._mode = 0o777 if shipped else 0o700
        #: Bytes of all entries when last counted, plus what this process wrote since; None before.
        self._size: int | None = None
        self._written = 0

    def find(self, source: CubinSource, tool: str) -> CachedCubin | None:
        """Return the cubin that ``tool`` made from ``source``; None if there is none that can be read."""
        return self._read(self.root / source.name / tool, tool)

    def find_any(self, source: CubinSource) -> CachedCubin | None:
        """Return a cubin that any tool made from ``source``: the newest ptxas before others."""
        folder = self.root / source.name
        try:
            tools = sorted(os.listdir(folder), key=_age_of_tool, reverse=True)
        except OSError:
            return None
        found = (self._read(folder / tool, tool) for tool in tools)
        return next((cubin for cubin in found if cubin is not None), None)

    def _read(self, folder: Path, tool: str) -> CachedCubin | None:
        try:
            facts = json.loads((folder / _ENTRY).read_bytes())
            image = (folder / _CUBIN).read_bytes()
            if facts["cubin_sha256"] != hashlib.sha256(image).hexdigest():
                raise ValueError("the checksum differs")
            found = CachedCubin(image, tool, str(facts["log"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            if not self.shipped and folder.is_dir():  # damaged
                self._remove(folder)
            return None
        except OSError:
            return None
        if not self.shipped:
            with contextlib.suppress(OSError), open(folder / _USED, "ab") as used:
                used.write(b".")
        return found

    def discard(self, source: CubinSource, tool: str) -> None:
        """Remove an entry, for example one that the driver refuses."""
        self._remove(self.root / source.name / tool)

    def store(self, source: CubinSource, cubin: CachedCubin) -> bool:
        """Write an entry, then remove old ones if all are larger than the limit.

        Returns:
            False if the entry could not be written; nothing of it is left then.
        """
        new = self.root / f"{_NEW}{os.getpid()}-{os.urandom(6).hex()}"
        facts = {
            "entry": source.entry,
            "target": source.target,
            "options": source.options,
            "tool": cubin.tool,
            "pyptx": VERSION,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cubin_sha256": hashlib.sha256(cubin.image).hexdigest(),
            "log": cubin.log,
        }
        try:
            make_root(self.root, self._mode)
            new.mkdir(mode=self._mode)
            (new / _PTX).write_text(source.text, encoding="utf-8")
            (new / _CUBIN).write_bytes(cubin.image)
            (new / _ENTRY).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            (new / _USED).touch()
            written = _size_of(new)
            self._place(new, self.root / source.name / cubin.tool)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            with contextlib.suppress(OSError):
                (self.root / source.name).rmdir()
            return False
        self._bound(written)
        return True

    def _place(self, new: Path, folder: Path) -> None:
        """Rename a whole entry to its place; if another process was faster, its entry stays."""
        for _ in range(3):
            folder.parent.mkdir(mode=self._mode, exist_ok=True)
            try:
                new.rename(folder)
                return
            except FileNotFoundError:  # another process removed the empty parent
                continue
            except OSError:
                if not (folder / _ENTRY).exists():
                    raise
                break
        shutil.rmtree(new, ignore_errors=True)

    def _remove(self, folder: Path) -> bool:
        """Remove an entry; under another name first, so that no process finds a part of it."""
        old = self.root / f"{_OLD}{os.getpid()}-{os.urandom(6).hex()}"
        try:
            folder.rename(old)
        except OSError:
            return False
        shutil.rmtree(old, ignore_errors=True)
        with contextlib.suppress(OSError):  # other tools have entries for the same text
            folder.parent.rmdir()
        return True

    def entries(self) -> list[CubinEntry]:
        """Return all entries, the last used first."""
        found = [entry for folder in self._folders() if (entry := _describe(folder)) is not None]
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def _folders(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self.root)):
                if not name.startswith("."):
                    with contextlib.suppress(OSError):
                        yield from ((self.root / name / tool) for tool in os.listdir(self.root / name))

    def clear(self, older_than: float = 0.0) -> tuple[int, int]:
        """Remove entries that were not used for ``older_than`` seconds; return how many, and their bytes."""
        now, count, nbytes = time.time(), 0, 0
        for entry in self.entries():
            if now - entry.used >= older_than and self._remove(entry.folder):
                count += 1
                nbytes += entry.nbytes
        self._sweep(older_than)
        self._size = None
        return count, nbytes

    def _sweep(self, older_than: float) -> None:
        """Remove what processes left that ended while they wrote or removed an entry."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.root):
                if name.startswith((_NEW, _OLD)):
                    with contextlib.suppress(OSError):
                        left = self.root / name
                        if time.time() - left.stat().st_mtime >= older_than:
                            if left.is_dir():
                                shutil.rmtree(left, ignore_errors=True)
                            else:
                                left.unlink()

    def _bound(self, written: int) -> None:
        """Remove the entries that were not used for longest until the others fit the limit."""
        self._written += 1
        if self._size is not None:
            self._size += written
            if self._size <= self.limit and self._written % _LOOK_EVERY:
                return
        self._sweep(_ABANDONED)
        entries = self.entries()
        self._size = sum(entry.nbytes for entry in entries)
        while entries and self._size > self.limit:
            oldest = entries.pop()
            self._remove(oldest.folder)
            self._size -= oldest.nbytes


def make_root(root: Path, mode: int) -> None:
    """Make the folder, if it is not there. Raises OSError."""
    if root.is_dir():
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=mode)


def _size_of(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))


def _describe(folder: Path) -> CubinEntry | None:
    """Return the facts of an entry; None if another process has just removed it."""
    try:
        facts = json.loads((folder / _ENTRY).read_bytes())
    except (OSError, ValueError):
        facts = None
    if not isinstance(facts, dict):
        facts = {}
    try:
        nbytes, last, hits = _size_of(folder), folder.stat().st_mtime, 0
        with contextlib.suppress(FileNotFoundError):
            used = (folder / _USED).stat()
            last, hits = used.st_mtime, used.st_size
    except OSError:
        return None
    entry, target = (str(facts.get(name, "(damaged)")) for name in ("entry", "target"))
    return CubinEntry(folder, entry, target, folder.name, nbytes, last, hits)


def _age_of_tool(tool: str) -> tuple[bool, list[int]]:
    """Order of the folders of tools: ptxas after others, and its versions by their numbers."""
    return tool.startswith("ptxas-"), [int(number) for number in re.findall(r"\d+", tool)]


def default_folder() -> Path:
    """Return the folder of the user's cache: ``PYPTX_CACHE_DIR``, or ``pyptx`` in XDG's cache folder."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "pyptx"


def user_cache() -> CubinCache | None:
    """Return the user's cache; None if it is turned off, or its folder belongs to another user.

    Raises:
        SpecError: ``PYPTX_CACHE_LIMIT`` is not a size.
    """
    if os.environ.get(SWITCH, "") == "0":
        return None
    try:
        folder = default_folder()
        if folder.exists() and folder.stat().st_uid != os.geteuid():
            return None
    except (OSError, RuntimeError):  # no home folder, or not readable
        return None
    return _cache_at(folder, _limit())


_OPEN: dict[tuple[Path, int], CubinCache] = {}


def _cache_at(folder: Path, limit: int) -> CubinCache:
    """Return one object for a folder, which knows what this process wrote."""
    return _OPEN.setdefault((folder, limit), CubinCache(folder, limit))


def shipped_caches() -> list[CubinCache]:
    """Return the caches that are only read, in the order of ``PYPTX_CACHE_PATH``."""
    folders = os.environ.get(SHIPPED, "").split(os.pathsep)
    return [CubinCache(Path(folder).expanduser().absolute(), shipped=True) for folder in folders if folder]


def _limit() -> int:
    given = os.environ.get(LIMIT)
    if not given:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", given.strip(), re.IGNORECASE)
    if match is None:
        raise SpecError(f"{LIMIT} is {given!r}: expected a size such as 512M or 2G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]
