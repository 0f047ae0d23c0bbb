// SPDX-License-Identifier: GPL-2.0-only
#include "cli/run.h"
#include "fsck/fsck.h"

int main(int argc, char** argv) { return e4::cli::run(argc, argv, e4::fsck::fsck); }
