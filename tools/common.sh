# Shared by the scripts in this folder; sourced, never run.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Compiled objects are kept between clean builds where ccache is there; nothing depends on it.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER="${CMAKE_C_COMPILER_LAUNCHER-ccache}"
  export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER-ccache}"
fi

fail() {
  echo "${0##*/}: error: $1" >&2
  exit 1
}

# build PRESET [TARGET...]: configures once (the build itself notices later changes), then builds.
build() {
  local preset="$1" targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset"
  cmake --build --preset "$preset" "${targets[@]}"
}

# run_tests PRESET: all tests; ctest's closing line comes last, whatever ctest prints after it.
run_tests() {
  local log="build/$1/ctest.log" status=0
  ctest --preset "$1" --parallel "$(nproc)" 2>&1 | tee "$log" || status=$?
  grep -E '^[0-9]+% tests passed' "$log" || echo "no test was run"
  return "$status"
}

# All C++ and CUDA sources.
sources() {
  local folders=()
  for folder in src tests bench; do [ -d "$folder" ] && folders+=("$folder"); done
  find "${folders[@]}" -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort
}
