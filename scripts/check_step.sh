# A step of ./test, and what its log says. Sourced by ./test.

# failed_tests LOG: the names of tests that failed, by GoogleTest, CTest, pytest and Node, and of one that never ended.
failed_tests() {
  local names most=8
  names=$(
    sed -nE -e 's/^([0-9]+: )?\[  FAILED  \] ([A-Za-z].*)/\2/p' -e 's/^(FAILED|ERROR) ([^ ]+\.py.*)/\2/p' \
      -e 's/^ *not ok [0-9]+ - (.*)/\1/p' -e 's/^\t *[0-9]+ - (.*\))$/\1/p' "$1" |
      sed -E -e 's/ \([0-9]+ ms\)$//' -e 's/ - .*//' -e 's/, where (Get|Type)Param.*//' -e 's/^(.{140}).+/\1.../'
    awk '/\[ RUN      \]/ { name = $NF } /\[ +(OK|FAILED|SKIPPED) +\]/ { name = "" } END { if (name) print name, "(did not end)" }' "$1"
  )
  [[ -n $names ]] || return 0
  awk -v most=$most '!seen[$0]++ && ++n <= most { print "    failed: " $0 } END { if (n > most) print "    and " n - most " more" }' \
    <<<"$names"
}

# As step, and the tools' own summaries from the log.
check() {
  local status=0
  step "$@" || status=1
  ((status == 0)) || failed_tests "build/logs/$2.log"
  grep -hE '^[0-9]+% tests passed|^=* ?([0-9]+ [a-z]+, )*[0-9]+ (passed|failed|skipped)|^([0-9]+: )?\[  (PASSED|FAILED)  \] [0-9]+ test|^# (pass|fail) [0-9]+$|lines per op; at most|^[0-9]+ (graphs|things|inputs), |^Done [0-9]+ runs|^[0-9]+ faults on ' \
    "build/logs/$2.log" | tail -n 3 | sed 's/^/    /'
  return $status
}
