#!/usr/bin/env bash
# Installs the Debian packages that are missing for the window ("run") or for the window and its tests ("test").
# Without root and without sudo it prints the command instead, and fails.
set -euo pipefail
[ "$(uname -s)" = Linux ] || exit 0

declare -A library=(
  [libEGL.so.1]=libegl1 [libGL.so.1]=libgl1 [libglib-2.0.so.0]=libglib2.0-0 [libdbus-1.so.3]=libdbus-1-3
  [libfontconfig.so.1]=libfontconfig1 [libfreetype.so.6]=libfreetype6 [libX11-xcb.so.1]=libx11-xcb1
  [libxkbcommon.so.0]=libxkbcommon0 [libxkbcommon-x11.so.0]=libxkbcommon-x11-0 [libxcb-cursor.so.0]=libxcb-cursor0
  [libxcb-icccm.so.4]=libxcb-icccm4 [libxcb-image.so.0]=libxcb-image0 [libxcb-keysyms.so.1]=libxcb-keysyms1
  [libxcb-randr.so.0]=libxcb-randr0 [libxcb-render-util.so.0]=libxcb-render-util0 [libxcb-shape.so.0]=libxcb-shape0
  [libxcb-xkb.so.1]=libxcb-xkb1 [libxcb-sync.so.1]=libxcb-sync1 [libxcb-xfixes.so.0]=libxcb-xfixes0
  [libwayland-cursor.so.0]=libwayland-cursor0 [libwayland-egl.so.1]=libwayland-egl1
)
declare -A program=([python3]=python3)
[ "${1:-run}" = test ] && program+=([Xvfb]=xvfb [xdotool]=xdotool)
python=${PYTHON:-python3}

missing=()
present=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
for name in "${!library[@]}"; do [[ $present == *"$name "* ]] || missing+=("${library[$name]}"); done
for name in "${!program[@]}"; do command -v "$name" >/dev/null || missing+=("${program[$name]}"); done
"$python" -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
# Triton compiles its launcher with the machine's C compiler, but only where there is a GPU to launch on
if command -v nvidia-smi >/dev/null && ! command -v cc >/dev/null && ! command -v gcc >/dev/null; then missing+=(gcc libc6-dev); fi
[ ${#missing[@]} -gt 0 ] || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
command="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "Missing here: what Debian calls ${missing[*]}. Install your system's packages for them, then run make again." >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then as=(); elif sudo -n true 2>/dev/null; then as=(sudo); else
  echo "Packages are missing, and installing them needs root. Please run:  sudo $command" >&2
  exit 1
fi
echo "installing ${missing[*]}"
"${as[@]}" apt-get update -qq
# shellcheck disable=SC2086
"${as[@]}" env DEBIAN_FRONTEND=noninteractive $command -o Dpkg::Use-Pty=0 >/dev/null
