#!/usr/bin/env bash
# Makes the virtual environment DIRECTORY, with a CPU build of torch and this project in it (editable).
#
#   scripts/make_environment.sh DIRECTORY [EXTRA]
#
# EXTRA is one of pyproject.toml's optional dependencies, such as "dev", or several with commas between. Run again on an environment that is there,
# it brings it up to date. Variables, all optional: PYTHON (the interpreter to use), TORCH_VERSION, TORCH_INDEX.
set -euo pipefail
cd "$(dirname "$0")/.."

directory=$1
extra=${2:-}
torch_version=${TORCH_VERSION:-2.13.0}
torch_index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}

say() { echo "[environment] $*" >&2; }
fail() { say "$*"; exit 1; }
no_torch=3 # The exit code where that torch cannot be had, which is for scripts/matrix.py to tell.

is_usable() { # A version manager's python3.x may be there and not run, hence by trying; 3.10 is the oldest we support.
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_usable "$PYTHON" || fail "PYTHON=$PYTHON does not run, is older than 3.10, or lacks the venv module."
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
        if is_usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "No Python 3.10 or later with the venv module was found. Install one (Debian and Ubuntu: apt install" \
        "python3 python3-venv), or name it: make PYTHON=/path/to/python3.11 ..."
}

if ! [ -x "$directory/bin/python" ]; then
    python=$(find_python)
    say "making $directory with $("$python" --version)"
    "$python" -m venv "$directory"
fi

pip() { "$directory/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
has_torch() {
    "$directory/bin/python" - "$torch_version" <<'PYTHON' 2>/dev/null
import sys
from importlib.metadata import version
sys.exit(version("torch").partition("+")[0] != sys.argv[1])
PYTHON
}

# On Linux, "torch" from PyPI is the CUDA build and gigabytes large: never ask for it there by that name alone.
# A mirror or a folder of wheels that pip is configured with may have the CPU build, named "+cpu"; else PyTorch's
# own index has it. For other systems PyPI's torch is the CPU build.
if ! has_torch; then
    say "installing torch $torch_version, the CPU build"
    pip "torch==$torch_version+cpu" 2>/dev/null ||
        pip "torch==$torch_version" --index-url "$torch_index" ||
        { [ "$(uname -s)" != Linux ] && pip "torch==$torch_version"; } ||
        {
            say "torch $torch_version could not be installed for $("$directory/bin/python" --version); see above." \
                "Another Python (make PYTHON=...), version (TORCH_VERSION=...) or index (TORCH_INDEX=...) may have it."
            exit $no_torch
        }
fi

# Without numpy, which it does not require, torch warns on every import. What the extras need may need a torch, too:
# it has to do with this one.
say "installing instrumentor${extra:+ [$extra]}"
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
echo "torch==$torch_version" >"$constraints"
pip --editable ".${extra:+[$extra]}" numpy --constraint "$constraints"
