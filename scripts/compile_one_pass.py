"""Compiles `one_pass.c`, with which the runtime reads tensors fast. The build of the package does so, too.

    python scripts/compile_one_pass.py

compiles into the source tree, as an editable installation does. It needs nothing but Python and a C compiler: the one
that `CC` names, else the one that Python was built with, `cc`, `gcc` or `clang`. Without the library, or with that of
another version of the source, the runtime does the same with torch's functions, which takes longer.

Exit codes: 0 compiled, 1 not.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(__file__).resolve().parents[1] / "runtime/proxy_wrapper/values/native/one_pass.c"
LIBRARY: Final = "one_pass.so"

# `-ffp-contract=off`: a multiplication and an addition that are done as one would round otherwise, on some machines.
_FLAGS: Final = ("-std=gnu99", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")


def compile_one_pass(folder: Path) -> Path | None:
    """Put the library into `folder`; its path, or None where it could not be compiled, which is said on stderr."""
    reason = "no C compiler was found"
    version = sha256(SOURCE.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory(dir=folder, prefix="one_pass-") as scratch:
        made = Path(scratch, LIBRARY)
        for compiler in _compilers():
            command = [*compiler, *_FLAGS, f'-DSOURCE="{version}"', str(SOURCE), "-o", str(made), "-lm"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            except OSError:
                continue
            if done.returncode == 0 and made.exists():
                return made.replace(folder / LIBRARY)  # A program that has the old one loaded keeps it.
            said = done.stderr.strip().splitlines()
            reason = f"{shlex.join(compiler)} failed" + (f": {said[0]}" if said else "")
    print(f"one_pass.c was not compiled ({reason}); tensors will be read by torch's functions.", file=sys.stderr)
    return None


def _compilers() -> Iterator[list[str]]:
    """The compilers to try, in order, as the beginnings of commands."""
    chosen = os.environ.get("CC")
    if chosen:
        yield shlex.split(chosen)
        return
    known = shlex.split(sysconfig.get_config_var("CC") or "")
    if known:
        yield known
    yield from (["cc"], ["gcc"], ["clang"])


if __name__ == "__main__":
    sys.exit(compile_one_pass(SOURCE.parent) is None)
