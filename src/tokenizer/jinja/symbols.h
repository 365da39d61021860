// Symbols: what a scope knows of its names while they are resolved.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "tokenizer/jinja/ast.h"

namespace octavo::tokenizer::jinja {

// A function under way: the template itself, a macro, a call block, a recursive loop.
struct FunctionScope {
  uint32_t depth = 0;
  uint32_t num_slots = 0;
};

class Symbols {
 public:
  Symbols(FunctionScope& function, const Symbols* parent)
      : function_(&function), parent_(parent), slots_(std::make_shared<Slots>()) {}

  // What reading, assigning and declaring a parameter do to the scope.
  void load(const Str* name);
  void store(const Str* name);
  uint32_t declare_parameter(const Str* name);

  // A branch of an `if` is this scope and what the branch adds. Afterwards, what branches assigned
  // is a variable here too, which starts as the outer one.
  Symbols branch() const;
  void merge_branches(std::span<const Symbols> branches);

  struct Location {
    uint32_t function_depth;
    uint32_t slot;
  };
  std::optional<Location> find(std::string_view name) const;
  std::optional<VariableRef> ref(std::string_view name) const;

  // What entering the scope must do.
  Scope scope() const;
  FunctionScope& function() const { return *function_; }
  const Symbols* parent() const { return parent_; }

 private:
  enum class Origin : uint8_t { kParameter, kUnset, kGlobal, kAlias };
  struct Load {
    Origin origin;
    const Str* name = nullptr;
    Location source{};
  };
  using Slots = std::map<std::string_view, uint32_t>;

  const uint32_t* own_slot(std::string_view name) const;
  bool stores(std::string_view name) const;
  uint32_t define(const Str* name, const Load& load);
  Load outer_or(const Str* name, Origin otherwise) const;

  FunctionScope* function_;
  const Symbols* parent_;
  const Symbols* base_ = nullptr;  // of a branch: the scope it is a branch of
  std::shared_ptr<Slots> slots_;   // shared with branches: a name has one slot a scope
  std::map<std::string_view, uint32_t> refs_;
  std::map<uint32_t, Load> loads_;
  std::map<std::string_view, const Str*> stores_;
};

}  // namespace octavo::tokenizer::jinja
