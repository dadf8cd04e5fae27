# ROCE_CHECK_FUZZER: finds a clang++ with libFuzzer and sanitizers, which builds the fuzzers whatever compiler builds
# the rest. Sets HAVE_FUZZER (conditional) and FUZZ_CXX.
AC_DEFUN([ROCE_CHECK_FUZZER], [
AC_ARG_ENABLE([fuzzers],
  [AS_HELP_STRING([--disable-fuzzers], [do not build the fuzzers (default: if clang++ has libFuzzer)])],
  [], [enable_fuzzers=yes])
roce_fuzzer_summary="none (--disable-fuzzers)"
AS_IF([test "$enable_fuzzers" != no], [
  roce_fuzzer_summary="none (no clang++; Debian packages: clang, libclang-rt-14-dev)"
  AC_CHECK_PROGS([FUZZ_CXX], [clang++ clang++-14])])
AS_IF([test -n "$FUZZ_CXX"], [
  AC_LANG_PUSH([C++])
  roce_save_CXX=$CXX roce_save_CXXFLAGS=$CXXFLAGS
  CXX=$FUZZ_CXX CXXFLAGS="-std=c++20 -fsanitize=fuzzer,address,undefined"
  AC_CACHE_CHECK([whether $FUZZ_CXX links fuzzers], [roce_cv_fuzzer], [AC_LINK_IFELSE([AC_LANG_SOURCE([[
    #include <cstddef>
    #include <cstdint>
    extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }]])],
    [roce_cv_fuzzer=yes], [roce_cv_fuzzer=no])])
  CXX=$roce_save_CXX CXXFLAGS=$roce_save_CXXFLAGS
  AC_LANG_POP([C++])
  AS_IF([test "$roce_cv_fuzzer" = yes],
    [roce_fuzzer_summary=$FUZZ_CXX],
    [roce_fuzzer_summary="none ($FUZZ_CXX has no libFuzzer; Debian package: libclang-rt-14-dev)"])])
AM_CONDITIONAL([HAVE_FUZZER], [test "$roce_cv_fuzzer" = yes])
])
