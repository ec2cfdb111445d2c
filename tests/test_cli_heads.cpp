// The commands of the head microscope as a user meets them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "base/fields.h"
#include "base/files.h"
#include "base/temporary.h"

namespace headloom {
namespace {

struct Result {
  int code;
  std::string out, err;
};

class HeadsCli : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run("corpus --seed 3 --mb 0.1 --out book.txt").code, 0);
    const Result trained = run("train book.txt --out run --probe-every 5" + tiny_);
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
  Result run(const std::string& arguments) {
    const std::string command = fmt::format("cd {} && {} {} >out.txt 2>err.txt </dev/null",
                                            folder_.path().string(), HEADLOOM_BINARY, arguments);
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), text("out.txt"), text("err.txt")};
  }
  std::string text(const char* name) const { return read_file(folder_.path() / name); }
  Json json(const std::string& arguments) {
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << arguments << ": " << result.err;
    return Json::parse(result.out);
  }
  const std::string tiny_ =
      " --d-model 16 --n-heads 4 --n-layers 2 --context 32 --vocab-size 300 --batch 4 --steps 10"
      " --checkpoint-every 5 --sample-every 0";

  TemporaryFolder folder_;
};

TEST_F(HeadsCli, TrainingLeavesALineForEveryLook) {
  const std::string lines = text("run/heads.jsonl");
  const Json first = Json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(first["step"], 5);
  ASSERT_EQ(first["heads"].size(), 8U);
  for (const char* key : {"gradient_share", "update_share", "entropy", "distance", "confidence",
                          "sink", "redundancy", "importance", "lift"}) {
    EXPECT_TRUE(first["heads"][0].contains(key)) << key;
  }
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST_F(HeadsCli, ExaminesOneCheckpointOrSeveralAsTableJsonAndCsv) {
  const std::string small = " --text book.txt --sequences 8";
  EXPECT_NE(run("heads run" + small).out.find("L1H3"), std::string::npos);
  const Json one = json("heads run --json --text book.txt");
  EXPECT_EQ(one["heads"].size(), 8U);
  bool tense = false;
  for (const Json& p : one["heads"][0]["patterns"]) tense = tense || p["pattern"] == "tense";
  EXPECT_TRUE(tense) << "the truth beside the text was not read";
  const Json two = json("heads run --json --step 5 --step 10 --head L0H1" + small);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1]["step"], 10);
  EXPECT_EQ(two[0]["heads"].size(), 1U);
  EXPECT_EQ(run("heads run --csv" + small).out.find("step,head,role"), 0U);
  const Result wrong = run("heads run --head L7H0" + small);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("L0H0 to L1H3"), std::string::npos) << wrong.err;
}

TEST_F(HeadsCli, AblatesHeadsPairsAndLayers) {
  const std::string small = " --text book.txt --sequences 8 --json";
  EXPECT_EQ(json("ablate run" + small)["ablations"].size(), 4U * 8);
  EXPECT_EQ(json("ablate run --layers --kind zero" + small)["ablations"].size(), 2U);
  const Json pairs = json("ablate run --pairs --kind mean --head L0H0 --head L0H1" + small);
  ASSERT_EQ(pairs["ablations"].size(), 1U);
  EXPECT_TRUE(pairs["ablations"][0].contains("beyond_the_two"));
  EXPECT_EQ(run("ablate run --kind nothing" + small).code, 2);
}

TEST_F(HeadsCli, PrunesAndTrainsOn) {
  const Json pruned = json(
      "prune run --keep 0.5 --out small --text book.txt --sequences 8 --json -q"
      " --finetune 3");
  EXPECT_EQ(pruned["heads"], Json({8, 4}));
  EXPECT_NEAR(pruned["loss"][1].get<double>(), pruned["loss_gated"].get<double>(), 1e-4);
  EXPECT_LT(pruned["parameters"][1], pruned["parameters"][0]);
  EXPECT_NE(text("small/metrics.jsonl").find("\"step\":3"), std::string::npos);
  EXPECT_EQ(run("prune run --out small").code, 2);  // holds a run
}

TEST_F(HeadsCli, ReportsInOnePage) {
  const Result result = run("report run --text book.txt --sequences 8 -o page.html");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("Of 8 heads"), std::string::npos);
  EXPECT_NE(result.out.find("over 2 looks during training"), std::string::npos) << result.out;
  const std::string page = text("page.html");
  const std::size_t begin = page.find("id=\"data\">") + 10;
  const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["timeline"]["heads"].size(), 2U);
  EXPECT_EQ(data["claim"].size(), 2U);
  EXPECT_EQ(data["pruning"].size(), 4U);
  EXPECT_EQ(data["shown"][0]["patterns"].size(), 8U);
}

TEST_F(HeadsCli, SweepsOverNumbersOfHeadsAndKeepsWhatIsThere) {
  const std::string command =
      "sweep book.txt --out sweep --sequences 8 --text book.txt --json --d-model 16 --n-layers 1"
      " --context 32 --vocab-size 300 --batch 4 --steps 4 --sample-every 0 --n-heads ";
  const Json two = json(command + "1,4")["sweep"];
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0]["parameters"], two[1]["parameters"]);
  EXPECT_EQ(two[1]["head_dim"], 4);
  EXPECT_NE(text("sweep/sweep.svg").find("<svg"), std::string::npos);
  const Json three = json(command + "1,2,4")["sweep"];
  EXPECT_EQ(three.size(), 3U);
  EXPECT_EQ(three[0]["validation_loss"], two[0]["validation_loss"]);
  EXPECT_EQ(run(command + "3").code, 2);
}

}  // namespace
}  // namespace headloom
