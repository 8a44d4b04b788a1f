#!/usr/bin/env bash
# All linters and type checks: one command for people and for CI.
set -euo pipefail
cd "$(dirname "$0")/.."
ruff check .
ruff format --check .
mypy
cython-lint pnnx_fast/_core
find csrc \( -name '*.c' -o -name '*.h' \) -print0 | xargs -0 clang-format --dry-run -Werror
if python -c "import pnnx_fast._core.program" 2>/dev/null; then
    # The team of OpenMP is there only where the compiler has it.
    built=$(python -c "
import pkgutil, pnnx_fast._core as core
print(*(f'{core.__name__}.{module.name}' for module in pkgutil.iter_modules(core.__path__)))")
    # shellcheck disable=SC2086
    python -m mypy.stubtest $built --allowlist tools/stubtest_allowlist.txt --ignore-unused-allowlist
fi
