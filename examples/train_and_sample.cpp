// Trains a small model on a text and lets it write.
//   train_and_sample TEXT RUN_FOLDER [STEPS]
#include <headloom/error.h>
#include <headloom/model.h>
#include <headloom/train.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: train_and_sample TEXT RUN_FOLDER [STEPS]\n");
    return 2;
  }
  try {
    headloom::TrainOptions options;
    options.corpus = {argv[1]};
    options.run = argv[2];
    options.settings = {{"steps", argc > 3 ? argv[3] : "300"},
                        {"d_model", "64"},
                        {"n_heads", "4"},
                        {"n_layers", "2"},
                        {"context", "64"}};
    options.quiet = true;
    const double loss = headloom::train(options);
    std::printf("held-out loss %.3f nats a token\n", loss);

    headloom::Model model(argv[2]);
    std::printf("%lld parameters\n", static_cast<long long>(model.parameters()));
    headloom::GenerateOptions writing;
    writing.tokens = 40;
    model.stream("The ", writing,
                 [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); });
    std::printf("\n");
    return 0;
  } catch (const headloom::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
