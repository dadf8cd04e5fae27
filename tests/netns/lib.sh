# To be sourced by the tests with network namespaces.

die() {
  echo "FAILED: $*" >&2
  exit 1
}

skip() {
  echo "SKIPPED: $*"
  exit 77
}

need_namespaces() {
  [ "$(id -u)" = 0 ] || skip "network namespaces need root"
  unshare --net --mount --uts true 2>/dev/null || skip "this container may not make namespaces"
}
