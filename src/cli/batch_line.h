// A line of `octavo generate`: a request in octavo's own form or in that of OpenAI's batches, and
// what becomes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/mailbox.h"
#include "octavo/request.h"
#include "octavo/status.h"
#include "server/app.h"

namespace octavo::cli {

struct BatchLine {
  int64_t index = 0;   // among the requests, from 0 on
  int64_t number = 0;  // of the line in its file, from 1 on
  std::string text;
  bool too_long = false;
};

struct BatchAnswer {
  std::string text;        // the line to write
  bool failed = false;     // it says why
  Status engine_status;    // not ok: the engine has stopped, and nothing is to be written
  int64_t num_tokens = 0;  // generated
};

using BatchAnswerFn = std::function<void(BatchAnswer answer)>;

// What lines have in common.
struct BatchContext {
  server::App& app;
  Mailbox& mailbox;               // where answers come
  int64_t max_tokens = 0;         // of lines that do not say; 0: what the context holds
  bool debug_page_table = false;  // print it; of lines in octavo's own form
};

// Calls `done` once, by the thread that runs the mailbox or before it returns; `context` must live
// until then.
void answer_line(const BatchContext& context, const BatchLine& line, const BatchAnswerFn& done);

}  // namespace octavo::cli
