# ROCE_CHECK_OMPI: finds Open MPI through its wrapper compiler and sets
#   HAVE_OMPI (conditional)      Open MPI is used
#   OMPI_CPPFLAGS, OMPI_LIBS     for the component: internal headers (-isystem), libopen-pal only
#   MPI_CPPFLAGS, MPI_LIBS       for MPI programs: what mpicc adds, headers by -isystem
#   OMPI_COMPONENT_DIR           where the component is installed
#   MPIRUN                       mpirun of the same installation
AC_DEFUN([ROCE_CHECK_OMPI], [
AC_ARG_WITH([ompi],
  [AS_HELP_STRING([--with-ompi=DIR], [use the Open MPI installed in DIR (default: mpicc in PATH); --without-ompi builds no component])],
  [], [with_ompi=yes])
AC_ARG_WITH([ompi-component-dir],
  [AS_HELP_STRING([--with-ompi-component-dir=DIR], [install the component in DIR (default: Open MPI's own component directory)])],
  [], [with_ompi_component_dir=])
AS_CASE([$with_ompi],
  [no], [roce_ompi_path=],
  [yes], [roce_ompi_path=$PATH],
  [roce_ompi_path=$with_ompi/bin])
roce_ompi_summary="none (--without-ompi)" roce_component_summary=none
roce_have_ompi=no
AS_IF([test "$with_ompi" != no], [
  AC_PATH_PROG([MPICC], [mpicc], [], [$roce_ompi_path])
  AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$roce_ompi_path])
  AC_PATH_PROG([MPIRUN], [mpirun], [], [$roce_ompi_path])
  AS_IF([test -z "$MPICC"], [ROCE_MISSING([Open MPI: mpicc], [libopenmpi-dev])],
        ["$MPICC" --showme:incdirs >/dev/null 2>&1], [roce_have_ompi=yes],
        [ROCE_MISSING([Open MPI: $MPICC is the wrapper of another MPI], [libopenmpi-dev])])
  AS_IF([test -z "$OMPI_INFO" || test -z "$MPIRUN"], [
    roce_have_ompi=no
    ROCE_MISSING([Open MPI: ompi_info and mpirun], [openmpi-bin])])])
AS_IF([test "$roce_have_ompi" = yes], [ROCE_INSPECT_OMPI])
AC_SUBST([OMPI_CPPFLAGS])
AC_SUBST([OMPI_LIBS])
AC_SUBST([MPI_CPPFLAGS])
AC_SUBST([MPI_LIBS])
AC_SUBST([MPIRUN])
AC_SUBST([OMPI_COMPONENT_DIR])
AC_SUBST([ROCE_HAVE_OMPI], [$roce_have_ompi])
AM_CONDITIONAL([HAVE_OMPI], [test "$roce_have_ompi" = yes])
])

AC_DEFUN([ROCE_INSPECT_OMPI], [
for roce_dir in `"$MPICC" --showme:incdirs`; do
  AS_VAR_APPEND([MPI_CPPFLAGS], [" -isystem $roce_dir"])
  AS_VAR_APPEND([OMPI_CPPFLAGS], [" -isystem $roce_dir -isystem $roce_dir/openmpi"])
done
AS_VAR_APPEND([MPI_CPPFLAGS], [" -DOMPI_SKIP_MPICXX=1"])
for roce_dir in `"$MPICC" --showme:libdirs`; do
  AS_VAR_APPEND([OMPI_LIBS], [" -L$roce_dir"])
done
OMPI_LIBS="$OMPI_LIBS -lopen-pal"
MPI_LIBS=`"$MPICC" --showme:link`
roce_save_CPPFLAGS=$CPPFLAGS roce_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $OMPI_CPPFLAGS"
AC_CHECK_HEADER([opal/mca/btl/btl.h], [], [
  roce_have_ompi=no
  ROCE_MISSING([Open MPI: header opal/mca/btl/btl.h (elsewhere: configure Open MPI with --with-devel-headers)], [libopenmpi-dev])],
  [[#include <opal_config.h>]])
AS_IF([test "$roce_have_ompi" = yes], [
  AC_COMPUTE_INT([roce_ompi_major], [OPAL_MAJOR_VERSION], [[#include <opal_config.h>]], [roce_ompi_major=0])
  AC_COMPUTE_INT([roce_ompi_minor], [OPAL_MINOR_VERSION], [[#include <opal_config.h>]], [roce_ompi_minor=0])
  AC_MSG_CHECKING([for the version of Open MPI's BTL interface])
  AC_COMPUTE_INT([roce_btl_version], [BTL_VERSION], [[#include <opal_config.h>
#include <opal/mca/btl/btl.h>]], [roce_btl_version=unknown])
  AC_MSG_RESULT([$roce_btl_version])
  AS_CASE([$roce_btl_version], [310|330], [],
    [ROCE_MISSING([an Open MPI with BTL interface 3.1.0 or 3.3.0 (this is Open MPI $roce_ompi_major.$roce_ompi_minor, BTL_VERSION $roce_btl_version)], [libopenmpi-dev])])
  LIBS="$OMPI_LIBS $LIBS"
  AC_CACHE_CHECK([for libopen-pal], [roce_cv_libopen_pal],
    [AC_LINK_IFELSE([AC_LANG_CALL([], [opal_progress])], [roce_cv_libopen_pal=yes], [roce_cv_libopen_pal=no])])
  AS_IF([test "$roce_cv_libopen_pal" != yes], [ROCE_MISSING([Open MPI: libopen-pal], [libopenmpi-dev])])
  OMPI_COMPONENT_DIR=$with_ompi_component_dir
  AS_IF([test -z "$OMPI_COMPONENT_DIR"],
    [OMPI_COMPONENT_DIR=`"$OMPI_INFO" --parsable --path pkglibdir | sed -n 's/^path:pkglibdir://p'`])
  AS_IF([test -z "$OMPI_COMPONENT_DIR"],
    [ROCE_MISSING([Open MPI: the component directory (ompi_info --path pkglibdir names none)], [openmpi-bin])])
  AC_DEFINE_UNQUOTED([ROCE_OMPI_VERSION], ["$roce_ompi_major.$roce_ompi_minor"], [major.minor of the Open MPI the component is built for])
  roce_ompi_summary="$roce_ompi_major.$roce_ompi_minor, BTL interface $roce_btl_version ($MPICC)"
  roce_component_summary=$OMPI_COMPONENT_DIR])
CPPFLAGS=$roce_save_CPPFLAGS LIBS=$roce_save_LIBS
])
