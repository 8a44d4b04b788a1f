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
    python -m mypy.stubtest pnnx_fast._core.program pnnx_fast._core.store pnnx_fast._core.text \
        --allowlist tools/stubtest_allowlist.txt --ignore-unused-allowlist
fi
