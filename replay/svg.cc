// SPDX-License-Identifier: GPL-2.0-only
#include "replay/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace e4::replay::svg {
namespace {

constexpr double kWidth = 640, kHeight = 240;
constexpr double kLeft = 64, kRight = 12, kTop = 10, kBottom = 40;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;

std::string open_svg(const std::string& title, double width, double height) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" preserveAspectRatio=\"xMidYMid meet\">"
      "<title>{}</title>",
      width, height, escape(title), escape(title));
}

/// The next 1, 2, 2.5 or 5 times a power of ten at or above `value`.
double nice_ceiling(double value) {
  if (!(value > 0)) return 1;
  const double base = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0})
    if (value <= step * base * (1 + 1e-9)) return step * base;
  return 10 * base;
}

std::string y_axis(double top, const std::string& label) {
  std::string s;
  for (int i = 0; i <= 4; ++i) {
    const double y = kTop + kPlotHeight * (4 - i) / 4.0;
    s += fmt::format("<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                     kLeft + kPlotWidth, y, y);
    s += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 6, y + 4,
                     short_number(top * i / 4.0));
  }
  s += fmt::format("<text class=\"axis\" transform=\"translate(12 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                   kTop + kPlotHeight / 2, escape(label));
  return s;
}

std::string x_label(const std::string& label) {
  return fmt::format("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                     kLeft + kPlotWidth / 2, kHeight - 4, escape(label));
}

std::string legend(const std::vector<std::string>& names) {
  if (names.size() < 2) return "";
  std::string s = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    s += fmt::format("<li><span class=\"key k{}\"></span>{}</li>", i % 6, escape(names[i]));
  return s + "</ul>";
}

/// 0, 90, 99, 99.9 and 99.99 per cent at even distances.
double tail_position(double percentile) {
  const double rest = std::max(100 - percentile, 0.01);
  return (2 - std::log10(rest)) / 4;
}

/// A label under the axis; underscores of the kernel's names become line breaks.
std::string words_below(double x, const std::string& label) {
  std::string s = fmt::format("<text class=\"tick\" y=\"{:.1f}\" text-anchor=\"middle\">", kTop + kPlotHeight + 14);
  for (std::size_t at = 0; at <= label.size();) {
    const std::size_t end = std::min(label.find('_', at), label.size());
    s += fmt::format("<tspan x=\"{:.1f}\" dy=\"{}\">{}</tspan>", x, at == 0 ? 0 : 11, escape(label.substr(at, end - at)));
    at = end + 1;
  }
  return s + "</text>";
}

}  // namespace

std::string escape(const std::string& text) {
  std::string s;
  for (const char c : text) {
    switch (c) {
      case '&': s += "&amp;"; break;
      case '<': s += "&lt;"; break;
      case '>': s += "&gt;"; break;
      case '"': s += "&quot;"; break;
      case '\'': s += "&#39;"; break;
      default: s += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return s;
}

std::string short_number(double v) {
  const double a = std::fabs(v);
  if (a >= 1e9) return fmt::format("{:.3g} G", v / 1e9);
  if (a >= 1e6) return fmt::format("{:.3g} M", v / 1e6);
  if (a >= 1e4) return fmt::format("{:.3g} k", v / 1e3);
  if (a == std::floor(a)) return fmt::format("{:.0f}", v);
  return fmt::format("{:.3g}", v);
}

std::string line_chart(const LineChart& c) {
  double x0 = INFINITY, x1 = -INFINITY, top = 0;
  for (const auto& line : c.lines)
    for (const auto& [x, y] : line.points) {
      x0 = std::min(x0, x);
      x1 = std::max(x1, x);
      if (std::isfinite(y)) top = std::max(top, y);
    }
  if (!(x0 <= x1)) return "<p class=\"none\">no data</p>";
  if (x1 <= x0) x1 = x0 + 1;
  top = nice_ceiling(top);
  auto at_x = [&](double x) {
    return kLeft + kPlotWidth * (c.log_x_tail ? std::clamp(tail_position(x), 0.0, 1.0) : (x - x0) / (x1 - x0));
  };
  auto at_y = [&](double y) { return kTop + kPlotHeight * (1 - std::min(y / top, 1.0)); };
  std::string s = open_svg(c.title, kWidth, kHeight) + y_axis(top, c.y_label);
  if (c.log_x_tail) {
    for (const double p : {0.0, 90.0, 99.0, 99.9, 99.99})
      s += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{:.6g} %</text>", at_x(p),
                       kTop + kPlotHeight + 16, p > 99.95 ? "end" : "middle", p);
  } else {
    for (int i = 0; i <= 5; ++i) {
      const double x = x0 + (x1 - x0) * i / 5;
      s += fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", at_x(x),
                       kTop + kPlotHeight + 16, i == 5 ? "end" : "middle", short_number(x));  // the last would be cut off
    }
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < c.lines.size(); ++i) {
    names.push_back(c.lines[i].name);
    std::string d;
    for (const auto& [x, y] : c.lines[i].points)
      d += fmt::format("{}{:.1f} {:.1f}", d.empty() ? "M" : "L", at_x(x), at_y(std::isfinite(y) ? y : 0));
    s += fmt::format("<path class=\"line s{}\" d=\"{}\"><title>{}</title></path>", i % 6, d, escape(c.lines[i].name));
  }
  return s + x_label(c.x_label) + "</svg>" + legend(names);
}

std::string bar_chart(const BarChart& c) {
  if (c.groups.empty()) return "<p class=\"none\">no data</p>";
  double top = 0;
  for (const auto& g : c.groups)
    for (const double v : g.values) top = std::max(top, v);
  top = nice_ceiling(top);
  std::string s = open_svg(c.title, kWidth, kHeight) + y_axis(top, c.y_label);
  const double slot = kPlotWidth / static_cast<double>(c.groups.size());
  const auto series = static_cast<double>(std::max<std::size_t>(1, c.series.size()));
  const double width = std::min(slot * 0.8 / series, 48.0);
  const std::size_t every = std::max<std::size_t>(1, (c.groups.size() * 44 + 639) / 640);
  for (std::size_t i = 0; i < c.groups.size(); ++i) {
    const auto& g = c.groups[i];
    const double centre = kLeft + slot * (static_cast<double>(i) + 0.5);
    for (std::size_t k = 0; k < g.values.size(); ++k) {
      const double h = kPlotHeight * g.values[k] / top;
      s += fmt::format("<rect class=\"bar s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"1.5\">"
                       "<title>{}{}{}: {}</title></rect>",
                       k % 6, centre + width * (static_cast<double>(k) - series / 2) + 0.5, kTop + kPlotHeight - h,
                       std::max(width - 1, 0.5), h, escape(g.label), c.series.size() > 1 ? ", " : "",
                       c.series.size() > 1 ? escape(c.series[k]) : "", short_number(g.values[k]));
    }
    if (i % every == 0)
      s += words_below(centre, g.label);
  }
  return s + "</svg>" + legend(c.series);
}

std::string heat_map(const std::string& title, const std::vector<float>& cells) {
  if (cells.empty()) return "<p class=\"none\">no data</p>";
  const auto columns = static_cast<std::size_t>(
      std::clamp(std::ceil(std::sqrt(static_cast<double>(cells.size()) * 4)), 1.0, 128.0));
  const std::size_t rows = (cells.size() + columns - 1) / columns;
  const double side = kWidth / static_cast<double>(columns);
  std::string s = open_svg(title, kWidth, side * static_cast<double>(rows));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const double v = std::clamp(static_cast<double>(cells[i]), 0.0, 1.0);
    s += fmt::format("<rect class=\"heat\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
                     "style=\"--v:{:.0f}%\"><title>cell {}: {:.0f} % used</title></rect>",
                     side * static_cast<double>(i % columns), side * static_cast<double>(i / columns), side * 0.94,
                     side * 0.94, v * 100, i, v * 100);
  }
  return s + "</svg>";
}

}  // namespace e4::replay::svg
