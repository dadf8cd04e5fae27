#!/bin/bash
# HPC Challenge on two ranks over roce: every one of its tests has to say itself that its result is right.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
hpcc=$(command -v hpcc) || skip "hpcc not found; on Debian: apt-get install hpcc"
place 2
cd "$work" || die "no $work" # it reads hpccinf.txt and writes hpccoutf.txt where it runs

# Of HPL's input only the numbers count, at the begin of each line; the tables of the other tests follow the matrix.
cat >hpccinf.txt <<'END'
HPLinpack benchmark input file
-
HPL.out     output file
8           device
1           number of problem sizes
400         sizes
1           number of block sizes
80          block sizes
0           process mapping by rows
1           number of process grids
1           rows
2           columns
16.0        threshold of the scaled residual
1           number of panel factorizations
2           right-looking
1           number of stopping criteria
4           columns
1           number of panels in recursion
2           panels
1           number of recursive factorizations
1           Crout
1           number of broadcasts
1           ring, modified
1           number of lookahead depths
1           depth
2           mixed swapping
64          its threshold
0           L1 transposed
0           U transposed
1           equilibration
8           alignment in doubles
-
0           more matrix sizes for PTRANS
-
0           more block sizes for PTRANS
-
END

section() { sed -n "/^Begin of $1 section/,/^End of $1 section/p" hpccoutf.txt; }

wrong() { # SECTION MESSAGE
  fail "$1: $2"
  section "$1" | head -n 60 | sed 's/^/  hpccoutf.txt: /'
}

# says SECTION COUNT PATTERN: the section has so many lines of this kind.
says() {
  local count
  count=$(section "$1" | grep -c -E "$3")
  [ "$count" = "$2" ] || wrong "$1" "$count lines like \"$3\", not $2"
}

# below SECTION LABEL LIMIT: the number after the label.
below() {
  section "$1" | awk -v label="$2" -v limit="$3" '
    index($0, label) == 1 {
      seen = 1
      value = substr($0, length(label) + 1)
      good = value ~ /^ *[0-9.]+(e[-+][0-9]+)? *$/ && value + 0 < limit
    }
    END { exit !(seen && good) }' || wrong "$1" "$2 is missing or not below $3"
}

if good 120 "$mpirun" -np 2 "${place[@]}" --mca pml ob1 --mca btl "$btl,self" --mca btl_roce_stats "$stats" "$hpcc"; then
  [ -f hpccoutf.txt ] || die "no hpccoutf.txt"
  says HPL 1 '\.\.\. PASSED$'
  says HPL 1 '^ +1 tests completed and passed residual checks'
  says PTRANS 5 '^WALL .* PASSED '
  says PTRANS 1 '^ +5 tests completed and passed residual checks'
  # Each rank makes the updates of its own part: not even the few errors that it would forgive can come about.
  for random in RandomAccess RandomAccess_LCG; do
    says "MPI$random" 1 '^Found 0 errors in [0-9]+ locations \(passed\)'
    says "Star$random" 1 '^Found 0 errors in [0-9]+ locations \(passed\)'
  done
  # FFT and inverse FFT, without a limit of its own: single errors of rounding, of numbers around 1.
  below MPIFFT 'max(|x-x0|):' 1e-13
  below StarFFT 'max(|x-x0|):' 1e-13
  below StarDGEMM 'Scaled residual:' 16
  says StarSTREAM 1 '^Solution Validates'
  for test in RandomAccess RandomAccess_LCG DGEMM STREAM FFT; do
    says "Star$test" 1 '^Node\(s\) with error 0$'
    says "Single$test" 1 '^Node\(s\) with error 0$'
  done
  says LatencyBandwidth 1 '^Max Ping Pong Latency: +[0-9.]+ msecs'
  says Summary 1 '^Success=1$'
  echo "bytes carried: $(carried)"
  # Ping-pong and rings of 2 MB messages alone are more.
  expect "bytes over roce" "$(carried)" -gt 50000000
fi
finish
