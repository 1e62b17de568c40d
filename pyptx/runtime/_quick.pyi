"""Types of the compiled twin of the launch path (``_quick.c``)."""

from typing import Any, final

ADDRESS: int
MAP: int
UNSIGNED: int
SIGNED: int
SINGLE: int
DOUBLE: int
MOST_PARAMETERS: int
CONFIG_BYTES: int

@final
class Entry:
    def __new__(
        cls,
        launch: int,
        function: int,
        config: bytes,
        device: int,
        parameters: tuple[tuple[int, int, int, bytes | None], ...],
        keep: object,
        /,
    ) -> Entry: ...

@final
class Table:
    def __new__(
        cls,
        tensor: type,
        parameter: type,
        is_grad_enabled: Any,
        exchange_api: object,
        is_array: bytes,
        miss: object,
        /,
    ) -> Table: ...
    def add(self, given: Any, out: Any, entry: Entry, allocators: tuple[Any, ...], /) -> bool: ...
    def call(self, given: Any, out: Any, stream: Any, /) -> Any: ...

@final
class Fixed:
    def __new__(cls, entry: Entry, exchange_api: object, values: tuple[Any, ...], /) -> Fixed: ...
    def start(self, stream: Any, /) -> bool: ...
