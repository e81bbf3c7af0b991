# make demo   build soon, then compare no control with control at the gateway and at the sources
# make test   every check and test
# make gateway  the gateway daemon for routers: static, without the simulator; make deb, make ipk package it
# make test-kernel  the daemon and the emulator on Debian's stock kernels, in virtual machines (make test: the daemon)
# make wheel  the Python package, in target/wheels; make test-python tests it (part of make test)
# make test-explorer  the page of results in Chromium (part of make test)
# make packages  what operators get, built, installed, run and purged (part of make test)
# make manual  man pages and shell completions of both programs, in target/manual
# make validate-ns2  runs the rows of validation/ns2 with ns-2.35 (apt-get install ns2) and compares them with ours
# make bench  speed on this machine; against ns-3: make bench-ns3

CARGO ?= cargo
TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)
FAIRMESH = $(TARGET_DIR)/release/fairmesh
EXPERIMENTS = $(TARGET_DIR)/release/fairmesh-experiments
GATEWAY_TARGET ?= $(shell uname -m)-unknown-linux-musl
GATEWAY_CPU = $(firstword $(subst -, ,$(GATEWAY_TARGET)))
DEB_ARCH_x86_64 = amd64
DEB_ARCH_aarch64 = arm64
DEB_ARCH_mipsel = mipsel
# The kinds of routers that the daemon is built for.
ROUTERS = x86_64-unknown-linux-musl aarch64-unknown-linux-musl mipsel-unknown-linux-musl
GATEWAY = $(TARGET_DIR)/$(GATEWAY_TARGET)/gateway/fairmesh-gateway

.PHONY: demo build build-experiments manual gateway deb ipk packages packages-build test test-build test-release test-packages test-kernels test-programs \
	test-language test-lint test-minimum test-dependencies test-example test-kernel test-python test-explorer wheel tested check bench bench-ns3 validate-ns2 clean

demo:
	@scripts/setup.sh build
	@echo "demo: building the simulator, a few minutes the first time; then 15 runs, seconds" >&2
	@$(CARGO) build --profile demo -p fairmesh --no-default-features
	@$(TARGET_DIR)/demo/fairmesh compare scenarios/neighbourhood.toml --control fifo,pfrc+bursts,source --seeds 5 --all --out results/demo

build:
	@scripts/setup.sh build
	+@$(CARGO) build --release --quiet -p fairmesh

# The product and the experiments: what tests and benchmarks of a release need.
build-experiments:
	@scripts/setup.sh build
	+@$(CARGO) build --release --quiet -p fairmesh -p fairmesh-experiments

gateway:
	@CARGO="$(CARGO)" scripts/gateway.sh $(GATEWAY_TARGET)
	@ls -l $(GATEWAY)

deb: gateway
	DEB_ARCH=$(DEB_ARCH_$(GATEWAY_CPU)) packaging/deb/build.sh $(GATEWAY) $(TARGET_DIR)/debian

manual:
	$(CARGO) run --quiet --profile test -p fairmesh-agent --example manual -- $(TARGET_DIR)/manual
	$(CARGO) run --quiet --profile test -p fairmesh --example manual -- $(TARGET_DIR)/manual

ipk: gateway
	packaging/openwrt/build.sh $(GATEWAY) $(TARGET_DIR)/openwrt $(GATEWAY_CPU)

check:
	@scripts/setup.sh test
	+@$(MAKE) --no-print-directory test-language test-lint test-minimum test-dependencies

test-kernel:
	@scripts/setup.sh test
	CARGO="$(CARGO)" scripts/kernel/test.sh

packages:
	CARGO="$(CARGO)" scripts/packages.sh

# 3: something cannot be fetched here; scripts/packages.sh says what that leaves out.
packages-build:
	@scripts/setup.sh test
	+@CARGO="$(CARGO)" scripts/gateway.sh $(ROUTERS) || [ $$? = 3 ]

test-build:
	+@CARGO="$(CARGO)" scripts/tests.py --build

# What make test does, each as soon as what it runs is built.
test-release: build-experiments
	$(FAIRMESH) fingerprints
	$(EXPERIMENTS) validate --quick
	scripts/instructions.sh

# After the release, whose artifacts the wheel is built from.
test-python: build-experiments
	@scripts/setup.sh test
	+CARGO="$(CARGO)" scripts/python.sh

# The page of results in a browser, made by the release.
test-explorer: build-experiments
	@scripts/setup.sh test
	scripts/explorer.sh

wheel:
	@scripts/setup.sh build
	+@CARGO="$(CARGO)" scripts/python.sh wheel

test-packages: packages-build
	CARGO="$(CARGO)" scripts/packages.sh

# With the tests as they are built for this machine; what takes minutes more is left to make test-kernel.
test-kernels: test-build packages-build
	CARGO="$(CARGO)" FAIRMESH_KERNEL_BUILT=--workspace FAIRMESH_KERNEL_PROGRAMS='classifier|gateway|kernel|system' scripts/kernel/test.sh

test-programs: test-build
	CARGO="$(CARGO)" scripts/tests.py --built

# Cargo does one thing at a time in a folder: within make test this waits for what the tests wait for.
test-lint: $(if $(filter tested,$(MAKECMDGOALS)),test-build)
	$(CARGO) fmt --all --check
	+$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	+$(CARGO) clippy --quiet --package fairmesh --package fairmesh-experiments --no-default-features -- -D warnings
	+RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps
	+scripts/purity.sh

# Words, first lines of doc comments, spelling, commit subjects; seconds.
test-language:
	scripts/language.sh

# With the oldest Rust that Cargo.toml names; artifacts of their own, since each compiler rebuilds all.
test-minimum:
	+@scripts/setup.sh minimum
	+@scripts/minimum.sh

# A mechanism in a crate outside of the workspace, built and compared with shipped ones.
test-example: $(if $(filter tested,$(MAKECMDGOALS)),test-build)
	+CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) test --quiet --manifest-path examples/own-mechanism/Cargo.toml
	+CARGO_TARGET_DIR=$(abspath $(TARGET_DIR)) $(CARGO) run --quiet --manifest-path examples/own-mechanism/Cargo.toml

test-dependencies:
	+@scripts/setup.sh dependencies
	scripts/dependencies.sh

# In the order in which they begin: what others wait for, and what takes longest, first.
tested: test-programs packages-build test-release test-kernels test-packages test-language test-lint test-minimum test-dependencies test-example test-python test-explorer

# Linking a release takes one core for minutes, and tests wait for the kernel, so three things go on at a time.
# Emulation in real time comes last, with the machine for itself.
test:
	@scripts/setup.sh test
	+@$(MAKE) --no-print-directory --jobs=3 --output-sync=line tested
	CARGO="$(CARGO)" scripts/tests.py --built --alone

bench: build-experiments
	$(EXPERIMENTS) bench

# Rows that cannot be run are reported as such; the comparison follows in any case.
validate-ns2: build-experiments
	-python3 validation/ns2/run.py
	$(EXPERIMENTS) validate --reference validation/ns2

bench-ns3: build-experiments
	$(EXPERIMENTS) bench --against ns3

clean:
	$(CARGO) clean
