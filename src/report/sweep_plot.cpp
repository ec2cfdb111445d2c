#include <algorithm>
#include <cmath>

#include "report/sweep.h"

namespace headloom {
namespace {

constexpr double kWidth = 640, kHeight = 320, kPad = 56;

/// One quantity over the rows: its curve, its axis on one side.
struct Curve {
  const char* label;
  const char* colour;
  bool right;
  std::vector<double> values;
};

double place_x(std::size_t i, std::size_t count) {
  const double steps = std::max<double>(1, static_cast<double>(count) - 1);
  return kPad + static_cast<double>(i) / steps * (kWidth - 2 * kPad);
}

std::string draw(const Curve& curve) {
  const auto [low, high] = std::minmax_element(curve.values.begin(), curve.values.end());
  const double span = *high > *low ? *high - *low : 1;
  const auto y = [&](double value) {
    return kHeight - kPad - (value - *low) / span * (kHeight - 2 * kPad);
  };
  std::string points, dots;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    const double x = place_x(i, curve.values.size());
    points += fmt::format("{:.1f},{:.1f} ", x, y(curve.values[i]));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x,
                        y(curve.values[i]), curve.colour);
  }
  std::string text =
      fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}",
                  points, curve.colour, dots);
  const double side = curve.right ? kWidth - kPad + 8 : 4;
  for (const double value : {*low, *high}) {
    text += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"{}\">{:.4g}</text>\n", side,
                        y(value) + 4, curve.colour, value);
  }
  return text + fmt::format("<text x=\"{:.0f}\" y=\"20\" fill=\"{}\">{}</text>\n",
                            curve.right ? kWidth - 220 : kPad, curve.colour, curve.label);
}

}  // namespace

std::string sweep_svg(const std::vector<SweepRow>& rows) {
  Curve loss{"validation loss, nats a token", "#0072b2", false, {}};
  Curve speed{"tokens a second", "#d55e00", true, {}};
  std::string axis;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    loss.values.push_back(rows[i].validation_loss);
    speed.values.push_back(rows[i].tokens_per_second);
    axis += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                        place_x(i, rows.size()), kHeight - kPad / 2, rows[i].heads);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n{2}{3}{4}<text x=\"{5:.0f}\" y=\"{6:.0f}\" text-anchor=\"middle\">heads, "
      "at "
      "equal parameters and tokens</text>\n</svg>\n",
      kWidth, kHeight, draw(loss), draw(speed), axis, kWidth / 2, kHeight - 8);
}

}  // namespace headloom
