# make: build, tidy and the fast tests.  make check: everything CI runs.  make demo: train on 4 processes.
# The work is CMake's; this file only names the ways to call it.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)

.PHONY: all build tidy format test check check-long sanitizers demo docs install bench-peers fuzz clean setup
all: build tidy test

setup:
	@tools/setup build

$(BUILD)/CMakeCache.txt: | setup
	@cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null

build: $(BUILD)/CMakeCache.txt
	@cmake --build $(BUILD) -- --no-print-directory -s

# Layers, formatting, forbidden things: quick checks of the text. (clang-tidy runs in `make check`.)
tidy:
	@tools/tidy

test: build
	@tools/run-tests $(BUILD) -L fast

check: build
	@tools/setup check
	@tools/check $(BUILD)

check-long: build
	@tools/setup check
	@TEST_LONG=1 tools/check $(BUILD)

demo: build
	@tools/setup demo
	@tools/demo $(BUILD)

# What docs has from the command: pictures, and the tables of docs/ALGORITHMS.md.
docs: build
	@tools/draw-algorithms $(BUILD) docs/algorithms
	@tools/draw-layouts $(BUILD) docs/tensors
	@tools/draw-clusters $(BUILD) docs/topology
	@tools/draw-simulation $(BUILD) docs/simulation
	@tools/describe-algorithms $(BUILD) docs/ALGORITHMS.md >$(BUILD)/ALGORITHMS.md
	@cmp -s $(BUILD)/ALGORITHMS.md docs/ALGORITHMS.md || cp $(BUILD)/ALGORITHMS.md docs/ALGORITHMS.md

install: build
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

# The whole table takes hours: PEERS_OPTIONS="--quick", or --ranks 2 --collectives allreduce; tools/bench-peers --help.
bench-peers: build
	@tools/setup peers
	@tools/bench-peers $(BUILD) $(PEERS_OPTIONS)

format:
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i

clean:
	@rm -rf build build-*
