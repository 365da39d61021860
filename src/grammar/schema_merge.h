// What JSON schemas have in common: looking up references, one schema out of the parts of allOf,
// and whether two schemas can hold for one value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "octavo/status.h"

namespace octavo::grammar {

// Of keywords that say nothing about which values match.
bool is_annotation(std::string_view keyword);

Status schema_error(std::string_view path, std::string_view what);

// Of a document whose references lie within it.
class SchemaDocument {
 public:
  // `root` must outlive this.
  explicit SchemaDocument(const Json& root) : root_(root) {}

  // What `reference` ("#/$defs/node") of the schema at `path` names.
  Result<const Json*> find(const Json& reference, std::string_view path) const;

  // $id changes what references below it mean: an error but at the root.
  Status check_id(const JsonObject& schema, std::string_view path) const;

  // One schema that says what `schema`, which has allOf, says together with its parts.
  Result<JsonObject> merge_all_of(const JsonObject& schema, const std::string& path);

  // Whether it is certain that no value matches both. What would take too long is not.
  bool disjoint(const Json& a, const Json& b) { return disjoint(a, b, 0); }

 private:
  Status merge_into(JsonObject& all, const JsonObject& part, const std::string& path, int depth);
  Status merge_properties(JsonObject& all, const Json& properties, const std::string& path);
  bool disjoint(const Json& a, const Json& b, int depth);
  bool same_value(const Json& a, const Json& b);
  const Json& resolve(const Json& schema);
  bool spend(size_t comparisons);

  const Json& root_;
  int num_merges_ = 0;
  bool splits_items_ = false;   // a part merged has one of items and prefixItems
  size_t num_merged_ = 0;       // pieces of schemas that were copied
  size_t num_comparisons_ = 0;  // by disjoint()
};

// The JSON types that a schema's `type` names, in order; empty where it has none.
Result<std::vector<std::string>> schema_types(const JsonObject& schema, std::string_view path);

bool has_type(const Json& value, std::string_view type);

}  // namespace octavo::grammar
