// Calls of macros, methods, functions and recursive loops.
#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "tokenizer/jinja/interpreter.h"

namespace octavo::tokenizer::jinja {

Result<Value> Interpreter::call(const Value& callee, const CallArgs& args) {
  switch (callee.kind()) {
    case Kind::kUndefined:
      return invalid_argument(callee.undefined().message());
    case Kind::kMacro:
      return call_macro(callee.macro(), args);
    case Kind::kMethod: {
      const Method& method = callee.method();
      if (method.entry->fn != nullptr) return method.entry->fn(*this, method.self, args);
      return invalid_argument(format("the method '{}' of '{}' is not supported", method.entry->name,
                                     type_name(method.self)));
    }
    case Kind::kFunction:
      return callee.function().fn(*this, args);
    case Kind::kLoop:
      return call_loop(callee.loop(), args);
    case Kind::kJoiner: {
      if (!args.positional.empty() || !args.keyword.empty()) {
        return invalid_argument("a joiner takes no arguments");
      }
      const bool first = !std::exchange(callee.joiner().used, true);
      return first ? Value::of(heap().borrow({})) : callee.joiner().separator;
    }
    default:
      return invalid_argument(format("'{}' object is not callable", type_name(callee)));
  }
}

Result<Value> Interpreter::call_macro(const Macro& macro, const CallArgs& args) {
  if (calls_ >= kMaxCalls) return invalid_argument("macros call each other too deeply");
  const FunctionInfo& f = *macro.function;
  TextBuilder text;
  Activation* outer_activation =
      std::exchange(activation_, activate(f.num_slots, macro.defined_in));
  TextBuilder* outer_out = std::exchange(out_, &text);
  ++calls_;
  const Status status = [&]() -> Status {
    OCTAVO_TRY(charge(1 + f.num_slots));
    OCTAVO_TRY(bind_macro(f, args));
    OCTAVO_TRY(enter(f.scope));
    OCTAVO_TRY(fill_defaults(f));
    OCTAVO_TRY(execute(f.body));
    return {};
  }();
  --calls_;
  out_ = outer_out;
  activation_ = outer_activation;
  if (!status.ok()) return status;
  return make_text(text);
}

// Puts arguments into the parameters' slots of the current activation.
Status Interpreter::bind_macro(const FunctionInfo& f, const CallArgs& args) {
  const size_t given = std::min(args.positional.size(), f.parameters.size());
  for (size_t i = 0; i < given; ++i) {
    activation_->slots[f.parameters[i].second] = args.positional[i];
  }
  std::vector<bool> used(args.keyword.size());
  for (size_t i = given; i < f.parameters.size(); ++i) {
    for (size_t k = 0; k < args.keyword.size(); ++k) {
      if (args.keyword[k].first->text != f.parameters[i].first->text) continue;
      activation_->slots[f.parameters[i].second] = args.keyword[k].second;
      used[k] = true;
    }
  }
  OCTAVO_TRY(bind_special(f, args, used));
  const std::string_view name = f.name == nullptr ? std::string_view("caller") : f.name->text;
  for (size_t k = 0; k < used.size(); ++k) {
    if (!used[k]) {
      return invalid_argument(
          format("macro '{}' takes no keyword argument '{}'", name, args.keyword[k].first->text));
    }
  }
  if (args.positional.size() > f.parameters.size() && !f.uses_varargs) {
    return invalid_argument(
        format("macro '{}' takes not more than {} arguments", name, f.parameters.size()));
  }
  return {};
}

// caller, kwargs and varargs, where the macro's body uses them.
Status Interpreter::bind_special(const FunctionInfo& f, const CallArgs& args,
                                 std::vector<bool>& used) {
  if (f.uses_caller) {
    Value caller = heap().undefined("no caller is defined");
    for (size_t k = 0; k < used.size(); ++k) {
      if (used[k] || args.keyword[k].first->text != "caller") continue;
      caller = args.keyword[k].second;
      used[k] = true;
    }
    activation_->slots[f.caller_slot] = caller;
  }
  if (f.uses_kwargs) {
    Dict* dict = heap().dict();
    for (size_t k = 0; k < used.size(); ++k) {
      if (!used[k]) dict->set(Value::of(args.keyword[k].first), args.keyword[k].second);
      used[k] = true;
    }
    activation_->slots[f.kwargs_slot] = OCTAVO_TRY(make_dict(dict));
  }
  if (f.uses_varargs) {
    const size_t from = std::min(args.positional.size(), f.parameters.size());
    activation_->slots[f.varargs_slot] =
        OCTAVO_TRY(heap().tuple(std::span<const Value>(args.positional).subspan(from)));
  }
  return {};
}

Status Interpreter::fill_defaults(const FunctionInfo& f) {
  const size_t required = f.parameters.size() - f.defaults.size();
  for (size_t i = 0; i < f.parameters.size(); ++i) {
    Value& slot = activation_->slots[f.parameters[i].second];
    if (!slot.missing()) continue;
    if (i >= required) {
      slot = OCTAVO_TRY(eval(*f.defaults[i - required]));
    } else {
      const std::string hint =
          format("parameter '{}' was not provided", f.parameters[i].first->text);
      slot = heap().undefined(heap().copy(std::string_view(hint)));
    }
  }
  return {};
}

Result<Value> Interpreter::call_loop(Loop& loop, const CallArgs& args) {
  const ForStmt& s = *loop.statement;
  if (!s.recursive) return invalid_argument("only a loop marked 'recursive' can be called");
  if (calls_ >= kMaxCalls) return invalid_argument("loops call each other too deeply");
  const std::array<Value, 1> bound = OCTAVO_TRY(bind<1>(args, {"iterable"}, 1));
  Loop* inner = heap().make<Loop>(&s, activate(s.num_slots, loop.activation->outer));
  inner->items = OCTAVO_TRY(iterate(bound[0]));
  inner->filtered = s.test != nullptr;
  inner->depth0 = loop.depth0 + 1;
  TextBuilder text;
  Activation* outer_activation = std::exchange(activation_, inner->activation);
  TextBuilder* outer_out = std::exchange(out_, &text);
  ++calls_;
  const Result<Flow> flow = run_loop(*inner);
  --calls_;
  out_ = outer_out;
  activation_ = outer_activation;
  if (!flow.ok()) return flow.status();
  return make_text(text);
}

}  // namespace octavo::tokenizer::jinja
