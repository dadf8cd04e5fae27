# Lets an uninstalled build be used. Source it in bash:
#   . contrib/env.sh [BUILD_DIR]          (default: ./build, else build/ of the source tree)
# Then `mpirun --mca btl roce,self ...` finds the component, and the tools and examples are on PATH.

_roce_env() {
  local src build component
  src=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd) || return 1
  build=${1:-}
  if [ -z "$build" ]; then
    build=$src/build
    [ ! -f ./build/roce_config.h ] || build=./build
  fi
  component=$build/src/btl/.libs/mca_btl_roce.so
  if [ ! -e "$component" ]; then
    echo "env.sh: $component not found: build first (./autogen.sh; mkdir build; cd build;" \
      "../configure; make), or name the build directory: . contrib/env.sh BUILD_DIR" >&2
    return 1
  fi
  build=$(cd -- "$build" && pwd) || return 1
  # SYS_DEFAULT first: the path replaces Open MPI's own, so without it no other component would be found.
  export OMPI_MCA_mca_base_component_path=SYS_DEFAULT:$build/src/btl/.libs
  export ROCE_HELP_DIR=$src/src/btl
  case :$PATH: in
    *:"$build/src/tools":*) ;;
    *) export PATH=$build/src/tools:$build/mpi_examples:$PATH ;;
  esac
}
_roce_env "$@"
