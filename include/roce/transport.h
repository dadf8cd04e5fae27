// The transport: all that an MPI needs of RoCE and that is not specific to one MPI. What an adapter
// (src/btl, later src/uct) or a tool includes.
//
// Order of use: open; publish address(); add_peer for each peer; operations and progress; close
// (destructor). Callbacks (receive, completion, error) run only inside progress() or flush_errors
// of the calling thread, with no lock held; they may call anything here, progress() included. All
// functions may be called from any thread.
#ifndef ROCE_TRANSPORT_H_
#define ROCE_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "roce/status.h"

namespace roce::transport {

struct Params;
struct Hooks;
class Counters;
class Endpoint;  ///< One peer. Owned by the transport; lives until remove_peer or close.

/// Name of a process, unique in everything that can connect (Open MPI: job id and vpid).
/// Simultaneous connects are resolved by its order.
struct ProcessName {
  uint32_t job = 0;
  uint32_t rank = 0;
  auto operator<=>(const ProcessName&) const = default;
};

/// Remote access to a registered region: plain bytes that a peer copies around. Little-endian, keys
/// for up to 4 rails in the order of the owner's blob.
struct MemoryHandle {
  uint32_t rkey[4];
};
static_assert(sizeof(MemoryHandle) == 16);

/// A registered region. `handle` first, so that its address serves as the runtime's registration
/// handle.
struct Registration {
  MemoryHandle handle{};
  void* regions[4] = {};  ///< ibv_mr of each rail.
  void* base = nullptr;
  size_t bytes = 0;
};

/// Access bits of a registration.
enum Access : unsigned { kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4, kRemoteAtomic = 8 };

/// A message buffer in registered memory. Acquired and released by the adapter; between send and
/// its completion it belongs to the transport.
struct Fragment {
  uint8_t* data = nullptr;  ///< First byte of the message (the transport's header lies before it).
  uint32_t capacity = 0;    ///< Bytes that fit.
  uint32_t length = 0;      ///< Bytes to send, set by the adapter before send.
  uint8_t tag = 0;          ///< The adapter's; delivered with the message.
  /// Called once when the buffer may be reused (from progress). status kOk, or why the peer failed.
  void (*complete)(Fragment*, Code status) = nullptr;
  void* context = nullptr;  ///< The adapter's.
  void* adapter = nullptr;  ///< Room of Options::adapter_bytes, 16-byte aligned, for the adapter's
                            ///< own descriptor.
  // the transport's
  Fragment* next = nullptr;
  void* owner = nullptr;
  Endpoint* endpoint = nullptr;
};

/// A put, get or atomic operation under way. Owned by the adapter until complete was called.
struct Operation {
  enum class Kind : uint8_t { kPut, kGet, kFetchAdd, kCompareSwap };
  void (*complete)(Operation*, Code status) = nullptr;
  void* context = nullptr;
  // the transport's
  Operation* next = nullptr;
  Endpoint* endpoint = nullptr;
  uint64_t local_addr = 0, remote_addr = 0;
  Registration* local = nullptr;
  MemoryHandle remote{};
  uint64_t bytes = 0, posted_bytes = 0, pending_chunks = 0;
  uint64_t compare_add = 0, swap = 0;  ///< Operands of atomics.
  Kind kind = Kind::kPut;
  bool failed = false;
  Fragment* copy = nullptr;  ///< Stands in for local memory without registration.
};

struct Options {
  ProcessName name;
  uint64_t job_cookie =
      0;  ///< The same in all processes of the job: packets with another one are refused.
  size_t adapter_bytes = 0;  ///< Extra room in each Fragment.
  size_t max_message_bytes =
      65536;  ///< Largest Fragment; receive buffers have this size plus the transport's header.
  bool named_by_user =
      false;  ///< `roce` was named by the user: with soft=auto, the soft device may be used.
  /// A usable port was found and the process has no thread of the transport or of its device yet:
  /// the time for what other threads must not run beside, as the patching of memory functions.
  /// Called at most once, from open(). May be null.
  void (*before_threads)(void* context) = nullptr;
  /// A message has arrived; data is valid (and writable) during the call only.
  void (*receive)(void* context, Endpoint* from, uint8_t tag, uint8_t* data,
                  uint32_t bytes) = nullptr;
  /// A peer has failed (endpoint not null), or the whole transport (null). Called once per peer,
  /// from progress().
  void (*error)(void* context, Endpoint* peer, const std::string& text) = nullptr;
  /// One line for the log; verbosity 0 (errors) .. 9.
  void (*log)(void* context, int verbosity, const std::string& text) = nullptr;
  void* context = nullptr;
};

struct Limits {
  size_t max_put_bytes = 0,
         max_get_bytes = 0;       ///< Largest single operation (min of device and 1 GiB).
  size_t max_inline_bytes = 0;    ///< Puts up to this need no local registration.
  bool has_atomics = false;       ///< fetch_add and compare_swap, atomic against each other.
  bool atomics_with_cpu = false;  ///< Also against the atomic instructions of programs.
  size_t eager_bytes = 0;  ///< Largest message that several peers may send unannounced at once and
                           ///< the receive memory of the device holds; larger ones are better read
                           ///< by the receiver.
  uint32_t bandwidth_mbps = 0;
  bool is_soft = false;
  std::string device;  ///< "rocesw0", "mlx5_0:1".
};

class Transport {
 public:
  /// Opens a device (options.before_threads is called first) and starts the connection thread. The
  /// status tells, device by device, why none is usable.
  static Result<std::unique_ptr<Transport>> open(const Params& params, const Options& options);
  /// The same with parts replaced; for tests (src/transport/hooks.h).
  static Result<std::unique_ptr<Transport>> open(const Params& params, const Options& options,
                                                 const Hooks& hooks);
  ~Transport();

  const Limits& limits() const;
  std::vector<uint8_t> address() const;
  Counters& counters();
  const Params& params() const;

  /// Idempotent and without network traffic. kUnreachable tells why this peer cannot be reached;
  /// bad blobs: kProtocol.
  Result<Endpoint*> add_peer(ProcessName name, std::span<const uint8_t> blob, void* context);
  /// Endpoint of a peer that is known already, null if none.
  Endpoint* find_peer(ProcessName name);
  /// All that are known: those added, and those that have connected before they were.
  std::vector<Endpoint*> peers();
  /// Waits (bounded) for outstanding operations, then closes the connection.
  void remove_peer(Endpoint* peer);
  void* peer_context(const Endpoint* peer) const;
  void set_peer_context(Endpoint* peer, void* context);
  ProcessName peer_name(const Endpoint* peer) const;

  /// A buffer for at least `bytes`; null if bytes > max_message_bytes or memory is used up. The
  /// pool grows; it never blocks.
  Fragment* acquire(size_t bytes);
  void release(Fragment* fragment);

  /// Sends or queues; connects at first use. True: the message has been taken and the buffer may be
  /// reused at once (complete is not called). False: it is under way and complete will be called.
  bool send(Endpoint* peer, Fragment* fragment);

  /// Starts or queues a transfer. local may be null for puts of at most max_inline_bytes (copied at
  /// once). kInvalidArgument: null peer or remote handle; kOutOfResources never: operations queue.
  /// complete is always called later, from progress().
  Status put(Endpoint* peer, Operation* op, const void* local_addr, Registration* local,
             uint64_t remote_addr, const MemoryHandle& remote, size_t bytes);
  Status get(Endpoint* peer, Operation* op, void* local_addr, Registration* local,
             uint64_t remote_addr, const MemoryHandle& remote, size_t bytes);

  /// Start or queue an atomic operation on 8 bytes in the peer's memory. What they held before is
  /// in result_addr (8 bytes) when complete is called with kOk; `local` is the registration of
  /// result_addr or null. kNotSupported: remote_addr is no multiple of 8, or a device here has no
  /// atomics (Limits).
  Status fetch_add(Endpoint* peer, Operation* op, void* result_addr, Registration* local,
                   uint64_t remote_addr, const MemoryHandle& remote, uint64_t addend);
  Status compare_swap(Endpoint* peer, Operation* op, void* result_addr, Registration* local,
                      uint64_t remote_addr, const MemoryHandle& remote, uint64_t compare,
                      uint64_t swap);

  /// errno-like: kOutOfResources for ENOMEM and EAGAIN (memlock; text tells), kInvalidArgument
  /// else.
  Status register_memory(void* base, size_t bytes, unsigned access, Registration* out);
  void deregister_memory(
      Registration* registration);  ///< May run inside munmap hooks: no allocation.

  /// Polls the device once and runs callbacks. Returns the number of events.
  int progress();

  /// Device counters and transport counters, "name value" lines.
  std::string counters_text() const;

 private:
  Transport();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roce::transport

#endif  // ROCE_TRANSPORT_H_
