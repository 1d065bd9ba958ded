#!/usr/bin/env bash
# Installs into an empty folder and uses what is there. usage: install.sh BUILD_FOLDER
set -euo pipefail
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$1" --prefix "$prefix" >/dev/null

fail() {
  echo "install: $1"
  exit 1
}
for file in bin/rope-profiler share/man/man1/rope-profiler.1 \
  share/bash-completion/completions/rope-profiler share/zsh/site-functions/_rope-profiler \
  share/fish/vendor_completions.d/rope-profiler.fish share/rope-profiler/schemas/positions.schema.json \
  share/doc/rope-profiler/README.md share/doc/rope-profiler/LICENSE share/doc/rope-profiler/CHANGELOG.md \
  share/doc/rope-profiler/REFERENCE.md share/doc/rope-profiler/docs/development.md; do
  [ -s "$prefix/$file" ] || fail "$file is missing or empty"
done

version=$("$prefix/bin/rope-profiler" --version)
[[ $version == rope-profiler\ * ]] || fail "unexpected version '$version'"
grep -q '^\.TH ROPE' "$prefix/share/man/man1/rope-profiler.1" || fail "the manual has no title line"
if command -v man >/dev/null && command -v groff >/dev/null; then
  warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z "$prefix/share/man/man1/rope-profiler.1" 2>&1 >/dev/null)
  [ -z "$warnings" ] || fail "the manual: $warnings"
fi

# The completion, as bash-completion would load it, offers the commands that the program lists.
# shellcheck disable=SC1091,SC2034
offered=$(
  source "$prefix/share/bash-completion/completions/rope-profiler"
  COMP_WORDS=(rope-profiler '') COMP_CWORD=1
  _rope_profiler
  printf '%s\n' "${COMPREPLY[@]}"
)
while read -r name _; do
  grep -qx -- "$name" <<<"$offered" || fail "completion does not offer '$name'"
done < <("$prefix/bin/rope-profiler" --help | sed -n '/^Options:/q; s/^  \([a-z][a-z]*\)  .*/\1/p')
echo "install: ok"
