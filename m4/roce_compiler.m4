# ROCE_CXX_FLAG(FLAG, VARIABLE, [IF-NOT]): appends FLAG to VARIABLE if the C++ compiler takes it without a warning.
AC_DEFUN([ROCE_CXX_FLAG], [
AS_VAR_PUSHDEF([cv], [roce_cv_cxx_flag_$1])
AC_LANG_PUSH([C++])
AC_CACHE_CHECK([whether $CXX takes $1], [cv], [
  roce_save_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <version>]])], [AS_VAR_SET([cv], [yes])], [AS_VAR_SET([cv], [no])])
  CXXFLAGS=$roce_save_CXXFLAGS])
AC_LANG_POP([C++])
AS_VAR_IF([cv], [yes], [AS_VAR_APPEND([$2], [" $1"])], [$3])
AS_VAR_POPDEF([cv])
])

# ROCE_COMPILER_FLAGS: language, warnings, visibility, sanitizers. Sets ROCE_CXXFLAGS, ROCE_CFLAGS,
# ROCE_LDFLAGS, and MODULE_DEFS_LDFLAGS (what makes an undefined symbol in a module a link error).
AC_DEFUN([ROCE_COMPILER_FLAGS], [
AC_ARG_ENABLE([werror],
  [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
  [], [enable_werror=no])
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@], [build with sanitizers: "address,undefined" (default of the option) or "thread"])],
  [], [enable_sanitizers=no])
AS_CASE([$enable_sanitizers],
  [yes], [roce_sanitizers=address,undefined],
  [no], [roce_sanitizers=none],
  [roce_sanitizers=$enable_sanitizers])

ROCE_CXXFLAGS="-std=c++20"
ROCE_CFLAGS="-Wall -Wextra -fvisibility=hidden"
ROCE_LDFLAGS=
MODULE_DEFS_LDFLAGS="-Wl,-z,defs"
AC_LANG_PUSH([C++])
AC_CACHE_CHECK([whether $CXX compiles C++20], [roce_cv_cxx20], [
  roce_save_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++20"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
    #include <concepts>
    #include <span>
    template <std::integral T> T twice(T x) { return x + x; }]],
    [[int a[2] = {1, 2}; return twice(static_cast<int>(std::span<int>(a).size()));]])],
    [roce_cv_cxx20=yes], [roce_cv_cxx20=no])
  CXXFLAGS=$roce_save_CXXFLAGS])
AC_LANG_POP([C++])
AS_IF([test "$roce_cv_cxx20" != yes], [ROCE_MISSING([a compiler of C++20 (tried $CXX)], [g++])])
AS_VAR_APPEND([ROCE_CXXFLAGS], [" -Wall -Wextra -fvisibility=hidden"])
# A GNU_UNIQUE symbol would keep dlclose() from unloading the component; clang makes none and has no such flag.
ROCE_CXX_FLAG([-fno-gnu-unique], [ROCE_CXXFLAGS])
# Before 13, g++ reports ranges inside the standard library that cannot happen (std::vector::insert at -O2).
AC_LANG_PUSH([C++])
AC_CACHE_CHECK([whether $CXX is g++ before 13], [roce_cv_old_gcc],
  [AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#if defined __clang__ || !defined __GNUC__ || __GNUC__ >= 13
#error another
#endif]])], [roce_cv_old_gcc=yes], [roce_cv_old_gcc=no])])
AC_LANG_POP([C++])
AS_IF([test "$roce_cv_old_gcc" = yes],
  [AS_VAR_APPEND([ROCE_CXXFLAGS], [" -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread"])])
AS_IF([test "$enable_werror" = yes], [
  AS_VAR_APPEND([ROCE_CXXFLAGS], [" -Werror"])
  AS_VAR_APPEND([ROCE_CFLAGS], [" -Werror"])])
AS_IF([test "$roce_sanitizers" != none], [
  roce_flags="-fsanitize=$roce_sanitizers -fno-omit-frame-pointer"
  AS_VAR_APPEND([ROCE_CXXFLAGS], [" $roce_flags"])
  AS_VAR_APPEND([ROCE_CFLAGS], [" $roce_flags"])
  ROCE_LDFLAGS="-fsanitize=$roce_sanitizers"
  # The sanitizer's run time comes from the program that loads the module.
  MODULE_DEFS_LDFLAGS=])
AC_SUBST([ROCE_CXXFLAGS])
AC_SUBST([ROCE_CFLAGS])
AC_SUBST([ROCE_LDFLAGS])
AC_SUBST([MODULE_DEFS_LDFLAGS])
AM_CONDITIONAL([SANITIZERS], [test "$roce_sanitizers" != none])
])
