#include "transport/device_filter.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace roce::transport {
namespace {

struct Subnet {
  verbs::GidBytes bytes{};
  uint8_t prefix_length = 0;  ///< In bits of the 16-byte form.
};

std::optional<Subnet> parse_subnet(const std::string& item) {
  size_t slash = item.find('/');
  if (slash == std::string::npos || slash + 1 == item.size()) {
    return std::nullopt;
  }
  char* end = nullptr;
  unsigned long length = std::strtoul(item.c_str() + slash + 1, &end, 10);
  std::string address = item.substr(0, slash);
  Subnet subnet;
  unsigned long most = 128;
  if (inet_pton(AF_INET, address.c_str(), &subnet.bytes[12]) == 1) {
    subnet.bytes[10] = subnet.bytes[11] = 0xFF;
    most = 32;
  } else if (inet_pton(AF_INET6, address.c_str(), subnet.bytes.data()) != 1) {
    return std::nullopt;
  }
  if (*end != '\0' || length > most) {
    return std::nullopt;
  }
  subnet.prefix_length = static_cast<uint8_t>(128 - most + length);
  return subnet;
}

std::string port_name(const verbs::Candidate& candidate) {
  return candidate.device + ":" + std::to_string(static_cast<unsigned>(candidate.port));
}

std::string describe(const verbs::Candidate& candidate) {
  return port_name(candidate) +
         (candidate.netdev.empty() ? "" : " (interface " + candidate.netdev + ")");
}

bool any_matches(const std::vector<std::string>& items, const verbs::Candidate& candidate) {
  return std::any_of(items.begin(), items.end(),
                     [&](const std::string& item) { return item_matches(item, candidate); });
}

/// Leaves only the GID that the parameter asks for. False: the port has none of that index.
bool keep_gid(int gid_index, verbs::Candidate& candidate) {
  if (gid_index < 0) {
    std::erase_if(candidate.gids,
                  [](const verbs::Gid& gid) { return gid.type != verbs::GidType::kRoceV2; });
  } else {
    std::erase_if(candidate.gids, [gid_index](const verbs::Gid& gid) {
      return gid.index != static_cast<uint32_t>(gid_index);
    });
  }
  return !candidate.gids.empty();
}

}  // namespace

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items(1);
  for (char c : list) {
    if (c == ',') {
      items.emplace_back();
    } else if (c != ' ') {
      items.back() += c;
    }
  }
  std::erase(items, std::string());
  return items;
}

bool item_matches(const std::string& item, const verbs::Candidate& candidate) {
  if (item == candidate.device || item == candidate.netdev || item == port_name(candidate)) {
    return true;
  }
  std::optional<Subnet> subnet = parse_subnet(item);
  return subnet &&
         std::any_of(candidate.gids.begin(), candidate.gids.end(), [&](const verbs::Gid& gid) {
           return verbs::same_subnet(gid.bytes, subnet->bytes, subnet->prefix_length);
         });
}

void filter_candidates(const Params& params, std::vector<verbs::Candidate>& candidates,
                       std::vector<std::string>& refusals) {
  std::vector<std::string> include = split_list(params.if_include);
  std::vector<std::string> exclude = split_list(params.if_exclude);
  for (const std::string& item : include) {
    if (std::none_of(candidates.begin(), candidates.end(),
                     [&](const auto& candidate) { return item_matches(item, candidate); })) {
      refusals.push_back("parameter if_include: \"" + item +
                         "\" is none of the usable devices, interfaces or subnets; correct it or "
                         "leave it out.");
    }
  }
  std::erase_if(candidates, [&](verbs::Candidate& candidate) {
    if (!include.empty() && !any_matches(include, candidate)) {
      refusals.push_back(describe(candidate) + " is not in parameter if_include = \"" +
                         params.if_include + "\"; add it there to use it.");
      return true;
    }
    if (any_matches(exclude, candidate)) {
      refusals.push_back(describe(candidate) + " is in parameter if_exclude = \"" +
                         params.if_exclude + "\"; take it out there to use it.");
      return true;
    }
    if (!keep_gid(params.gid_index, candidate)) {
      refusals.push_back(describe(candidate) + " has no GID of index " +
                         std::to_string(params.gid_index) +
                         " (parameter gid_index); -1 lets the GID be chosen per peer.");
      return true;
    }
    return false;
  });
}

}  // namespace roce::transport
