// One function a command; main.cpp has the table. argv[0] is the command's name.
#pragma once

namespace octavo::cli {

int run_bench(int argc, const char* const* argv);
int run_bench_kernels(int argc, const char* const* argv);     // of run_bench
int run_bench_serve(int argc, const char* const* argv);       // of run_bench
int run_bench_throughput(int argc, const char* const* argv);  // of run_bench
int run_detokenize(int argc, const char* const* argv);
int run_doctor(int argc, const char* const* argv);
int run_eval(int argc, const char* const* argv);
int run_generate(int argc, const char* const* argv);
int run_inspect(int argc, const char* const* argv);
int run_list(int argc, const char* const* argv);
int run_logits(int argc, const char* const* argv);
int run_pull(int argc, const char* const* argv);
int run_remove(int argc, const char* const* argv);
int run_remote_chat(int argc, const char* const* argv);
int run_remote_complete(int argc, const char* const* argv);
int run_run(int argc, const char* const* argv);
int run_serve(int argc, const char* const* argv);
int run_template(int argc, const char* const* argv);
int run_tokenize(int argc, const char* const* argv);

}  // namespace octavo::cli
