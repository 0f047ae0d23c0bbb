// SPDX-License-Identifier: GPL-2.0-only
#include "cli/run.h"

#include <gtest/gtest.h>

#include <new>
#include <sstream>
#include <stdexcept>

#include "cli/exit_status.h"

namespace e4::cli {
namespace {

int run_with(Tool tool, std::string& err) {
  std::istringstream in;
  std::ostringstream out, e;
  Io io{.in = in, .out = out, .err = e};
  const int status = guarded("tool", {}, io, tool);
  err = e.str();
  return status;
}

TEST(CliRun, WhateverIsThrownBecomesOneLineAndStatusEight) {
  std::string err;
  EXPECT_EQ(run_with([](const std::vector<std::string>&, Io&) -> int { throw std::bad_alloc(); }, err), exit_status::kOperational);
  EXPECT_EQ(err, "tool: out of memory\n");
  EXPECT_EQ(run_with([](const std::vector<std::string>&, Io&) -> int { throw std::runtime_error("odd"); }, err),
            exit_status::kOperational);
  EXPECT_EQ(err, "tool: internal error: odd\n");
}

TEST(CliRun, AnOutputThatCannotBeWrittenIsNotSuccess) {
  std::string err;
  const Tool tool = [](const std::vector<std::string>&, Io& io) {
    io.out.setstate(std::ios::badbit);
    return 0;
  };
  EXPECT_EQ(run_with(tool, err), exit_status::kOperational);
}

}  // namespace
}  // namespace e4::cli
