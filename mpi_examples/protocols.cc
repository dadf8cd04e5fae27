// Point-to-point messages of every kind and size, every byte checked: a test, not a benchmark.
//
//   mpirun -np 2 --mca btl roce,self protocols                  0 B to 64 MiB
//   mpirun -np 2 --mca btl roce,self protocols -m 1M -d contig  up to 1 MiB, contiguous only
//
// Sizes: 0, the powers of two, and their neighbours. Ways: blocking sends, synchronous sends, sends
// into posted receives, sends that arrive before their receives; both directions of every pair of
// ranks (i and i + np/2), in the last two ways at once. Layouts (-d): contig, vector, mixed (one
// side each), all. Receive buffers are unaligned and lie between guard areas; guards and the gaps
// of a vector must stay untouched. Prints the number of messages of each size and the sums that
// counters can be compared with. Options: -m -d (see --help). Status: 0 good, 1 wrong data, 2 wrong
// use.
#include <array>
#include <vector>

#include "common.h"

namespace {

using namespace examples;

constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kMaxOffset = 64;
constexpr std::size_t kSmallBytes = std::size_t{1} << 20;
constexpr std::size_t kHugeBytes = std::size_t{8} << 20;
constexpr int kMaxInFlight = 4;

enum class Way { kBlocking, kSynchronous, kPosted, kUnexpected };

std::vector<std::size_t> sizes_of(const Options& options) {
  std::vector<std::size_t> sizes = {0};
  for (std::size_t power = 1; power <= options.max_bytes; power *= 2) {
    if (power <= kSmallBytes) {
      for (std::size_t bytes : {power - 1, power, power + 1}) {
        if (bytes > sizes.back()) sizes.push_back(bytes);
      }
    } else {
      sizes.insert(sizes.end(), {power, power + kGuardBytes + 1});
    }
  }
  std::erase_if(sizes, [&](std::size_t bytes) {
    return bytes < options.min_bytes || bytes > options.max_bytes;
  });
  return sizes;
}

int in_flight(std::size_t bytes) {
  return bytes <= kSmallBytes ? kMaxInFlight : bytes <= kHugeBytes ? 2 : 1;
}

// Memory for messages that are in flight together, each between guards.
class Slots {
 public:
  void reserve(std::size_t span, int count) {
    const std::size_t needed = slot_bytes(span) * static_cast<std::size_t>(count);
    if (needed > bytes_) memory_ = allocate(bytes_ = needed);
  }
  // offset: where the message begins within a word of memory, < kMaxOffset.
  std::byte* place(std::size_t span, int slot, std::size_t offset) const {
    return memory_.get() + slot_bytes(span) * static_cast<std::size_t>(slot) + kGuardBytes + offset;
  }

 private:
  static std::size_t slot_bytes(std::size_t span) {
    return (2 * kGuardBytes + kMaxOffset + span + 63) / 64 * 64;
  }
  std::size_t bytes_ = 0;
  Memory memory_;
};

void clear_with_guards(std::byte* base, std::size_t span) {
  std::memset(base - kGuardBytes, std::to_integer<int>(kUntouched), span + 2 * kGuardBytes);
}

Mismatch check_with_guards(const Layout& layout, const std::byte* base, std::uint64_t seed) {
  Mismatch wrong = layout.check(base, seed);
  if (!wrong.found) {
    wrong = check_constant(base - kGuardBytes, kGuardBytes, kUntouched, "byte of the guard before");
  }
  if (!wrong.found) {
    wrong =
        check_constant(base + layout.span(), kGuardBytes, kUntouched, "byte of the guard after");
  }
  return wrong;
}

// All messages of one size, way and pair of layouts.
class Round {
 public:
  Round(Way way, const Layout& layout, const Pair& pair, std::uint64_t number, Slots* sends,
        Slots* receives)
      : way_(way), layout_(layout), pair_(pair), number_(number) {
    count_ = way == Way::kBlocking || way == Way::kSynchronous ? 1 : in_flight(layout.bytes());
    sends->reserve(layout.span(), count_);
    receives->reserve(layout.span(), count_);
    for (int i = 0; i < count_; ++i) {
      const auto slot = static_cast<std::size_t>(i);
      // Odd distances between messages: their offsets run through all places of a word.
      send_[slot] = sends->place(layout.span(), i, (7 * number + 3 * slot) % kMaxOffset);
      receive_[slot] = receives->place(layout.span(), i, (5 * number + 11 * slot) % kMaxOffset);
      layout_.fill(send_[slot], seed(world_rank(), i));
      clear_with_guards(receive_[slot], layout_.span());
    }
  }

  int run(Verdict* verdict) {
    switch (way_) {
      case Way::kBlocking:
      case Way::kSynchronous:
        meet();
        one_way(pair_.first);
        one_way(!pair_.first);
        break;
      case Way::kPosted:
        for (int i = 0; i < count_; ++i) post_receive(i);
        meet();
        for (int i = 0; i < count_; ++i) post_send(i);
        break;
      case Way::kUnexpected:
        for (int i = 0; i < count_; ++i) post_send(i);
        meet();
        // Taken in another order than sent.
        for (int i = count_ - 1; i >= 0; --i) {
          MPI_Status status;
          MPI_Probe(pair_.peer, i, MPI_COMM_WORLD, &status);
          check_status(status, i, verdict);
          post_receive(i);
        }
        break;
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), statuses_.data());
    for (int i = 0; i < count_; ++i) {
      const auto slot = static_cast<std::size_t>(i);
      check_status(statuses_[2 * slot], i, verdict);
      verdict->wrong_data(check_with_guards(layout_, receive_[slot], seed(pair_.peer, i)),
                          layout_.bytes(), pair_.peer);
    }
    return count_;
  }

 private:
  std::uint64_t seed(int sender, int slot) const {
    return message_seed(sender, layout_.bytes(),
                        number_ * kMaxInFlight + static_cast<std::uint64_t>(slot));
  }

  void meet() const {
    MPI_Sendrecv(nullptr, 0, MPI_BYTE, pair_.peer, kMaxInFlight, nullptr, 0, MPI_BYTE, pair_.peer,
                 kMaxInFlight, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  void one_way(bool sending) {
    if (!sending) {
      MPI_Recv(receive_[0], layout_.count(), layout_.type(), pair_.peer, 0, MPI_COMM_WORLD,
               &received_);
    } else if (way_ == Way::kBlocking) {
      MPI_Send(send_[0], layout_.count(), layout_.type(), pair_.peer, 0, MPI_COMM_WORLD);
    } else {
      MPI_Ssend(send_[0], layout_.count(), layout_.type(), pair_.peer, 0, MPI_COMM_WORLD);
    }
  }

  void post_receive(int i) {
    const auto slot = static_cast<std::size_t>(i);
    MPI_Irecv(receive_[slot], layout_.count(), layout_.type(), pair_.peer, i, MPI_COMM_WORLD,
              &requests_[2 * slot]);
  }

  void post_send(int i) {
    const auto slot = static_cast<std::size_t>(i);
    MPI_Isend(send_[slot], layout_.count(), layout_.type(), pair_.peer, i, MPI_COMM_WORLD,
              &requests_[2 * slot + 1]);
  }

  void check_status(const MPI_Status& of_wait, int tag, Verdict* verdict) const {
    const bool blocking = way_ == Way::kBlocking || way_ == Way::kSynchronous;
    const MPI_Status& status = blocking ? received_ : of_wait;
    MPI_Count bytes = 0;
    MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    if (status.MPI_SOURCE == pair_.peer && status.MPI_TAG == tag &&
        static_cast<std::size_t>(bytes) == layout_.bytes()) {
      return;
    }
    verdict->fail("wrong status of a message of " + std::to_string(layout_.bytes()) +
                  " bytes, tag " + std::to_string(tag) + ", from rank " +
                  std::to_string(pair_.peer) + ": " + std::to_string(bytes) + " bytes, tag " +
                  std::to_string(status.MPI_TAG) + ", from rank " +
                  std::to_string(status.MPI_SOURCE));
  }

  Way way_;
  const Layout& layout_;
  const Pair& pair_;
  std::uint64_t number_;
  int count_ = 0;
  std::array<std::byte*, kMaxInFlight> send_{};
  std::array<std::byte*, kMaxInFlight> receive_{};
  std::array<MPI_Request, 2 * kMaxInFlight> requests_ = [] {
    std::array<MPI_Request, 2 * kMaxInFlight> none;
    none.fill(MPI_REQUEST_NULL);
    return none;
  }();
  std::array<MPI_Status, 2 * kMaxInFlight> statuses_{};
  MPI_Status received_{};
};

// Strided or not, of the first of a pair and of the second.
std::vector<std::array<bool, 2>> layouts_of(const std::string& name) {
  std::vector<std::array<bool, 2>> layouts;
  if (name == "contig" || name == "all") layouts.push_back({false, false});
  if (name == "vector" || name == "all") layouts.push_back({true, true});
  if (name == "mixed" || name == "all") {
    layouts.push_back({true, false});
    layouts.push_back({false, true});
  }
  return layouts;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options defaults;
  defaults.min_bytes = 0;
  defaults.max_bytes = std::size_t{64} << 20;
  defaults.datatype = "all";
  const Options options =
      parse_options(argc, argv, "protocols", "md", defaults, "contig|vector|mixed|all");
  const Pair pair = pair_up("protocols");
  Slots sends;
  Slots receives;
  Verdict verdict("protocols");
  std::uint64_t rounds = 0;
  std::uint64_t messages = 0;
  std::uint64_t payload_bytes = 0;

  print_header("protocols: every byte checked", "Messages");
  for (const std::size_t bytes : sizes_of(options)) {
    std::uint64_t of_this_size = 0;
    for (const std::array<bool, 2> strided : layouts_of(options.datatype)) {
      const Layout layout(bytes, strided[pair.first ? 0 : 1]);
      for (const Way way : {Way::kBlocking, Way::kSynchronous, Way::kPosted, Way::kUnexpected}) {
        Round round(way, layout, pair, rounds++, &sends, &receives);
        of_this_size += 2 * static_cast<std::uint64_t>(round.run(&verdict)) *
                        static_cast<std::uint64_t>(pair.pairs);
      }
    }
    messages += of_this_size;
    payload_bytes += of_this_size * bytes;
    if (!verdict.agree()) break;
    print_row(bytes, static_cast<double>(of_this_size), 0);
  }
  if (verdict.agree() && world_rank() == 0) {
    std::printf("# messages %llu\n# payload_bytes %llu\n",
                static_cast<unsigned long long>(messages),
                static_cast<unsigned long long>(payload_bytes));
  }
  return verdict.finish();
}
