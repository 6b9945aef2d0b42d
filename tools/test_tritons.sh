#!/usr/bin/env bash
# Runs tests/kernel with other Triton releases, in the interpreter: tools/test_tritons.sh [3.6 3.7 3.8 3.9]
# Each has its own environment, .venv-tritons/3.x, which holds only Triton (and NumPy where it must be older)
# and takes everything else from .venv. Its bin/python also serves as `flashscope --worker`.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.6 3.7 3.8 3.9
base=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
present=$(.venv/bin/python -c 'from importlib.metadata import version as v; print("triton==" + v("triton"))')

packages() {
  case $1 in
    3.6) echo triton==3.6.0 numpy==2.3.5 ;;  # Triton 3.6's interpreter breaks with NumPy 2.4
    3.7) echo triton==3.7.1 ;;
    3.8) echo triton==3.8.0 ;;
    3.9) echo triton==3.9.0 ;;
    *) echo "No Triton $1 here; there are 3.6, 3.7, 3.8 and 3.9." >&2; return 1 ;;
  esac
}

failed=()
for release in "$@"; do
  wanted=$(packages "$release")
  env=.venv-tritons/$release
  if [ "$(cat "$env/holds" 2>/dev/null)" != "$wanted $present $base" ]; then
    rm -rf "$env"
    .venv/bin/python -m venv --without-pip "$env"
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    # shellcheck disable=SC2086
    [ "$wanted" = "$present" ] ||
      .venv/bin/pip install -q --disable-pip-version-check --no-deps --target "$site" $wanted
    # addsitedir and not a plain path, so that the base's own .pth files (the editable install) count too
    echo "import site; site.addsitedir('$base')" >"$site/base.pth"
    echo "$wanted $present $base" >"$env/holds"
  fi
  echo "== $("$env/bin/python" -c 'import numpy, torch, triton; print(f"triton {triton.__version__}, numpy {numpy.__version__}, torch {torch.__version__}")')"
  "$env/bin/python" -m pytest -q -n 2 -p no:cacheprovider ${PYTEST_ARGS:-} tests/kernel || failed+=("$release")
done
[ ${#failed[@]} -eq 0 ] || { echo "failed with Triton ${failed[*]}" >&2; exit 1; }
