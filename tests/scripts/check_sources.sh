#!/usr/bin/env bash
# Rules about the sources that no compiler checks. usage: check_sources.sh REPOSITORY
# - includes point one way: spectral <- profiler <- interventions <- cli
# - spectral is mathematics: no HDF5, no JSON, no printing; only cli knows a terminal
# - nothing names a folder of the machine it was written on
set -euo pipefail
cd "$1"
status=0

# forbid EXPLANATION PATTERN PATH...: PATTERN (extended) must match no line of the C++ and CUDA files there.
forbid() {
  local explanation=$1 pattern=$2 found
  shift 2
  local paths=()
  for path in "$@"; do [ -e "$path" ] && paths+=("$path"); done
  [ ${#paths[@]} -gt 0 ] || return 0
  found=$(grep -rnE --include='*.hpp' --include='*.cpp' --include='*.cu' --include='*.cuh' --include='*.sh' \
    --include='*.md' --include='CMakeLists.txt' -- "$pattern" "${paths[@]}" || true)
  if [ -n "$found" ]; then
    printf '%s:\n%s\n' "$explanation" "$found"
    status=1
  fi
}

forbid 'spectral includes a layer above it' '#include "(profiler|interventions|cli)/' src/spectral
forbid 'profiler includes a layer above it' '#include "(interventions|cli)/' src/profiler
forbid 'interventions includes a layer above it' '#include "cli/' src/interventions
forbid 'spectral knows a file format' '#include <(hdf5|H5|nlohmann|CLI/)' src/spectral
forbid 'a layer below cli knows the command line' '#include <CLI/' src/spectral src/profiler src/interventions
forbid 'a layer below cli prints' '#include <iostream>|std::c(out|err)\b|\bprintf\(' src/spectral src/profiler src/interventions
forbid 'sources include tests' '#include "(support|reference)/' src
forbid 'an include climbs out of its folder' '#include "\.\./' src tests
forbid 'a folder of someone'"'"'s machine' '/(home|work|Users)/[A-Za-z]' src tests tools docs examples README.md
forbid 'random numbers that differ between standard libraries' \
  'std::(unifor[m]|norma[l]|bernoull[i]|discret[e])_[a-z_]*distribution|std::(random_devic[e]|shuffl[e])\b' src tests

exit $status
