"""Types of the compiled twin of the launch path (``_quick.c``)."""

from typing import Any, final

ADDRESS: int
MAP: int
CONSTANT: int
UNSIGNED: int
SIGNED: int
SINGLE: int
DOUBLE: int
MOST_PARAMETERS: int
CONFIG_BYTES: int

def note_launch(function: int, /) -> None: ...
def recent_launches() -> tuple[int, ...]: ...

@final
class Entry:
    def __new__(
        cls,
        launch: int,
        is_capturing: int,
        function: int,
        config: bytes,
        device: int,
        parameters: tuple[tuple[int, int, int, bytes | None], ...],
        captured: bytearray,
        keep: object,
        /,
    ) -> Entry: ...
    def resized(self, grid: tuple[int, int, int], changed: tuple[tuple[int, bytes], ...], /) -> Entry: ...

@final
class Table:
    def __new__(
        cls,
        tensor: type,
        parameter: type,
        is_grad_enabled: Any,
        forward_ad: Any,
        dispatch_modes: Any,
        tracing_state: Any,
        increment_version: Any,
        exchange_api: object,
        specs: tuple[tuple[int, ...] | None, ...],
        miss: object,
        /,
    ) -> Table: ...
    def add(self, given: Any, out: Any, entry: Entry, allocators: tuple[Any, ...], sizes: Any, /) -> bool: ...
    def call(self, given: Any, out: Any, stream: Any, /) -> Any: ...

@final
class Fixed:
    def __new__(
        cls,
        entry: Entry,
        exchange_api: object,
        values: tuple[Any, ...],
        increment_version: Any,
        written: tuple[Any, ...],
        /,
    ) -> Fixed: ...
    def start(self, stream: Any, /) -> bool: ...
