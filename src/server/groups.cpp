#include "server/groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"

namespace octavo::server {
namespace {

std::string names_of(const std::vector<Group>& groups) {
  std::string list;
  for (const Group& group : groups) list += format("{}{}", list.empty() ? "" : ", ", group.name);
  return list;
}

constexpr DefaultField kDefaultFields[] = {
    {"temperature", DefaultUse::kAnswers},
    {"top_p", DefaultUse::kAnswers},
    {"top_k", DefaultUse::kAnswers},
    {"min_p", DefaultUse::kAnswers},
    {"repetition_penalty", DefaultUse::kAnswers},
    {"presence_penalty", DefaultUse::kAnswers},
    {"frequency_penalty", DefaultUse::kAnswers},
    {"priority", DefaultUse::kAll},
    {"cache_salt", DefaultUse::kAll},
    {"chat_template", DefaultUse::kChats},
    {"chat_template_kwargs", DefaultUse::kChats},
    {"reasoning_effort", DefaultUse::kChats},
};

}  // namespace

std::span<const DefaultField> default_fields() {
  return kDefaultFields;
}

uint64_t group_hash(std::string_view salt, std::string_view name, std::string_view key) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  add(salt);
  add("\n");
  add(name);
  add("\n");
  add(key);
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

Groups::Groups(GroupsConfig config) : config_(std::move(config)) {
  if (config_.groups.empty()) config_.groups.emplace_back();
}

std::vector<double> Groups::weights() const {
  const std::lock_guard lock(mutex_);
  std::vector<double> weights;
  for (const Group& group : config_.groups) weights.push_back(group.weight);
  return weights;
}

Result<size_t> Groups::find(std::string_view name) const {
  for (size_t i = 0; i < size(); ++i) {
    if (config_.groups[i].name == name) return i;
  }
  return invalid_argument(
      format("X-Octavo-Group must be one of the groups {}", names_of(config_.groups)));
}

size_t Groups::choose(std::string_view key) const {
  if (size() == 1) return 0;
  const std::vector<double> weights = this->weights();
  size_t chosen = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < size(); ++i) {
    if (weights[i] <= 0) continue;
    const uint64_t hash = group_hash(config_.salt, name(i), key);
    const double uniform = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
    const double score = -std::log(uniform) / weights[i];
    if (score >= least) continue;
    least = score;
    chosen = i;
  }
  return chosen;
}

void Groups::add_defaults(JsonObject& body, size_t group) const {
  const bool is_chat = body.contains("messages");
  const bool is_answer = is_chat || body.contains("prompt");
  for (const DefaultField& one : kDefaultFields) {
    const Json* value = config_.groups[group].defaults.if_contains(one.name);
    if (value == nullptr || (one.use == DefaultUse::kAnswers && !is_answer) ||
        (one.use == DefaultUse::kChats && !is_chat)) {
      continue;
    }
    Json& field = body[one.name];
    if (field.is_null()) {
      field = *value;
    } else if (field.is_object() && value->is_object()) {
      for (const auto& member : value->get_object()) field.get_object().insert(member);
    }
  }
}

Status Groups::set_weights(const GroupsConfig& config) {
  const auto same = [](const Group& a, const Group& b) {
    return a.name == b.name && a.defaults == b.defaults;
  };
  const bool only_weights = config.salt == config_.salt && config.window_s == config_.window_s &&
                            std::equal(config.groups.begin(), config.groups.end(),
                                       config_.groups.begin(), config_.groups.end(), same);
  if (!only_weights) {
    return unsupported("only weights can change while the server runs: start it anew for the rest");
  }
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < size(); ++i) config_.groups[i].weight = config.groups[i].weight;
  return {};
}

}  // namespace octavo::server
