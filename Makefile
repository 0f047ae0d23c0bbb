# SPDX-License-Identifier: GPL-2.0-only
# e4progs: one Makefile, no recursion, no list of sources: a .cc is found by its place.
#
#   make                build/bin/{e4mkfs,e4fsck,e4debug,e4replay}, build/lib/libe4.{a,so}
#   make demo           install what is missing, build, show the main job on real input
#   make check          install what is missing, build, run every test; last line is the total
#   make asan|tsan|ubsan    build and run the tests under that sanitizer
#   make mutate         100,000 damaged images through recovery under AddressSanitizer and UBSan
#   make bench|fuzz|coverage|format|lint|tidy|install|clean
#   D=release|debug|asan|tsan|ubsan|fuzz|coverage   variant; V=1 shows commands; CXX=g++|clang++

SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

VERSION := 0.1.0
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
D ?= release
ifeq ($(origin CXX),default)
CXX := g++
endif
Q := $(if $(V),,@)
CCACHE := $(shell command -v ccache 2>/dev/null)
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

flags.release  := -O2 -g1
flags.debug    := -O0 -g -DE4_DEBUG
flags.asan     := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address -DE4_DEBUG
flags.ubsan    := -O1 -g1 -fsanitize=undefined -fno-sanitize-recover=all -DE4_DEBUG
flags.asanubsan := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DE4_DEBUG
flags.tsan     := -O1 -g1 -fsanitize=thread -DE4_DEBUG
flags.fuzz     := -O1 -g1 -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -DE4_DEBUG
flags.coverage := -O0 -g --coverage
$(if $(flags.$D),,$(error D=$D: no such variant))

B := build/$(notdir $(CXX))-$D
# The plain build also lands in build/bin and build/lib, where people look.
OUT := $(if $(filter release,$D),build,$B)

override CPPFLAGS += -iquote lib -iquote tests -iquote . -isystem /usr/include/traceevent -isystem /usr/include/tracefs -MMD -MP -DE4_VERSION='"$(VERSION)"' -D_FILE_OFFSET_BITS=64
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Wunused -Wformat=2 -Werror
ifneq ($(findstring clang,$(CXX)),)
WARN += -Wthread-safety -Wthread-safety-beta -Wno-gnu-statement-expression -Wno-c99-designator -Wno-nested-anon-types
else ifneq ($(findstring san,$D),)
WARN += -Wno-error  # g++'s flow analysis trips over its own instrumentation; other variants keep warnings fatal
endif
# g++'s flow analysis sees ghosts in code that a sanitizer has instrumented.
ifneq ($(filter asan ubsan asanubsan tsan,$D),)
WARN += $(if $(findstring clang,$(CXX)),,-Wno-free-nonheap-object -Wno-maybe-uninitialized)
endif
override CXXFLAGS += -std=c++20 -fPIC -pthread $(flags.$D) $(WARN)
LIBS := -lext2fs -lcom_err -lblkid -lfmt -lzstd -lz
LIBS.replay := -ltracecmd -ltracefs -ltraceevent -ledit
LDFLAGS.all = -pthread $(flags.$D) $(LDFLAGS)

obj = $(patsubst %.cc,$B/%.o,$(sort $(wildcard $1)))
lib_objs   := $(call obj,lib/*/*.cc)
tools      := $(patsubst %/main.cc,%,$(wildcard mkfs/main.cc fsck/main.cc debug/main.cc replay/main.cc))
tool_objs  := $(filter-out %/main.o,$(call obj,mkfs/*.cc fsck/*.cc debug/*.cc replay/*.cc))
main_objs  := $(foreach t,$(tools),$B/$t/main.o)
test_objs  := $(call obj,tests/unit/*_test.cc tests/corpus/*_test.cc tests/live/*_test.cc tests/cli/*_test.cc tests/support/*.cc)
fuzz_srcs  := $(sort $(wildcard tests/fuzz/*_fuzz.cc))
bench_srcs := $(sort $(wildcard tests/bench/*_bench.cc))
all_objs   := $(lib_objs) $(tool_objs) $(main_objs) $(test_objs) $(call obj,$(fuzz_srcs) $(bench_srcs))

LIBA := $(OUT)/lib/libe4.a
LIBSO := $(OUT)/lib/libe4.so.0
BINS := $(tools:%=$(OUT)/bin/e4%)
UNIT := $(OUT)/bin/unit_tests

.PHONY: crash-points all tests deps demo check asan tsan ubsan mutate bench fuzz format lint tidy coverage install clean
all: $(BINS) $(LIBA) $(LIBSO) $(OUT)/lib/libe4.pc

$(LIBA): $(lib_objs) $(wildcard lib/*/.)
	@mkdir -p $(@D)
	$Qrm -f $@ && ar rcs $@ $(filter %.o,$^)
	@echo "  AR      $@"

# A library that needs what it does not name would fail its users only; sanitizers' own symbols come from the program.
no_undefined := -Wl,--no-undefined
ifeq ($(filter release debug,$D),)
no_undefined :=
endif
$(LIBSO): $(lib_objs)
	@mkdir -p $(@D)
	$Q$(CXX) -shared -Wl,-soname,libe4.so.0 $(no_undefined) $(LDFLAGS.all) $^ $(LIBS) $(LIBS.replay) -o $@
	$Qln -sf libe4.so.0 $(@D)/libe4.so
	@echo "  LD      $@"

$(OUT)/lib/libe4.pc: Makefile
	@mkdir -p $(@D)
	$Qprintf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' 'Name: libe4' \
	  'Description: ext4 images, orphans, journal replay and the multi-block allocator, offline' 'Version: $(VERSION)' \
	  'Requires.private: ext2fs com_err blkid fmt libzstd zlib' 'Libs: -L$${libdir} -le4' 'Libs.private: -pthread $(LIBS.replay)' \
	  'Cflags: -I$${includedir}/e4progs -std=c++20' > $@

define tool_rule
$(OUT)/bin/e4$1: $B/$1/main.o $(filter $B/$1/%,$(tool_objs)) $(LIBA)
endef
$(foreach t,$(tools),$(eval $(call tool_rule,$t)))

$(UNIT): $(test_objs) $(tool_objs) $(LIBA)
$(UNIT): LIBS += -lrapidcheck -lgtest -lgmock -lgtest_main

$(BINS) $(UNIT):
	@mkdir -p $(@D)
	$Q$(CXX) $(LDFLAGS.all) $(filter %.o,$^) $(filter %.a,$^) $(LIBS) $(LIBS.replay) -o $@
	@echo "  LD      $@"

$B/%.o: %.cc Makefile
	@mkdir -p $(@D)
	$Q$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) -c $< -o $@
	@echo "  CXX     $<"

tests: all $(UNIT)

# --- fuzz and bench programs: one source, one program -------------------------------------------
$(OUT)/fuzz/%: $B/tests/fuzz/%_fuzz.o $(LIBA)
	@mkdir -p $(@D)
	$Q$(CXX) $(LDFLAGS.all) $(if $(filter fuzz,$D),-fsanitize=fuzzer) $^ $(LIBS) $(LIBS.replay) -o $@
$(OUT)/bench/%: $B/tests/bench/%_bench.o $(tool_objs) $(call obj,tests/support/*.cc) $(LIBA)
	@mkdir -p $(@D)
	$Q$(CXX) $(LDFLAGS.all) $^ $(LIBS) $(LIBS.replay) -lgtest -o $@
.SECONDARY: $(all_objs)

# --- targets for people ---------------------------------------------------------------------------
# Debian packages: to build, to test. Nothing else is needed beyond make, git and apt.
DEPS := g++ pkg-config libext2fs-dev comerr-dev libblkid-dev libcli11-dev libfmt-dev libexpected-dev nlohmann-json3-dev \
  libzstd-dev zlib1g-dev libtracecmd-dev libtracefs-dev libtraceevent-dev libedit-dev libgtest-dev libgmock-dev librapidcheck-dev \
  e2fsprogs zstd mount fdisk util-linux

deps:
	$Qtests/support/install-deps $(DEPS)

JOBS ?= $(shell nproc)
demo: deps
	$Q$(MAKE) --no-print-directory -j$(JOBS) all
	$Qtests/cli/demo

check: deps
	$Q$(MAKE) --no-print-directory -j$(JOBS) tests
	$Qtests/run-all

asan tsan ubsan:
	$Q$(MAKE) --no-print-directory deps
	$Q$(MAKE) --no-print-directory -j$(JOBS) D=$@ tests
	$QE4_BUILD=build/$(notdir $(CXX))-$@ tests/run-all

# mutate: MUTATIONS damaged images, recovered twice each, under AddressSanitizer and UBSan.
MUTATIONS ?= 100000
mutate: deps
	$Q$(MAKE) --no-print-directory -j$(JOBS) D=asanubsan tests
	$Qtests/support/mutate-campaign build/$(notdir $(CXX))-asanubsan/bin/unit_tests $(MUTATIONS) $(JOBS)

# Ten crash points of every recording of a corpus (E4_CORPUS), recovered three ways.
E4_CORPUS ?= ../shared/corpus
crash-points: all
	$QE4_BIN=$(CURDIR)/build/bin E4_RECORDINGS=$(E4_CORPUS)/traces E4_POINTS=10 tests/cli/crash_points.test

bench: deps
	$Q$(MAKE) --no-print-directory -j$(JOBS) all $(bench_srcs:tests/bench/%_bench.cc=build/bench/%)
	$Qtests/bench/run-bench

# libFuzzer needs clang; FUZZ_SECONDS a target.
FUZZ_SECONDS ?= 60
fuzz:
	$Qtests/support/install-deps $(DEPS) clang libclang-rt-14-dev
	$Q$(MAKE) --no-print-directory -j$(JOBS) CXX=clang++ D=fuzz $(fuzz_srcs:tests/fuzz/%_fuzz.cc=build/clang++-fuzz/fuzz/%)
	$Qfor f in $(fuzz_srcs:tests/fuzz/%_fuzz.cc=%); do echo "== $$f"; mkdir -p build/corpus/$$f; \
	  build/clang++-fuzz/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 \
	    build/corpus/$$f $$(test -d tests/fuzz/seeds/$$f && echo tests/fuzz/seeds/$$f) || exit 1; done

coverage:
	$Qtests/support/install-deps $(DEPS) gcovr
	$Q$(MAKE) --no-print-directory -j$(JOBS) D=coverage tests
	$QE4_BUILD=build/$(notdir $(CXX))-coverage tests/run-all
	$Qgcovr -r . --filter 'lib/|mkfs/|fsck/|debug/|replay/' build/$(notdir $(CXX))-coverage --print-summary -o build/coverage.txt

format:
	$Qtests/support/install-deps clang-format
	$Qgit ls-files '*.cc' '*.h' | xargs clang-format -i

# lint: clang's warnings and thread-safety analysis over everything, then clang-tidy.
lint:
	$Qtests/support/install-deps $(DEPS) clang clang-tidy
	$Q$(MAKE) --no-print-directory -j$(JOBS) CXX=clang++ D=debug tests
	$Qgit ls-files 'lib/*.cc' 'mkfs/*.cc' 'fsck/*.cc' 'debug/*.cc' 'replay/*.cc' | \
	  xargs -P$(JOBS) -n4 clang-tidy --quiet -- -std=c++20 -iquote lib -iquote tests -iquote . -DE4_VERSION='""'

# tidy: layers, headers that stand alone, words and paths that do not belong.
tidy:
	$Qtests/support/tidy

install: all
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include/e4progs \
	  $(DESTDIR)$(PREFIX)/share/man/man{3,5,8} $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m755 $(BINS) $(DESTDIR)$(PREFIX)/sbin/
	install -m644 $(LIBA) $(DESTDIR)$(LIBDIR)/
	install -m755 $(LIBSO) $(DESTDIR)$(LIBDIR)/
	ln -sf libe4.so.0 $(DESTDIR)$(LIBDIR)/libe4.so
	sed -e 's|^prefix=.*|prefix=$(PREFIX)|' -e 's|^libdir=.*|libdir=$(LIBDIR)|' $(OUT)/lib/libe4.pc > $(DESTDIR)$(LIBDIR)/pkgconfig/libe4.pc
	cd lib && for h in */*.h; do install -D -m644 $$h $(DESTDIR)$(PREFIX)/include/e4progs/$$h || exit 1; done
	for m in man/*.[358]; do install -m644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/ || exit 1; done
	install -m644 man/completions/* $(DESTDIR)$(PREFIX)/share/bash-completion/completions/

clean:
	rm -rf build

-include $(all_objs:.o=.d)
