#!/bin/bash
# The component exports its structure and nothing else, and refers to nothing that only libmpi has.
. "$ROCE_SRC_DIR/tests/btl/lib.sh"
exports=$(nm -D --defined-only "$module" | awk '{ print $NF }')
[ "$exports" = mca_btl_roce_component ] || fail "exported symbols: $exports"
mpi=$(nm -D -u "$module" | awk '{ print $NF }' | grep -e '^MPI_' -e '^ompi_' -e '^PMPI_')
[ -z "$mpi" ] || fail "symbols of libmpi: $mpi"
