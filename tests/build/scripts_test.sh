#!/bin/bash
# The shell scripts parse; contrib/env.sh serves a build and complains about what is none.
set -euo pipefail
die() {
  echo "FAILED: $*" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$ROCE_SRC_DIR"

mapfile -t without_suffix < <(grep -l '^#!/bin/bash' contrib/netns/*)
[ ${#without_suffix[@]} -ge 3 ] || die "contrib/netns: ${without_suffix[*]}"
for script in contrib/*.sh contrib/suites/run "${without_suffix[@]}" tests/*/*.sh .ci/run; do
  bash -n "$script" || die "$script"
done
while read -r line; do
  [[ $line =~ ^([a-z0-9][a-z0-9.+-]*)?\ *(#.*)?$ ]] || die "contrib/packages.txt: $line"
done <contrib/packages.txt

cd "$work"
complaint=$(bash -c '. "$0" "$1"; echo "status $?"' "$ROCE_SRC_DIR/contrib/env.sh" "$work" 2>&1)
[[ $complaint == *"build first"*"status 1" ]] || die "env.sh on an empty directory: $complaint"

# A stand-in for a build, so that the test does not depend on Open MPI.
mkdir -p "b/src/btl/.libs" b/src/tools
: >b/src/btl/.libs/mca_btl_roce.so
found=$(bash -uc '. "$0" b; . "$0" b; echo "$OMPI_MCA_mca_base_component_path"; echo "$PATH"' \
  "$ROCE_SRC_DIR/contrib/env.sh")
[ "$(head -n 1 <<<"$found")" = "SYS_DEFAULT:$work/b/src/btl/.libs" ] || die "component path: $found"
[ "$(grep -o "$work/b/src/tools" <<<"$found" | wc -l)" = 1 ] || die "tools once on PATH: $found"
