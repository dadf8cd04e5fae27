# ROCE_INIT: starts the list of missing requirements.
AC_DEFUN([ROCE_INIT], [roce_missing=])

# ROCE_MISSING(WHAT, DEBIAN-PACKAGE): adds one line to the list.
AC_DEFUN([ROCE_MISSING], [AS_VAR_APPEND([roce_missing], ["  missing: $1 (Debian package: $2)
"])])

# ROCE_REPORT_MISSING: prints the whole list and stops, if there is one.
AC_DEFUN([ROCE_REPORT_MISSING], [
AS_IF([test -n "$roce_missing"], [
  AC_MSG_ERROR([cannot build with what is installed here:
${roce_missing}contrib/packages.txt lists all packages; contrib/check.sh and contrib/quickstart.sh install them.])])
])

# ROCE_CHECK_LIB(NAME, HEADER, LIB, FUNCTION, DEBIAN-PACKAGE, VARIABLE): sets VARIABLE to -lLIB.
AC_DEFUN([ROCE_CHECK_LIB], [
AC_SUBST([$6])
AC_CHECK_HEADER([$2],
  [AC_CHECK_LIB([$3], [$4], [$6="-l$3"], [ROCE_MISSING([$1: lib$3 with $4], [$5])])],
  [ROCE_MISSING([$1: header $2], [$5])])
])

# ROCE_CHECK_GTEST: GoogleTest and GoogleMock, which need the C++ compiler with our flags.
AC_DEFUN([ROCE_CHECK_GTEST], [
AC_SUBST([GTEST_LIBS])
AC_LANG_PUSH([C++])
roce_save_CXXFLAGS=$CXXFLAGS roce_save_LIBS=$LIBS
CXXFLAGS="$CXXFLAGS $ROCE_CXXFLAGS"
LIBS="-lgtest -lpthread $LIBS"
AC_CACHE_CHECK([for GoogleTest], [roce_cv_gtest],
  [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <gtest/gtest.h>]], [[testing::InitGoogleTest()]])],
    [roce_cv_gtest=yes], [roce_cv_gtest=no])])
LIBS="-lgmock $LIBS"
AC_CACHE_CHECK([for GoogleMock], [roce_cv_gmock],
  [AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <gmock/gmock.h>]], [[testing::InitGoogleMock()]])],
    [roce_cv_gmock=yes], [roce_cv_gmock=no])])
CXXFLAGS=$roce_save_CXXFLAGS LIBS=$roce_save_LIBS
AC_LANG_POP([C++])
AS_IF([test "$roce_cv_gtest" != yes], [ROCE_MISSING([GoogleTest: gtest/gtest.h and libgtest], [libgtest-dev])])
AS_IF([test "$roce_cv_gmock" != yes], [ROCE_MISSING([GoogleMock: gmock/gmock.h and libgmock], [libgmock-dev])])
GTEST_LIBS="-lgtest_main -lgmock -lgtest -lpthread"
])
