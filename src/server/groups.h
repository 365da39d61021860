// Groups: variants of what requests leave open, served beside each other behind one address (an A/B
// test). Which group a request is in depends on its own key alone, so that it stays there.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"

namespace octavo::server {

struct Group {
  std::string name;
  double weight = 1;    // >= 0; its share is that of the sum. 0: only who names the group gets it
  JsonObject defaults;  // fields of a request's body that it does not set
};

struct GroupsConfig {
  std::string salt;       // another one mixes keys anew
  double window_s = 600;  // what GET /ab looks back at
  // None: all requests are in one group that has no name.
  std::vector<Group> groups;
};

// A file of groups as JSON. `source` and the key start every error.
Result<GroupsConfig> parse_groups(const Json& json, const std::string& source);

// Which requests take a default: others would log that they do not know the field.
enum class DefaultUse { kAll, kAnswers, kChats };

struct DefaultField {
  std::string_view name;
  DefaultUse use;
};

// What may stand in `defaults`.
std::span<const DefaultField> default_fields();

class Groups {
 public:
  explicit Groups(GroupsConfig config);

  // Whether there are any beside the one without a name.
  bool any() const { return !config_.groups.front().name.empty(); }
  size_t size() const { return config_.groups.size(); }
  const std::string& name(size_t group) const { return config_.groups[group].name; }
  double window_s() const { return config_.window_s; }
  std::vector<double> weights() const;

  // The group that a client asks for by name; the error does not repeat what it sent.
  Result<size_t> find(std::string_view name) const;

  // The group of a key: the least of -ln(u) / weight, where u in (0, 1) is a hash of salt, name and
  // key (docs/ab-testing.md). Raising a weight moves keys to that group and none between others.
  size_t choose(std::string_view key) const;

  // What `body` does not set and the group does; objects get the members that they lack.
  void add_defaults(JsonObject& body, size_t group) const;

  // Takes the weights of `config`; an error where anything else differs.
  Status set_weights(const GroupsConfig& config);

 private:
  GroupsConfig config_;
  mutable std::mutex mutex_;  // guards the weights in config_
};

// FNV-1a of 64 bits over salt, name and key with a line's end between them, then the last mixing of
// MurmurHash3.
uint64_t group_hash(std::string_view salt, std::string_view name, std::string_view key);

}  // namespace octavo::server
