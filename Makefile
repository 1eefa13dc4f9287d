# make build: the library and the command.  make: everything, tidy and the fast tests.  make check: all that CI runs.
# make check-torch: the torch backend. make check-mpi: programs of MPI. make demo: trains a network on 4 processes.
# make deb: packages for Debian.
# CMake does the work; this file only calls it.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)

.PHONY: all build everything tidy format test check check-long check-torch check-mpi demo docs deb install uninstall bench-peers clean setup
all: everything tidy test

setup:
	@tools/setup build

# The configuration for users: without tests and warnings.
$(BUILD)/CMakeCache.txt: | setup
	@cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) -DTUTTI_TESTS=OFF -DTUTTI_WARNINGS=OFF >/dev/null

build: $(BUILD)/CMakeCache.txt
	@cmake --build $(BUILD) --target tutti tutti_static tutti_cli doors -- --no-print-directory -s

# The library, the command, the examples and the tests, with warnings.
everything: $(BUILD)/CMakeCache.txt
	@grep -q TUTTI_WARNINGS:BOOL=ON $(BUILD)/CMakeCache.txt || \
		cmake -S . -B $(BUILD) -DTUTTI_TESTS=ON -DTUTTI_WARNINGS=ON >/dev/null
	@cmake --build $(BUILD) -- --no-print-directory -s

# Quick checks of the text. `make check` also runs clang-tidy.
tidy:
	@tools/tidy

test: everything
	@tools/run-tests $(BUILD) -L fast

check: setup
	@tools/setup check
	@tools/check $(BUILD)

check-long: setup
	@tools/setup check deb aarch64
	@TEST_LONG=1 tools/check $(BUILD)

# The backend of torch.distributed, with PyTorch's own tests, on torch 1.13 and 2.6. Takes up to two hours.
check-torch:
	@tools/check-torch

# Programs of MPI with their collectives on tutti, under Open MPI and MPICH. Takes up to an hour.
check-mpi:
	@BUILD=$(BUILD) tools/check-mpi

demo: build
	@tools/setup demo
	@tools/demo $(BUILD)

# The parts of docs that the command makes: pictures, and the tables of docs/ALGORITHMS.md. The picture of performance
# shows the table docs/performance.tsv.
docs: everything
	@tools/draw-algorithms $(BUILD) docs/algorithms
	@tools/draw-layouts $(BUILD) docs/tensors
	@tools/draw-clusters $(BUILD) docs/topology
	@tools/draw-simulation $(BUILD) docs/simulation
	@$(BUILD)/tutti plan reduce.binomial -n 6 --order canonical --as svg >docs/order.svg
	@tools/describe-algorithms $(BUILD) docs/ALGORITHMS.md >$(BUILD)/ALGORITHMS.md
	@cmp -s $(BUILD)/ALGORITHMS.md docs/ALGORITHMS.md || cp $(BUILD)/ALGORITHMS.md docs/ALGORITHMS.md
	@if command -v python3 >/dev/null; \
	then python3 tools/bench-peers --read-table docs/performance.tsv --svg docs/performance.svg >/dev/null; \
	else echo "make docs: python3 not found; docs/performance.svg is not drawn"; fi

install: build
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

# Removes the files that `make install` has installed, and the folders of the library that are then empty.
uninstall:
	@tools/uninstall $(BUILD) $(DESTDIR)

# Packages for Debian, in BUILD/deb. The version is taken from git.
deb:
	@tools/setup deb
	@tools/deb $(BUILD)/deb

# The whole table takes hours. PEERS_OPTIONS selects a part, for example "--quick" or "--ranks 2 --collectives
# allreduce"; "--hosts 2x1" compares on several hosts, "--busy 1,pool" beside other programs. tools/bench-peers --help lists
# the options.
bench-peers: build
	@tools/setup peers
	@tools/bench-peers $(BUILD) $(PEERS_OPTIONS)

format:
	@git ls-files '*.c' '*.h' '*.cpp' '*.hpp' | xargs clang-format -i

clean:
	@rm -rf build build-*
