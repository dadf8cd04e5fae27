#include "transport/params.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "transport/counters.h"

namespace roce::transport {
namespace {

Status set(Params& params, const std::string& name, const std::string& value) {
  const ParamInfo* info = find_param(name);
  EXPECT_NE(info, nullptr) << name;
  return set_param(params, *info, value);
}

/// Sets an environment variable for the duration of a test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Params, EveryFieldHasItsRow) {
  Params params;
  std::set<std::string> names;
  std::set<const void*> fields;
  size_t bytes = 0;
  for (const ParamInfo& info : param_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    const bool is_int = info.type == ParamType::kInt;
    const void* field = is_int ? static_cast<const void*>(&(params.*info.int_field))
                               : static_cast<const void*>(&(params.*info.string_field));
    EXPECT_TRUE(fields.insert(field).second) << info.name;
    bytes += is_int ? sizeof(int) : sizeof(std::string);
  }
  // A field without a row would make the struct larger than what the rows cover. There may be one
  // int of padding at the end.
  EXPECT_EQ((bytes + 7) / 8 * 8, sizeof(Params));
}

TEST(Params, DefaultsAreInTheirRanges) {
  EXPECT_TRUE(check_params(Params{}).is_ok()) << check_params(Params{}).text();
}

TEST(Params, HelpIsOneSentenceWithoutTheValuesPrintedBesideIt) {
  for (const ParamInfo& info : param_table()) {
    const std::string help = info.help;
    EXPECT_GT(help.size(), 20U) << info.name;
    EXPECT_TRUE(help[0] >= 'A' && help[0] <= 'Z') << info.name;
    EXPECT_NE(help.back(), '.') << info.name;
    EXPECT_EQ(help.find('\n'), std::string::npos) << info.name;
    EXPECT_EQ(help.find("efault"), std::string::npos) << info.name;
  }
}

TEST(Params, RefusalNamesParameterValueAndRange) {
  Params params;
  Status status = set(params, "connect_timeout_s", "0");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.text(), "parameter connect_timeout_s: \"0\" is not in its range, 1..3600");
  EXPECT_EQ(params.connect_timeout_s, 10);

  status = set(params, "soft", "maybe");
  EXPECT_EQ(status.text(), "parameter soft: \"maybe\" is not in its range, auto|on|off");
  EXPECT_EQ(params.soft, "auto");

  params.retry_count = 8;
  status = check_params(params);
  EXPECT_EQ(status.text(), "parameter retry_count: 8 is not in its range, 0..7");
}

TEST(Params, BothEndsOfARangeAreIn) {
  Params params;
  for (const ParamInfo& info : param_table()) {
    if (info.type != ParamType::kInt) continue;
    for (long long value : {0LL + info.min, 0LL + info.max}) {
      EXPECT_TRUE(set_param(params, info, std::to_string(value)).is_ok()) << info.name;
      EXPECT_EQ(param_value(params, info), std::to_string(value));
      EXPECT_TRUE(check_params(params).is_ok());
    }
    for (long long value : {info.min - 1LL, info.max + 1LL}) {
      const bool taken = info.zero_too && value == 0;
      EXPECT_EQ(set_param(params, info, std::to_string(value)).is_ok(), taken) << info.name;
    }
  }
}

TEST(Params, ZeroMtuMeansChooseAndIsPrintedInTheRange) {
  Params params;
  EXPECT_TRUE(set(params, "mtu_bytes", "1024").is_ok());
  EXPECT_TRUE(set(params, "mtu_bytes", "0").is_ok());
  EXPECT_FALSE(set(params, "mtu_bytes", "255").is_ok());
  EXPECT_EQ(param_range(*find_param("mtu_bytes")), "0 or 256..65536");
}

TEST(Params, IntegersAreReadStrictly) {
  Params params;
  EXPECT_TRUE(set(params, "get_chunk_bytes", "0x10000").is_ok());
  EXPECT_EQ(params.get_chunk_bytes, 65536);
  EXPECT_TRUE(set(params, "get_chunk_bytes", "128k").is_ok());
  EXPECT_EQ(params.get_chunk_bytes, 131072);
  EXPECT_TRUE(set(params, "get_chunk_bytes", "1g").is_ok());
  EXPECT_EQ(params.get_chunk_bytes, 1 << 30);
  EXPECT_TRUE(set(params, "hop_limit", "010").is_ok());
  EXPECT_EQ(params.hop_limit, 10);
  EXPECT_TRUE(set(params, "gid_index", "-1").is_ok());
  for (const char* text : {"", " 5000", "5000 ", "5000x", "k", "-", "0x", "1e4",
                           "99999999999999999999", "9223372036854775807g", "4294967297", "64kk"}) {
    EXPECT_FALSE(set(params, "get_chunk_bytes", text).is_ok()) << '"' << text << '"';
  }
  EXPECT_EQ(params.get_chunk_bytes, 1 << 30);
}

TEST(Params, ChoicesAreWholeWords) {
  Params params;
  for (const char* text : {"", "a", "auto|on", "|", "ON", "off "}) {
    EXPECT_FALSE(set(params, "soft", text).is_ok()) << '"' << text << '"';
  }
  EXPECT_TRUE(set(params, "soft", "off").is_ok());
}

TEST(Params, EnvironmentOverridesDefaults) {
  const ScopedVariable a("ROCE_CONNECT_TIMEOUT_S", "33");
  const ScopedVariable b("ROCE_IF_INCLUDE", "10.0.0.0/8,eth1");
  Result<Params> params = params_from_environment();
  ASSERT_TRUE(params.is_ok());
  EXPECT_EQ(params->connect_timeout_s, 33);
  EXPECT_EQ(params->if_include, "10.0.0.0/8,eth1");
  EXPECT_EQ(params->retry_count, 7);
}

TEST(Params, BadEnvironmentNamesTheVariable) {
  const ScopedVariable a("ROCE_HOP_LIMIT", "256");
  Result<Params> params = params_from_environment();
  ASSERT_FALSE(params.is_ok());
  EXPECT_EQ(
      params.status().text(),
      "environment variable ROCE_HOP_LIMIT: parameter hop_limit: \"256\" is not in its range, "
      "1..255");
}

TEST(Counters, EachHasANameAndASentence) {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(Counter::kCount); ++i) {
    const auto counter = static_cast<Counter>(i);
    EXPECT_TRUE(names.insert(counter_name(counter)).second);
    EXPECT_GT(std::string(counter_help(counter)).size(), 10U);
  }
  EXPECT_STREQ(counter_name(Counter::tx_send_messages), "tx_send_messages");
  EXPECT_STREQ(counter_name(Counter::kCount), "unknown");
}

TEST(Counters, TextHasOneLinePerCounterInOrder) {
  Counters counters;
  counters.add(Counter::tx_send_messages);
  counters.add(Counter::tx_send_messages, 41);
  counters.add(Counter::peers_failed, 7);
  EXPECT_EQ(counters.get(Counter::tx_send_messages), 42U);
  const std::string text = counters.text();
  EXPECT_EQ(text.rfind("tx_send_messages 42\ntx_send_bytes 0\n", 0), 0U) << text;
  EXPECT_NE(text.find("\npeers_failed 7\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<int>(Counter::kCount));
}

}  // namespace
}  // namespace roce::transport
