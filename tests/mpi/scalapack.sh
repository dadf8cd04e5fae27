#!/bin/bash
# ScaLAPACK's own test programs (factorizations, eigenvalues, PBLAS, BLACS) on four ranks over roce, with the input files
# that they come with. What they print at their end decides. Left out, as it fails with any BTL: xdsep, see
# tests/mpi/expected_failures.txt.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for tests in /usr/lib/*/scalapack/openmpi-tests; do :; done
[ -x "$tests/xdlu" ] || skip "no ScaLAPACK tests; on Debian: apt-get install scalapack-mpi-test"
place 4
cd "$work" || die "no $work" # they read their input, and write, where they run
ln -s "$tests"/*.dat "$tests"/PBLAS/*.dat "$tests"/BLACS/*.dat .
# Of the BLACS tester the longest numbers, double complex; without the auxiliary tests, of which the last is to abort.
rm bt.dat
sed -e "/Run AUX/s/'T'/'F'/" -e 's/^5\( .*Number of precisions\)/1\1/' \
  -e "s/^'I'.*\(Values for precision\)/'Z' \1/" "$tests/BLACS/bt.dat" >bt.dat

# Prints the passed and the failed tests of the last run, and whether its output is whole.
verdict() {
  awk '
    /tests completed and passed residual checks/ { passed += $1 }
    /tests completed and failed/ { failed += $1 }
    $1 == "|" && $2 ~ /^P/ { passed += $4; failed += $5 } # PBLAS: tests, passed, failed, skipped
    /TESTS: BEGIN/ { begun++ }                            # BLACS
    match($0, /[0-9]+ PASSED,/) && /TESTS:/ { passed += substr($0, RSTART); begun-- }
    match($0, /[0-9]+ FAILED\.$/) && /TESTS:/ { failed += substr($0, RSTART); whole = 1 }
    /FAILED/ && !/TESTS:/ && !/SUBROUTINE/ { lines++ }
    tolower($0) ~ /^ *end of tests\.?/ { whole = 1 }
    END { printf "%d %d %s", passed, failed + (failed ? 0 : lines), whole && !begun ? "whole" : "cut" }' "$out"
}

# one PROGRAM
one() {
  local passed failed whole
  good 200 "$mpirun" -np 4 "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca btl_roce_stats "$stats" "$tests/$1" || return
  read -r passed failed whole <<<"$(verdict)"
  echo "$1: $passed passed, $failed failed, bytes carried: $(carried)"
  if [ "$passed" = 0 ] || [ "$failed" != 0 ] || [ "$whole" != whole ]; then
    fail "$1: $passed passed, $failed failed, its output is $whole"
    grep -n -E 'FAILED|failed' "$out" | head -n 20
    show "$1"
  fi
  expect "$1: bytes over roce" "$(carried)" -gt 50000
}

for program in xdqr xdinv xdnep xssep xdbrd xdgblu xFbtest PBLAS/zpb1tst PBLAS/dpb2tst PBLAS/cpb3tst; do one "$program"; done
if [ -n "$long" ]; then
  for program in xdlu xcllt xsls xdtrd xdhrd xzevc xcsep xzqr xCbtest PBLAS/{s,c}pb1tst PBLAS/{c,z}pb2tst PBLAS/{s,d,z}pb3tst; do
    one "$program"
  done
fi
finish
