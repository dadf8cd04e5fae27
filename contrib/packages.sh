# To be sourced: install_packages installs what contrib/packages.txt lists and is not there yet.

missing_packages() {
  local list
  list=$(sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$1")
  # shellcheck disable=SC2086
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' $list 2>/dev/null |
    awk '$2 == "installed" { have[$1] = 1 } END { for (p in have) print p }' |
    sort | comm -13 - <(sort <<<"$list")
}

install_packages() {
  local list=$1/contrib/packages.txt missing as_root=()
  if ! command -v dpkg-query >/dev/null; then
    echo "not a Debian system: install yourself what $list names" >&2
    return 0
  fi
  mapfile -t missing < <(missing_packages "$list")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "missing packages: ${missing[*]}" >&2
      echo "run this as root, or install sudo, or run as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing packages: ${missing[*]}"
  "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=120 update </dev/null
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 \
    install --no-install-recommends "${missing[@]}" </dev/null
}
