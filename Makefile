# make demo   build, then compare no control with control at the gateway and at the sources
# make test   every check and test
# make gateway  the gateway daemon for routers: static, without the simulator; make deb, make ipk package it
# make bench  speed on this machine; against ns-3: make bench-ns3

CARGO ?= cargo
TARGET_DIR = $(or $(CARGO_TARGET_DIR),target)
FAIRMESH = $(TARGET_DIR)/release/fairmesh
GATEWAY_TARGET ?= $(shell uname -m)-unknown-linux-musl
GATEWAY = $(TARGET_DIR)/$(GATEWAY_TARGET)/gateway/fairmesh-gateway

.PHONY: demo build gateway deb ipk test check bench bench-ns3 fuzz clean

demo: build
	@$(FAIRMESH) compare scenarios/neighbourhood.toml --control fifo,pfrc+bursts,source --seeds 5 --out results/demo

build:
	@scripts/setup.sh build
	@$(CARGO) build --release --quiet -p fairmesh

gateway:
	@rustup target add $(GATEWAY_TARGET)
	$(CARGO) build --profile gateway --target $(GATEWAY_TARGET) -p fairmesh-agent
	@ls -l $(GATEWAY)

deb: gateway
	packaging/deb/build.sh $(GATEWAY) $(TARGET_DIR)/debian

ipk: gateway
	packaging/openwrt/build.sh $(GATEWAY) $(TARGET_DIR)/openwrt $(firstword $(subst -, ,$(GATEWAY_TARGET)))

check:
	@scripts/setup.sh test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	scripts/purity.sh

test: check build
	$(FAIRMESH) fingerprints
	$(FAIRMESH) validate --quick
	scripts/instructions.sh
	$(CARGO) test --quiet --manifest-path fuzz/Cargo.toml --target-dir target/fuzz
	$(CARGO) test --quiet --workspace --no-fail-fast

bench: build
	$(FAIRMESH) bench

bench-ns3: build
	$(FAIRMESH) bench --against ns3

clean:
	$(CARGO) clean
