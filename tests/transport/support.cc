#include "support.h"

#include <cstring>
#include <stdexcept>
#include <thread>

namespace roce::transport::test {

std::vector<uint8_t> pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> out(bytes);
  uint32_t value = seed * 2654435761u + 1;
  for (uint8_t& byte : out) {
    value = value * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(value >> 24);
  }
  return out;
}

Params soft_params() {
  Params params;
  params.soft = "on";
  params.connect_timeout_s = 3;
  return params;
}

Node::Node(const NodeSetup& setup) : setup_(setup) {
  Options options;
  options.name = {1, setup.rank};
  options.job_cookie = setup.cookie;
  options.max_message_bytes = setup.max_message_bytes;
  options.context = this;
  options.receive = [](void* context, Endpoint* from, uint8_t tag, uint8_t* data, uint32_t bytes) {
    auto* self = static_cast<Node*>(context);
    Message message{self->transport_->peer_name(from), tag, {data, data + bytes}};
    if (self->on_message) {
      self->on_message(from, message);
    } else {
      self->received.push_back(std::move(message));
    }
  };
  options.error = [](void* context, Endpoint* peer, const std::string& text) {
    static_cast<Node*>(context)->errors.emplace_back(peer, text);
  };
  options.log = [](void* context, int, const std::string& text) {
    static_cast<Node*>(context)->log.push_back(text);
  };
  auto opened = Transport::open(setup.params, options, setup.hooks);
  if (!opened) {
    throw std::runtime_error(opened.status().text());
  }
  transport_ = std::move(opened.value());
}

Node::~Node() = default;

Endpoint* Node::add(Node& peer) { return add(peer.rank(), peer.transport().address()); }

Endpoint* Node::add(uint32_t rank, const std::vector<uint8_t>& blob) {
  auto endpoint = transport_->add_peer({1, rank}, blob, nullptr);
  if (!endpoint) {
    throw std::runtime_error(endpoint.status().text());
  }
  return *endpoint;
}

bool Node::send(Endpoint* peer, const std::vector<uint8_t>& data, uint8_t tag) {
  Fragment* fragment = transport_->acquire(data.size());
  if (fragment == nullptr) {
    throw std::runtime_error("no fragment");
  }
  if (!data.empty()) {
    std::memcpy(fragment->data, data.data(), data.size());
  }
  fragment->length = static_cast<uint32_t>(data.size());
  fragment->tag = tag;
  fragment->context = this;
  fragment->complete = [](Fragment* done, Code status) {
    auto* self = static_cast<Node*>(done->context);
    --self->sends_open_;
    self->send_results.push_back(status);
    self->transport_->release(done);
  };
  ++sends_open_;
  if (transport_->send(peer, fragment)) {
    --sends_open_;
    transport_->release(fragment);
    return true;
  }
  return false;
}

Transfer::Transfer() {
  complete = [](Operation* operation, Code status) {
    auto* self = static_cast<Transfer*>(operation);
    self->result = status;
    self->done = true;
  };
}

bool pump(std::vector<Node*> nodes, const std::function<bool()>& done,
          std::chrono::milliseconds limit) {
  auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    int events = 0;
    for (Node* node : nodes) events += node->transport().progress();
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    if (events == 0) std::this_thread::yield();
  }
  return true;
}

std::string told(const std::vector<Node*>& nodes) {
  std::string out;
  for (Node* node : nodes) {
    out += "\nprocess " + std::to_string(node->rank()) + ":\n";
    for (auto& [peer, text] : node->errors) out += "error: " + text + "\n";
    for (auto& line : node->log) out += "log: " + line + "\n";
    out += node->transport().counters_text();
  }
  char device[8192] = "";
  soft::counters_text(device, sizeof device);
  return out + "\nsoftware device:\n" + device;
}

verbs::Table soft_table_copy() { return verbs::soft_table(); }

}  // namespace roce::transport::test
