// The program as a user meets it: exit codes, messages, a run on disk, Ctrl-C and resume.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/fields.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/temporary.h"
#include "formats/safetensors.h"

namespace headloom {
namespace {

namespace fs = std::filesystem;

struct Result {
  int code;
  std::string out, err;
};

class Cli : public testing::Test {
 protected:
  Result run(const std::string& arguments) {
    const std::string command = fmt::format("cd {} && {} {} >out.txt 2>err.txt </dev/null",
                                            folder_.path().string(), HEADLOOM_BINARY, arguments);
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read_file(path("out.txt")), read_file(path("err.txt"))};
  }
  /// Starts the program in the background.
  pid_t start(const std::string& arguments) {
    const std::string command = fmt::format("cd {} && exec {} {} 2>/dev/null",
                                            folder_.path().string(), HEADLOOM_BINARY, arguments);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    return child;
  }
  /// Peak of resident memory of one call, in kilobytes.
  long peak_memory(const std::string& arguments) {
    rusage used{};
    int status = 0;
    ::wait4(start(arguments), &status, 0, &used);
    EXPECT_EQ(WEXITSTATUS(status), 0) << arguments;
    return used.ru_maxrss;
  }
  static void wait_for(const fs::path& file) {
    while (!fs::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  fs::path path(const char* name) const { return folder_.path() / name; }
  /// A text and the flags that train on it in a moment.
  void make_text() { ASSERT_EQ(run("corpus --seed 3 --mb 0.1 --out book.txt").code, 0); }
  const std::string tiny_ =
      " --d-model 16 --n-heads 2 --n-layers 2 --context 32 --vocab-size 300 --batch 4 ";

  TemporaryFolder folder_;
};

/// The step losses in a metrics file.
std::vector<double> losses(const fs::path& metrics) {
  std::vector<double> found;
  const std::string text = read_file(metrics);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const Json line = Json::parse(text.substr(begin, end - begin));
    if (line.contains("loss")) found.push_back(line["loss"].get<double>());
    begin = end + 1;
  }
  return found;
}

TEST_F(Cli, SaysInOneLineWhyThereIsNoCard) {
  make_text();
  const Result cuda = run("train book.txt --out run --device cuda " + tiny_);
  if (cuda.code == 0) GTEST_SKIP() << "there is a card here";
  EXPECT_EQ(cuda.code, 2);
  EXPECT_EQ(std::count(cuda.err.begin(), cuda.err.end(), '\n'), 1) << cuda.err;
  EXPECT_NE(cuda.err.find("take --device cpu"), std::string::npos) << cuda.err;
  EXPECT_FALSE(fs::exists(path("run")));
  for (const char* command : {"selftest", "bench peak", "bench train andrea-nano", "bench heads"}) {
    EXPECT_EQ(run(std::string(command) + " --device cuda").code, 2) << command;
  }
  const Result any = run("selftest --only tokenizer --device auto");
  EXPECT_EQ(any.code, 0) << any.err;
  EXPECT_NE(any.err.find("device cpu in fp32, because: "), std::string::npos) << any.err;
  EXPECT_EQ(run("selftest --device tpu").code, 2);
  EXPECT_EQ(run("selftest --precision bf16").code, 2);
  EXPECT_EQ(run("selftest --device auto --precision fp23").code, 2);
}

TEST_F(Cli, WrongUseExitsWithTwo) {
  for (const char* arguments : {"", "weave", "train --no-such-flag", "params nothing-120m",
                                "sample", "train", "params andrea-120m extra", "corpus --mb -1"}) {
    EXPECT_EQ(run(arguments).code, 2) << arguments;
  }
  const Result typo = run("params andrea-12");
  EXPECT_NE(typo.err.find("did you mean andrea-12m?"), std::string::npos) << typo.err;
  EXPECT_NE(run("tarin x").err.find("unknown command tarin, did you mean train?"),
            std::string::npos);
  EXPECT_NE(run("train x --stesp 3").err.find("did you mean --steps?"), std::string::npos);
  make_text();
  const Result config = run("train book.txt --n-heads 11 --n-layers 0");
  EXPECT_EQ(config.code, 2);
  EXPECT_NE(config.err.find("not divisible by n_heads 11"), std::string::npos) << config.err;
  EXPECT_NE(config.err.find("n_layers 0 is too small"), std::string::npos) << config.err;
}

TEST_F(Cli, MissingThingsExitWithOneAndAreNamed) {
  EXPECT_EQ(run("train none.txt").code, 1);
  EXPECT_NE(run("train none.txt").err.find("none.txt"), std::string::npos);
  EXPECT_EQ(run("sample none").code, 1);
  EXPECT_EQ(run("train --resume none").code, 1);
}

TEST_F(Cli, ParamsShowsThePublishedNumbers) {
  const Result result = run("params andrea-120m");
  EXPECT_EQ(result.code, 0);
  for (const char* number : {"2,359,296", "28,311,552", "98,698,752"}) {
    EXPECT_NE(result.out.find(number), std::string::npos) << result.out;
  }
}

TEST_F(Cli, CompletionIsBash) {
  const Result script = run("completion");
  EXPECT_EQ(script.code, 0);
  write_file_atomic(path("completion.sh"), script.out);
  const std::string check = fmt::format(
      "cd {} && bash -c '. ./completion.sh; COMP_WORDS=(headloom train --see); COMP_CWORD=2; "
      "_headloom; "
      "test \"${{COMPREPLY[*]}}\" = --seed'",
      folder_.path().string());
  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST_F(Cli, TrainsSamplesAndResumes) {
  make_text();
  const Result trained =
      run("train book.txt --steps 12 --checkpoint-every 6 --sample-every 6" + tiny_);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.out, "");  // progress goes to stderr
  EXPECT_NE(trained.err.find("validation loss"), std::string::npos);
  for (const char* file : {"config.toml", "tokenizer.json", "metrics.jsonl", "latest/state.json",
                           "latest/model.safetensors", "checkpoints/step-00000006/state.json"}) {
    EXPECT_TRUE(fs::exists(path("runs") / "book" / file)) << file;
  }
  EXPECT_EQ(run("train book.txt --out runs/book").code, 2);  // holds a run already
  const Result sampled = run("sample runs/book --prompt 'the old' --tokens 20 --seed 5");
  EXPECT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_TRUE(sampled.out.starts_with("the old")) << sampled.out;
  EXPECT_EQ(sampled.out, run("sample runs/book --prompt 'the old' --tokens 20 --seed 5").out);
  EXPECT_EQ(run("sample runs/book --temperature nan").code, 2);
  EXPECT_EQ(run("train --resume runs/book --steps 15").code, 0);
  EXPECT_TRUE(fs::exists(path("runs/book/checkpoints/step-00000015")));
  EXPECT_EQ(run("train --resume runs/book --d-model 32").code, 2);
}

TEST_F(Cli, InterruptSavesAndResumeIsBitwiseTheSameRun) {
  make_text();
  const std::string flags =
      " --steps 400 --eval-every 0 --sample-every 0 --checkpoint-every 0" + tiny_;
  ASSERT_EQ(run("train book.txt --out whole" + flags).code, 0);
  const std::string command =
      fmt::format("cd {} && exec {} train book.txt --out cut {} 2>/dev/null",
                  folder_.path().string(), HEADLOOM_BINARY, flags);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  while (!fs::exists(path("cut/metrics.jsonl")) || losses(path("cut/metrics.jsonl")).size() < 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const std::size_t done = losses(path("cut/metrics.jsonl")).size();
  EXPECT_LT(done, 400U);
  ASSERT_EQ(run("train --resume cut").code, 0);
  EXPECT_EQ(losses(path("cut/metrics.jsonl")), losses(path("whole/metrics.jsonl")));
  EXPECT_EQ(read_file(path("cut/latest/model.safetensors")),
            read_file(path("whole/latest/model.safetensors")));
}

TEST_F(Cli, AnExtendedRunGoesOnAfterBeingStoppedAgain) {
  make_text();
  ASSERT_EQ(run("train book.txt --out cut --steps 3 --eval-every 0 --sample-every 0" + tiny_).code,
            0);
  const pid_t child = start("train --resume cut --steps 100000");
  while (losses(path("cut/metrics.jsonl")).size() < 6) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(child, SIGINT);
  ::waitpid(child, nullptr, 0);
  const std::string config = read_file(path("cut/config.toml"));
  EXPECT_NE(config.find("steps = 100000"), std::string::npos) << config;
  EXPECT_NE(config.find("headloom train book.txt"), std::string::npos) << config;
  EXPECT_NE(run("train --resume cut --steps 3").err.find("nothing to do"), std::string::npos);
}

TEST_F(Cli, ResumingNeedsNoMoreMemoryThanTraining) {
  make_text();
  // Parameters of 50 MB beside activations of 5: any second copy of a state would show.
  const std::string big =
      " --d-model 512 --n-heads 8 --n-layers 4 --context 32 --vocab-size 300 --batch 2"
      " --eval-windows 4 --sample-every 0 --out run ";
  const long trained = peak_memory("train book.txt --steps 2" + big);
  const long resumed = peak_memory("train --resume run --steps 4");
  EXPECT_GT(trained, 4 * 50 * 1000);
  EXPECT_LE(resumed, trained + 4000);  // the heap and the stacks are never twice the same
}

TEST_F(Cli, TheMetricsAlsoGoToStandardOutput) {
  make_text();
  const Result result = run("train book.txt --steps 3 --json -q --out run" + tiny_);
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, read_file(path("run/metrics.jsonl")));
}

TEST_F(Cli, ARepetitiveSampleGetsAWarningAndTheMachineIsNamed) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "weave ";
  write_file_atomic(path("loop.txt"), text);
  const Result result =
      run("train loop.txt --tokenizer bytes --steps 300 --sample-every 300 --learning-rate 0.01 "
          "--d-model 16 --n-heads 2 --n-layers 1 --context 64 --batch 4 --out run");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("the sample repeats itself"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("thread"), std::string::npos) << result.err;
}

TEST_F(Cli, ARunWithoutACheckpointBeginsAgain) {
  make_text();
  ASSERT_EQ(run("train book.txt --out whole --steps 4" + tiny_).code, 0);
  fs::copy(path("whole"), path("cut"),
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  fs::remove_all(path("cut/checkpoints"));
  fs::remove(path("cut/latest"));
  ASSERT_EQ(run("train --resume cut").code, 0);
  EXPECT_EQ(losses(path("cut/metrics.jsonl")), losses(path("whole/metrics.jsonl")));
}

TEST_F(Cli, ARefusedRunLeavesTheFolderAsItWas) {
  make_text();
  EXPECT_EQ(
      run("train book.txt --out a --sample-prompt '" + std::string(200, 'x') + "'" + tiny_).code,
      2);
  EXPECT_EQ(run("train book.txt --out a --steps 2" + tiny_).code, 0);
  // The same command with other input: what the run was made from stays.
  std::system(fmt::format("cd {} && {} train - --out piped --steps 2 {} <book.txt 2>/dev/null",
                          folder_.path().string(), HEADLOOM_BINARY, tiny_)
                  .c_str());
  const std::string before = read_file(path("piped/stdin.txt"));
  EXPECT_EQ(run("train - --out piped" + tiny_).code, 2);
  EXPECT_EQ(read_file(path("piped/stdin.txt")), before);
}

TEST_F(Cli, ARunInsideItsOwnCorpusCanBeResumed) {
  make_text();
  fs::create_directory(path("texts"));
  fs::rename(path("book.txt"), path("texts/book.txt"));
  const std::string inside =
      fmt::format("cd {}/texts && {} ", folder_.path().string(), HEADLOOM_BINARY);
  ASSERT_EQ(std::system((inside + "train . --steps 2 -q" + tiny_).c_str()), 0);
  EXPECT_TRUE(fs::exists(path("texts/runs/texts/latest")));
  EXPECT_EQ(std::system((inside + "train --resume runs/texts --steps 3 -q").c_str()), 0);
}

TEST_F(Cli, TheSecondTrainingInAFolderIsRefused) {
  make_text();
  const pid_t child =
      start("train book.txt --out runs/one --steps 1000000 --checkpoint-every 10" + tiny_);
  wait_for(path("runs/one/latest/state.json"));
  const Result second = run("train --resume runs/one");
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("another training is going on"), std::string::npos) << second.err;
  // Sampling is no training: it works meanwhile.
  EXPECT_EQ(run("sample runs/one --tokens 3").code, 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(run("train --resume runs/one --steps 1").code, 0);  // the crash left no lock behind
}

TEST_F(Cli, KilledAtAnyMomentTheNewestCheckpointLoads) {
  make_text();
  const char* soak = std::getenv("HEADLOOM_SOAK");
  const int kills = soak != nullptr ? std::atoi(soak) : 10;
  const std::string flags =
      " --steps 1000000 --eval-every 0 --sample-every 0 --checkpoint-every 1 "
      "--keep-checkpoints 1" +
      tiny_;
  Rng rng(7);
  for (int i = 0; i < kills; ++i) {
    const pid_t child = start(i == 0 ? "train book.txt --out cut" + flags : "train --resume cut");
    wait_for(path("cut/latest/state.json"));
    std::this_thread::sleep_for(std::chrono::microseconds(50'000 + rng.below(100'000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const Result sampled = run("sample cut --tokens 2");
    ASSERT_EQ(sampled.code, 0) << "after kill " << i << ": " << sampled.err;
  }
}

TEST_F(Cli, AFailingCallLeavesTheOldCheckpoint) {
#ifdef HEADLOOM_FAILING_IO
  make_text();
  ASSERT_EQ(run("train book.txt --out good --steps 2 --keep-checkpoints 1" + tiny_).code, 0);
  int failures = 0;
  for (int call = 1;; ++call) {
    ASSERT_LT(call, 500) << "the run never got through";
    fs::remove_all(path("cut"));
    fs::copy(path("good"), path("cut"),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    ::setenv("LD_PRELOAD", HEADLOOM_FAILING_IO, 1);
    ::setenv("FAIL_AT_CALL", std::to_string(call).c_str(), 1);
    const Result result = run("train --resume cut --steps 3 -q");
    ::unsetenv("LD_PRELOAD");
    if (result.code == 0) break;
    ++failures;
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("cut"), std::string::npos) << result.err;
    EXPECT_EQ(run("sample cut --tokens 2").code, 0) << "after failing call " << call;
  }
  EXPECT_GT(failures, 15);
#else
  GTEST_SKIP() << "not under sanitizers";
#endif
}

TEST_F(Cli, AFullDiskAndAFolderThatCannotBeWritten) {
  make_text();
  EXPECT_EQ(run("train book.txt --out /proc/no-such-place" + tiny_).code, 1);
  const fs::path disk = path("disk");
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "needs root";
  const Result result =
      run("train book.txt --out disk/run --steps 9 --checkpoint-every 1 --keep-checkpoints 20"
          " --d-model 32 --n-heads 2 --n-layers 2 --context 32 --vocab-size 300 --batch 4");
  const Result sampled = run("sample disk/run --tokens 2");
  ::umount(disk.c_str());
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
  EXPECT_EQ(sampled.code, 0) << sampled.err;
}

TEST_F(Cli, InputFromStdinAndJsonLines) {
  make_text();
  std::system(fmt::format("cd {} && {} train - --out piped --steps 2 {} <book.txt 2>/dev/null",
                          folder_.path().string(), HEADLOOM_BINARY, tiny_)
                  .c_str());
  EXPECT_TRUE(fs::exists(path("piped/latest")));
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += Json({{"id", i}, {"body", "some words about weaving"}}).dump() + "\n";
  write_file_atomic(path("docs.jsonl"), lines);
  EXPECT_EQ(run("train docs.jsonl --field body --out a --steps 2" + tiny_).code, 0);
  const Result wrong = run("train docs.jsonl --out b --steps 2" + tiny_);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.err.find("docs.jsonl:1"), std::string::npos) << wrong.err;
}

TEST_F(Cli, QuietIsQuietAndDataGoesToStdout) {
  make_text();
  const Result quiet = run("train book.txt --out q -q --steps 2" + tiny_);
  EXPECT_EQ(quiet.err + quiet.out, "");
  const Result plan = run("plan andrea-nano --batch 1 --json");
  EXPECT_EQ(plan.code, 0);
  EXPECT_TRUE(Json::parse(plan.out)["bytes"]["total"].is_number()) << plan.out;
  EXPECT_EQ(run("trace q --json").code, 0);
  EXPECT_EQ(run("selftest").code, 0);
}

TEST_F(Cli, ARunThatCannotFitIsRefusedWithASuggestion) {
  make_text();
  const Result result =
      run("train book.txt --preset andrea-120m --vocab-size 300 --batch 100000 --context 64");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("fits; grad_accum makes up for it"), std::string::npos) << result.err;
}

TEST_F(Cli, AChangedCorpusIsNotResumed) {
  make_text();
  ASSERT_EQ(run("train book.txt --steps 2" + tiny_).code, 0);
  write_file_atomic(path("book.txt"), read_file(path("book.txt")) + "more");
  const Result result = run("train --resume runs/book --steps 4");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("tokens.bin was made from another corpus"), std::string::npos)
      << result.err;
}

TEST_F(Cli, DivergenceExitsWithThreeAndKeepsTheCheckpoint) {
  make_text();
  const Result result = run(
      "train book.txt --steps 200 --learning-rate 1e30 --warmup 0 --clip 0 --checkpoint-every 1" +
      tiny_);
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(result.err.find("first non-finite"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("last good checkpoint is runs/book/checkpoints/step-"),
            std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace headloom
