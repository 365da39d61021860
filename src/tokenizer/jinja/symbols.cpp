#include "tokenizer/jinja/symbols.h"

namespace octavo::tokenizer::jinja {

Symbols Symbols::branch() const {
  Symbols out(*function_, parent_);
  out.base_ = this;
  out.slots_ = slots_;
  return out;
}

const uint32_t* Symbols::own_slot(std::string_view name) const {
  const auto found = refs_.find(name);
  if (found != refs_.end()) return &found->second;
  return base_ == nullptr ? nullptr : base_->own_slot(name);
}

bool Symbols::stores(std::string_view name) const {
  return stores_.contains(name) || (base_ != nullptr && base_->stores(name));
}

std::optional<Symbols::Location> Symbols::find(std::string_view name) const {
  if (const uint32_t* slot = own_slot(name)) return Location{function_->depth, *slot};
  return parent_ == nullptr ? std::nullopt : parent_->find(name);
}

std::optional<VariableRef> Symbols::ref(std::string_view name) const {
  const std::optional<Location> location = find(name);
  if (!location) return std::nullopt;
  return VariableRef{function_->depth - location->function_depth, location->slot};
}

uint32_t Symbols::define(const Str* name, const Load& load) {
  const auto [entry, is_new] = slots_->try_emplace(name->text, function_->num_slots);
  if (is_new) ++function_->num_slots;
  refs_[name->text] = entry->second;
  loads_[entry->second] = load;
  return entry->second;
}

Symbols::Load Symbols::outer_or(const Str* name, Origin otherwise) const {
  if (parent_ != nullptr) {
    if (const auto outer = parent_->find(name->text)) return {Origin::kAlias, name, *outer};
  }
  return {otherwise, name};
}

void Symbols::load(const Str* name) {
  if (!find(name->text)) define(name, {Origin::kGlobal, name});
}

void Symbols::store(const Str* name) {
  stores_.emplace(name->text, name);
  if (own_slot(name->text) == nullptr) define(name, outer_or(name, Origin::kUnset));
}

uint32_t Symbols::declare_parameter(const Str* name) {
  stores_.emplace(name->text, name);
  return define(name, {Origin::kParameter, name});
}

void Symbols::merge_branches(std::span<const Symbols> branches) {
  std::map<std::string_view, const Str*> stored;
  for (const Symbols& branch : branches) {
    for (const auto& [text, name] : branch.stores_) {
      if (!stores(text)) stored.emplace(text, name);
    }
  }
  for (const Symbols& branch : branches) {
    for (const auto& [name, slot] : branch.refs_) refs_[name] = slot;
    for (const auto& [slot, load] : branch.loads_) loads_[slot] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const auto& [text, name] : stored) {
    loads_[*own_slot(text)] = outer_or(name, Origin::kGlobal);
  }
}

Scope Symbols::scope() const {
  Scope out;
  for (const auto& [slot, load] : loads_) {
    switch (load.origin) {
      case Origin::kParameter:
        out.parameters.push_back(slot);
        break;
      case Origin::kUnset:
        out.loads.push_back({slot, ScopeLoad::Action::kUnset, load.name, {}});
        break;
      case Origin::kGlobal:
        out.loads.push_back({slot, ScopeLoad::Action::kGlobal, load.name, {}});
        break;
      case Origin::kAlias:
        out.loads.push_back({slot,
                             ScopeLoad::Action::kAlias,
                             load.name,
                             {function_->depth - load.source.function_depth, load.source.slot}});
        break;
    }
  }
  return out;
}

}  // namespace octavo::tokenizer::jinja
