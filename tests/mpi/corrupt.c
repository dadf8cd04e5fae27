/* For LD_PRELOAD: flips one bit of the first message or put that a rank above 0 sends, once it has
 * sent CORRUPT_AFTER bytes, so that the checks of the example programs can be checked. */
#include <mpi.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static long sent_bytes;

static void corrupt(const void* buffer, int count, MPI_Datatype type) {
  const char* after = getenv("CORRUPT_AFTER");
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Type_size(type, &size);
  if (rank == 0 || after == NULL || count <= 0 || size <= 0 || sent_bytes < 0) return;
  sent_bytes += (long)count * size;
  if (sent_bytes <= atol(after)) return;
  sent_bytes = -1;
  ((unsigned char*)buffer)[0] ^= 0x10; /* the first byte belongs to the message in every layout */
}

EXPORT int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm) {
  corrupt(buffer, count, type);
  return PMPI_Send(buffer, count, type, to, tag, comm);
}

EXPORT int MPI_Ssend(const void* buffer, int count, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm) {
  corrupt(buffer, count, type);
  return PMPI_Ssend(buffer, count, type, to, tag, comm);
}

EXPORT int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm, MPI_Request* request) {
  corrupt(buffer, count, type);
  return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

EXPORT int MPI_Sendrecv(const void* buffer, int count, MPI_Datatype type, int to, int tag,
                        void* receive, int receive_count, MPI_Datatype receive_type, int from,
                        int receive_tag, MPI_Comm comm, MPI_Status* status) {
  corrupt(buffer, count, type);
  return PMPI_Sendrecv(buffer, count, type, to, tag, receive, receive_count, receive_type, from,
                       receive_tag, comm, status);
}

EXPORT int MPI_Put(const void* buffer, int count, MPI_Datatype type, int target, MPI_Aint place,
                   int target_count, MPI_Datatype target_type, MPI_Win window) {
  if (target != MPI_PROC_NULL) corrupt(buffer, count, type);
  return PMPI_Put(buffer, count, type, target, place, target_count, target_type, window);
}

EXPORT int MPI_Rput(const void* buffer, int count, MPI_Datatype type, int target, MPI_Aint place,
                    int target_count, MPI_Datatype target_type, MPI_Win window,
                    MPI_Request* request) {
  if (target != MPI_PROC_NULL) corrupt(buffer, count, type);
  return PMPI_Rput(buffer, count, type, target, place, target_count, target_type, window, request);
}

EXPORT int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  if (send != MPI_IN_PLACE) corrupt(send, count, type);
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}
