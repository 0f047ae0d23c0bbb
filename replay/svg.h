// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>
#include <utility>
#include <vector>

// The few chart shapes a report needs, as self-contained inline SVG. Colours
// come from CSS classes (s0, s1, ...), so dark mode and print need no second
// drawing. Every mark carries a <title>: a pointer or a screen reader gets the number.
namespace e4::replay::svg {

/// Text made safe for element content and attribute values.
std::string escape(const std::string& text);
/// 1234567 as "1.23 M"; small numbers keep their digits.
std::string short_number(double value);

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending
};
struct LineChart {
  std::string title, x_label, y_label;
  std::vector<Line> lines;
  bool log_x_tail = false;  // x is a percentile: stretch the way to 100
};
std::string line_chart(const LineChart& chart);

struct BarGroup {
  std::string label;
  std::vector<double> values;  // one for each series
};
struct BarChart {
  std::string title, y_label;
  std::vector<std::string> series;
  std::vector<BarGroup> groups;
};
std::string bar_chart(const BarChart& chart);

/// Cells left to right, top to bottom; values 0..1.
std::string heat_map(const std::string& title, const std::vector<float>& cells);

}  // namespace e4::replay::svg
